/* emu_faults_copy.cu - faults of asynchronous copies: what is not waited for (E05), and what is left over (E10). */
#include "emu_mark.cuh"
#include "ptx/copy.h"

namespace FA_KERNEL_NAMESPACE {

typedef struct cells {
  uint32_t x[64][4];
} cells_t; /* 64 x 16 bytes */

FA_DEVICE void fetch(cells_t &s, fault_memory_t m, int t) {
  fault_mark(0, __LINE__ + 1);
  cp_async_16(&s.x[t], m.filled + 4 * t, 16);
  cp_async_commit();
}

/* Thread t of the block, whose copy to s.x[t] is under way. */
#define FETCH(s, t)                                                                                          \
  SHARED_DYN(cells_t, s);                                                                                    \
  const int t = threadIdx.x;                                                                                 \
  fetch(s, m, t)

KERNEL(not_waited_for) {
  FETCH(s, t);
  if (!WRONG) cp_async_wait<0>();
  AT(1), m.filled[1024 + t] = s.x[t][0];
  cp_async_wait<0>();
}

/* The group that is waited for is the one before. */
KERNEL(one_too_many_pending) {
  FETCH(s, t);
  cp_async_wait<WRONG ? 1 : 0>();
  AT(1), m.filled[1024 + t] = s.x[t][0];
  cp_async_wait<0>();
}

/* Two may be under way, and it is the second of three that is read. */
KERNEL(second_of_three) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  if (t >= 20) return; /* of 64 cells, each takes three */
  for (int n = 0; n < 3; n++) {
    if (n == 1) fault_mark(0, __LINE__ + 1);
    cp_async_16(&s.x[3 * t + n], m.filled + 4 * t, 16);
    cp_async_commit();
  }
  cp_async_wait<2>();
  AT(1), m.filled[1024 + t] = s.x[3 * t + (WRONG ? 1 : 0)][0];
  cp_async_wait<0>();
}

/* Some lanes commit a group more than the others: what each waited for is not the same number. */
KERNEL(groups_of_some_lanes) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  if (t < 16) {
    AT(0), cp_async_16(&s.x[t], m.filled + 4 * t, 16);
    cp_async_commit();
  }
  cp_async_16(&s.x[32 + t], m.filled + 4 * t, 16);
  cp_async_commit();
  if (WRONG)
    cp_async_wait<2>();
  else
    cp_async_wait<1>();
  __syncwarp();
  AT(1), m.filled[1024 + t] = s.x[t / 2][0];
  cp_async_wait<0>();
}

/* More groups than an epoch can be counted to. */
KERNEL(very_many_groups) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  for (int n = 0; n < (1 << 18) - 1; n++) cp_async_commit();
  AT(0), cp_async_16(&s.x[t], m.filled + 4 * t, 16);
  cp_async_commit();
  cp_async_wait<0>();
  m.filled[1024 + t] = s.x[WRONG ? t + 32 : t][0];
}

KERNEL(never_committed) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  AT(0), cp_async_16(&s.x[t], m.filled + 4 * t, 16);
  if (!WRONG) cp_async_commit();
  cp_async_wait<0>();
  AT(1), m.filled[1024 + t] = s.x[t][0];
  cp_async_commit();
  cp_async_wait<0>();
}

/* Each thread waits for its own copies only. */
KERNEL(one_lane_waits_for_nothing) {
  FETCH(s, t);
  if (!WRONG || t != 3) cp_async_wait<0>();
  __syncthreads();
  AT(1), m.filled[1024 + t] = s.x[63 - t][0];
  cp_async_wait<0>();
}

KERNEL(no_barrier_after_wait) {
  FETCH(s, t);
  cp_async_wait<0>();
  if (!WRONG) __syncthreads();
  AT(1), m.filled[1024 + t] = s.x[63 - t][0];
}

KERNEL(barrier_before_wait) {
  FETCH(s, t);
  if (WRONG) __syncthreads();
  cp_async_wait<0>();
  if (!WRONG) __syncthreads();
  AT(1), m.filled[1024 + t] = s.x[63 - t][0];
}

KERNEL(other_lane_reads) {
  FETCH(s, t);
  cp_async_wait<0>();
  if (!WRONG) __syncwarp();
  AT(1), m.filled[1024 + t] = s.x[31 - t][0];
}

KERNEL(overwritten) {
  FETCH(s, t);
  if (!WRONG) cp_async_wait<0>();
  AT(1), s.x[t][0] = 7;
  cp_async_wait<0>();
}

/* The next tile's copy begins while others still read this one. */
KERNEL(copied_over_readers) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  uint32_t sum = 0;
  for (int round = 0; round < 2; round++) {
    fetch(s, m, t);
    cp_async_wait<0>();
    __syncthreads();
    AT(1), sum += s.x[63 - t][0];
    if (!WRONG) __syncthreads();
  }
  m.filled[1024 + t] = sum;
}

/* The source may not change either while a copy is under way. */
KERNEL(source_overwritten) {
  FETCH(s, t);
  if (!WRONG) cp_async_wait<0>();
  AT(1), m.filled[4 * t] = 7;
  cp_async_wait<0>();
}

KERNEL(source_overwritten_by_another) {
  FETCH(s, t);
  if (WRONG) __syncthreads();
  cp_async_wait<0>();
  if (!WRONG) __syncthreads();
  AT(1), m.filled[4 * (63 - t)] = 7;
}

/* Only half the lanes copy, commit and wait; the barrier is for all. */
KERNEL(half_the_lanes) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  if (t % 2) {
    fetch(s, m, t);
    if (!WRONG) cp_async_wait<0>();
  }
  __syncthreads();
  AT(1), m.filled[1024 + t] = s.x[(63 - t) | 1][0];
  if (t % 2) cp_async_wait<0>();
}

KERNEL(outstanding) {
  FETCH(s, t);
  cp_async_commit(); /* an empty group may be left over at the end */
  cp_async_wait<WRONG ? 2 : 1>();
}

KERNEL(outstanding_uncommitted) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  cp_async_16(&s.x[t], m.filled + 4 * t, 16);
  if (!WRONG) cp_async_commit();
  cp_async_wait<0>();
}

} // namespace FA_KERNEL_NAMESPACE

using namespace FA_KERNEL_NAMESPACE;

const fault_t faults_copy[] = {
    {"copy not waited for", "E05", "cp.async", 2, 80, FAULT(not_waited_for, 64, sizeof(cells_t))},
    {"copy still pending", "E05", "cp.async", 2, 80, FAULT(one_too_many_pending, 64, sizeof(cells_t))},
    {"groups of some lanes", "E05", "cp.async", 2, 80, FAULT(groups_of_some_lanes, 32, sizeof(cells_t))},
    {"the second of three copies", "E05", "cp.async", 2, 80, FAULT(second_of_three, 32, sizeof(cells_t))},
    {"very many groups", "E08", "never written", 0, 80, FAULT(very_many_groups, 32, sizeof(cells_t))},
    {"copy never committed", "E05", "cp.async", 2, 80, FAULT(never_committed, 64, sizeof(cells_t))},
    {"one lane does not wait", "E05", "cp.async", 2, 80,
     FAULT(one_lane_waits_for_nothing, 64, sizeof(cells_t))},
    {"no barrier after the wait", "E05 E08", "cp.async", 2, 80,
     FAULT(no_barrier_after_wait, 64, sizeof(cells_t))},
    {"barrier before the wait", "E05", "cp.async", 2, 80, FAULT(barrier_before_wait, 64, sizeof(cells_t))},
    {"no __syncwarp after the wait", "E05 E08", "cp.async", 2, 80,
     FAULT(other_lane_reads, 32, sizeof(cells_t))},
    {"copy written over", "E05", "cp.async", 2, 80, FAULT(overwritten, 64, sizeof(cells_t))},
    {"copy over what is read", "E05", "cp.async", 2, 80, FAULT(copied_over_readers, 64, sizeof(cells_t))},
    {"source of a copy written", "E05", "global memory", 2, 80,
     FAULT(source_overwritten, 64, sizeof(cells_t))},
    {"source written by another", "E05", "global memory", 2, 80,
     FAULT(source_overwritten_by_another, 64, sizeof(cells_t))},
    {"half the lanes copy", "E05", "cp.async", 2, 80, FAULT(half_the_lanes, 64, sizeof(cells_t))},
    {"outstanding at the end", "E10", "cp.async", 0, 80, FAULT(outstanding, 64, sizeof(cells_t))},
    {"outstanding without a group", "E10", "cp.async", 0, 80,
     FAULT(outstanding_uncommitted, 64, sizeof(cells_t))},
    {NULL, NULL, NULL, 0, 0, NULL},
};
