/* emu_faults_race.cu - faults of order: data races (E04). */
#include "emu_mark.cuh"
#include "ptx/atomic.h"
#include "ptx/barrier.h"
#include "ptx/matrix.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

namespace FA_KERNEL_NAMESPACE {

typedef uint32_t words_t[256];
typedef struct cells {
  uint32_t x[64][4];
} cells_t; /* 64 x 16 bytes */

/* --- E04, shared memory ----------------------------------------------------------------------------------- */

KERNEL(warps_read) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  AT(0), s[t] = m.filled[t];
  if (!WRONG) __syncthreads();
  AT(1), m.filled[t] = s[63 - t];
}

/* A barrier for a warp is none for two. */
KERNEL(warps_read_after_syncwarp) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  AT(0), s[t] = m.filled[t];
  if (WRONG) __syncwarp();
  if (!WRONG) __syncthreads();
  AT(1), m.filled[t] = s[63 - t];
}

/* Who arrives at a barrier is promised nothing. */
KERNEL(arrived_and_read) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  AT(0), s[t] = m.filled[t];
  if (WRONG && t < 32)
    bar_arrive(1, 64);
  else
    bar_sync(1, 64);
  AT(1), m.filled[t] = s[63 - t];
}

/* The buffer is full, but is it empty again? */
KERNEL(arrived_and_filled) {
  enum { EMPTY = 1, FULL = 2 };
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  for (int round = 0; round < 2; round++)
    if (t < 32) {
      if (round && !WRONG) bar_sync(EMPTY, 64);
      AT(0), s[t] = m.filled[t];
      bar_arrive(FULL + round, 64);
    } else {
      bar_sync(FULL + round, 64);
      AT(1), m.filled[t] = s[63 - t];
      if (!round) bar_arrive(EMPTY, 64);
    }
}

/* The second barrier of a buffer that is filled again. */
KERNEL(filled_too_early) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t sum = 0;
  for (int round = 0; round < 3; round++) {
    AT(0), s[t] = m.filled[t] + (uint32_t)round;
    __syncthreads();
    AT(1), sum += s[63 - t];
    if (!WRONG) __syncthreads();
  }
  m.filled[t] = sum;
}

KERNEL(two_warps_write) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  AT(0), s[WRONG ? t % 32 : t] = 1;
  __syncthreads();
  m.filled[t] = s[t % 32];
}

KERNEL(lanes_read) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  AT(0), s[t] = m.filled[t];
  if (!WRONG) __syncwarp();
  AT(1), m.filled[t] = s[31 - t];
}

/* A shuffle brings lanes together, but promises nothing about memory. */
KERNEL(lanes_read_after_shuffle) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  AT(0), s[t] = m.filled[t];
  if (WRONG)
    (void)shfl_xor_f32(0, 1);
  else
    __syncwarp();
  AT(1), m.filled[t] = s[31 - t];
}

/* Every lane reads, then one of them writes: it may run ahead of the others. */
KERNEL(lane_writes_what_all_read) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  s[t] = m.filled[t];
  __syncwarp();
  AT(0), m.filled[32 + t] = s[5];
  if (!WRONG) __syncwarp();
  if (t == 30) AT(1), s[5] = 1; /* in order, lane 31 is the last to come to __syncwarp, and goes on first */
}

KERNEL(lane_writes_what_it_read) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  s[t] = m.filled[t];
  if (t == 7) s[t] += 2;
  __syncwarp();
  AT(0), m.filled[32 + t] = s[WRONG ? 7 : t];
  if (t == 7) AT(1), s[7] = 1;
}

KERNEL(wide_store_and_read) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  const uint32_t x[4] = {1, 2, 3, 4};
  float y[4];
  AT(0), st_shared_b32x4(&s.x[t], x);
  if (!WRONG) __syncthreads();
  AT(1), ld_shared_f32x4(y, &s.x[63 - t]);
  m.filled[t] = fa_float_bits(y[0]);
}

/* 16 bytes that were written in one piece have four words: only who uses the same one must wait. */
KERNEL(part_of_wide_store) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  const uint32_t x[4] = {1, 2, 3, 4};
  uint32_t y = 0;
  if (t < 32) st_shared_b32x4(&s.x[t], x);
  __syncthreads();
  if (t >= 32)
    AT(0), s.x[t - 32][1] = 7;
  else
    AT(1), y = s.x[t][WRONG ? 1 : 2];
  __syncthreads();
  if (t >= 32) st_shared_b32x4(&s.x[t - 32], x);
  m.filled[t] = y;
}

/* And who uses all of them must wait for each. */
KERNEL(wide_read_of_parts) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  float y[4];
  for (int n = 0; n < 4; n++) s.x[t][n] = 1;
  __syncthreads();
  AT(0), s.x[t][t % 4] = 7;
  if (!WRONG) __syncthreads();
  AT(1), ld_shared_f32x4(y, &s.x[63 - t]);
  m.filled[t] = fa_float_bits(y[0]);
}

/* Of two warps that read, the one that read first writes: the other may not have read yet. */
KERNEL(first_reader_writes) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t x = 0;
  s[t] = m.filled[t];
  __syncthreads();
  if (t >= 32) {
    x = s[t];
    bar_sync(1, 64);
    AT(1), s[t] = x + 1;
  } else {
    if (WRONG) bar_arrive(1, 64);
    AT(0), x = s[t + 32];
    if (!WRONG) bar_arrive(1, 64);
  }
  m.filled[t] = x;
}

/* Neighbours of 16 bits in one word are two places. */
KERNEL(neighbours) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  AT(0), ((uint16_t *)s)[WRONG ? t / 2 : t] = (uint16_t)t;
  __syncthreads();
  m.filled[t] = s[t / 2];
}

/* The lane that names a row of ldmatrix does not get that row: others do. */
KERNEL(matrix_of_own_rows) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  uint32_t x[4] = {1, 2, 3, 4};
  AT(0), st_shared_b32x4(&s.x[t], x);
  if (!WRONG) __syncwarp();
  AT(1), ldmatrix_x4(x, &s.x[t]);
  m.filled[t] = x[0];
}

/* Nor does it give what lies there after stmatrix. */
KERNEL(own_row_of_matrix) {
  SHARED_DYN(cells_t, s);
  const int t = threadIdx.x;
  const uint32_t x[4] = {1, 2, 3, 4};
  AT(0), stmatrix_x4(&s.x[t], x);
  if (!WRONG) __syncwarp();
  AT(1), m.filled[t] = s.x[t][0];
}

/* With a size that is known only when the kernel runs: a call of the library, if the emulator let it. */
KERNEL(set_and_copied) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  const size_t bytes = 8 * blockDim.x; /* 512: all that the block writes */
  if (t == 0) AT(0), memset(s, 7, bytes);
  if (!WRONG) __syncthreads();
  if (t == 32) AT(1), memcpy(m.filled, s, bytes);
}

/* --- E04, global memory ----------------------------------------------------------------------------------- */

KERNEL(blocks_write) {
  const int t = threadIdx.x;
  AT(0), m.filled[WRONG ? t : (int)blockIdx.x * 32 + t] = blockIdx.x;
}

KERNEL(blocks_read) {
  const int t = threadIdx.x;
  AT(0), m.filled[blockIdx.x * 32 + t] = 5;
  AT(1), m.filled[512 + blockIdx.x * 32 + t] = m.filled[(WRONG ? 31 - t : t) + 32 * (WRONG ? 0 : blockIdx.x)];
}

KERNEL(part_of_wide_read) {
  const int t = threadIdx.x;
  uint32_t x[4], y = 0;
  ld_global_b32x4(x, m.filled + 4 * t);
  __syncthreads();
  if (t >= 32)
    AT(0), m.filled[4 * (t - 32) + 1] = x[0];
  else
    AT(1), y = m.filled[4 * t + (WRONG ? 1 : 2)];
  __syncthreads();
  ld_global_b32x4(x, m.filled + 4 * (63 - t));
  m.filled[512 + t] = x[1] + y;
}

KERNEL(warps_read_global) {
  const int t = threadIdx.x;
  AT(0), m.filled[t] = 5;
  if (!WRONG) __syncthreads();
  AT(1), m.filled[512 + t] = m.filled[63 - t];
}

/* As first_reader_writes; here the writer has also read last. */
KERNEL(last_reader_writes_global) {
  const int t = threadIdx.x;
  uint32_t x = 0;
  if (t < 32) {
    bar_sync(1, 64);
    x = m.filled[t];
    AT(1), m.filled[t] = x + 1;
  } else {
    if (WRONG) bar_arrive(1, 64);
    AT(0), x = m.filled[t - 32];
    if (!WRONG) bar_arrive(1, 64);
  }
  m.filled[512 + t] = x;
}

/* One block reads what another writes, after all of its own warps have read it too. */
KERNEL(block_writes_what_another_read) {
  const int t = threadIdx.x;
  uint32_t x = 0;
  AT(0), x = m.filled[WRONG || blockIdx.x == 1 ? 7 : 8];
  m.filled[512 + blockIdx.x * 128 + t] = x;
  __syncthreads();
  if (blockIdx.x == 1 && t == 0) AT(1), m.filled[7] = 5;
}

KERNEL(lane_writes_global) {
  const int t = threadIdx.x;
  AT(0), m.filled[32 + t] = m.filled[5];
  if (!WRONG) __syncwarp();
  if (t == 31) AT(1), m.filled[5] = 1;
}

/* Atomic operations are not ordered with plain reads, however many read. */
KERNEL(all_read_one_adds) {
  const int t = threadIdx.x;
  AT(0), m.filled[32 + t] = m.filled[5];
  if (!WRONG) __syncwarp();
  if (t == 31) AT(1), atom_global_add_s32((int *)m.filled + 5, 1);
}

KERNEL(sum_of_blocks) {
  if (WRONG)
    AT(0), m.filled[0] += 1;
  else
    AT(0), atom_global_add_s32((int *)m.filled, 1);
}

/* One block adds atomically, another reads without. */
KERNEL(atomic_and_plain) {
  if (blockIdx.x == 0)
    AT(0), atom_global_add_s32((int *)m.filled, 1);
  else
    AT(1), m.filled[64 + threadIdx.x] = m.filled[WRONG ? 0 : 1];
}

/* The last of all blocks to come reads what the others added to, with nothing that puts it behind them; its own addition
 * was the last. */
KERNEL(last_comer_reads) {
  if (threadIdx.x != 0) return;
  AT(0), atom_global_add_s32((int *)m.filled, 1);
  AT(1), m.filled[64 + blockIdx.x] = m.filled[WRONG ? 0 : 1];
}

} // namespace FA_KERNEL_NAMESPACE

using namespace FA_KERNEL_NAMESPACE;

const fault_t faults_race[] = {
    {"no barrier between warps", "E04 E08", "shared memory", 2, 80, FAULT(warps_read, 64, sizeof(words_t))},
    {"__syncwarp between warps", "E04 E08", "shared memory", 2, 80,
     FAULT(warps_read_after_syncwarp, 64, sizeof(words_t))},
    {"arrived, and read", "E04 E08", "shared memory", 2, 80, FAULT(arrived_and_read, 64, sizeof(words_t))},
    {"arrived, and filled again", "E04", "shared memory", 2, 80,
     FAULT(arrived_and_filled, 64, sizeof(words_t))},
    {"buffer filled too early", "E04", "shared memory", 2, 80, FAULT(filled_too_early, 64, sizeof(words_t))},
    {"two warps write", "E04 E08", "shared memory", 1, 80, FAULT(two_warps_write, 64, sizeof(words_t))},
    {"no __syncwarp between lanes", "E04 E08", "shared memory", 2, 80,
     FAULT(lanes_read, 32, sizeof(words_t))},
    {"a shuffle in its place", "E04 E08", "shared memory", 2, 80,
     FAULT(lanes_read_after_shuffle, 32, sizeof(words_t))},
    {"a lane writes what all read", "E04", "shared memory", 2, 80,
     FAULT(lane_writes_what_all_read, 32, sizeof(words_t))},
    {"a lane writes what it read too", "E04", "shared memory", 2, 80,
     FAULT(lane_writes_what_it_read, 32, sizeof(words_t))},
    {"wide accesses", "E04 E08", "shared memory", 2, 80, FAULT(wide_store_and_read, 64, sizeof(cells_t))},
    {"a word of a wide store", "E04", "shared memory", 2, 80, FAULT(part_of_wide_store, 64, sizeof(cells_t))},
    {"a wide load of words", "E04", "shared memory", 2, 80, FAULT(wide_read_of_parts, 64, sizeof(cells_t))},
    {"the first reader writes", "E04", "shared memory", 2, 80,
     FAULT(first_reader_writes, 64, sizeof(words_t))},
    {"two 16-bit elements", "E04 E08", "shared memory", 1, 80, FAULT(neighbours, 64, sizeof(words_t))},
    {"ldmatrix of what lanes wrote", "E04", "shared memory", 2, 80,
     FAULT(matrix_of_own_rows, 32, sizeof(cells_t))},
    {"what stmatrix wrote", "E04", "shared memory", 2, 90, FAULT(own_row_of_matrix, 32, sizeof(cells_t))},
    {"memset and memcpy", "E04 E08", "shared memory", 2, 80, FAULT(set_and_copied, 64, sizeof(words_t))},
    {"blocks write the same", "E04", "global memory", 1, 80, FAULT_BLOCKS(blocks_write, 5, 32, 0)},
    {"a block reads another's", "E04", "global memory", 2, 80, FAULT_BLOCKS(blocks_read, 5, 32, 0)},
    {"a word of a wide load", "E04", "global memory", 2, 80, FAULT(part_of_wide_read, 64, 0)},
    {"no barrier in global memory", "E04", "global memory", 2, 80, FAULT(warps_read_global, 64, 0)},
    {"the last reader writes", "E04", "global memory", 2, 80, FAULT(last_reader_writes_global, 64, 0)},
    {"a block writes, another read", "E04", "global memory", 2, 80,
     FAULT_BLOCKS(block_writes_what_another_read, 2, 128, 0)},
    {"a lane writes global memory", "E04", "global memory", 2, 80, FAULT(lane_writes_global, 32, 0)},
    {"all read, one adds", "E04", "global memory", 2, 80, FAULT(all_read_one_adds, 32, 0)},
    {"a sum without atomics", "E04", "global memory", 1, 80, FAULT_BLOCKS(sum_of_blocks, 5, 32, 0)},
    {"atomic here, plain there", "E04", "global memory", 2, 80, FAULT_BLOCKS(atomic_and_plain, 2, 32, 0)},
    {"the last to come reads", "E04", "global memory", 2, 80, FAULT_BLOCKS(last_comer_reads, 5, 32, 0)},
    {NULL, NULL, NULL, 0, 0, NULL},
};
