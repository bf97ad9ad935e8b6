/* emu_faults_barrier.cu - faults of threads that should come together: E01, E02, E03. For the emulator only. */
#include "emu_mark.cuh"
#include "ptx/barrier.h"
#include "ptx/warp.h"

namespace FA_KERNEL_NAMESPACE {

/* --- E01: nobody can go on ------------------------------------------------------------------------------- */

/* A barrier for two warps that the second does not come to. */
KERNEL(named_in_branch) {
  if (!WRONG || threadIdx.x < 32) AT(0), bar_sync(1, 64);
}

/* Each warp waits for the other at another barrier. */
KERNEL(crossed) {
  if (threadIdx.x < 32 && WRONG)
    AT(0), bar_sync(1, 64);
  else
    AT(1), bar_sync(2, 64);
}

/* Too large a count: the block has the threads, but they do not come. */
KERNEL(count_too_large) {
  if (threadIdx.x < 64) AT(0), bar_sync(3, WRONG ? 96 : 64);
}

/* Half of each warp arrives: these are as many as must come, but no warp is whole. */
KERNEL(half_warps_arrive) {
  if (WRONG ? threadIdx.x % 32 < 16 : threadIdx.x < 64) AT(0), bar_arrive(4, 64);
}

/* And half of each warp waits: a GPU counts warps, and lets them through, or not. */
KERNEL(half_warps_meet) {
  if (WRONG ? threadIdx.x % 32 < 16 : threadIdx.x < 64) AT(0), bar_sync(4, 64);
}

/* One lane waits at the block's barrier, the others for it in a shuffle. */
KERNEL(lane_at_barrier) {
  float x = (float)threadIdx.x;
  if (!WRONG || threadIdx.x != 7) AT(0), x = shfl_xor_f32(x, 1);
  if (WRONG) AT(1), __syncthreads();
  m.filled[threadIdx.x] = (uint32_t)x;
}

/* --- E02: lanes of a warp at different operations --------------------------------------------------------- */

KERNEL(shuffle_in_branch) {
  float x = (float)threadIdx.x;
  if (!WRONG || threadIdx.x < 16)
    AT(0), x = shfl_xor_f32(x, 1);
  else
    AT(1), x = shfl_xor_f32(x, 2);
  m.filled[threadIdx.x] = (uint32_t)x;
}

KERNEL(syncwarp_in_branch) {
  float x = (float)threadIdx.x;
  if (!WRONG || threadIdx.x % 2)
    AT(0), x = shfl_f32(x, 3);
  else
    AT(1), __syncwarp();
  m.filled[threadIdx.x] = (uint32_t)x;
}

/* --- E03: barriers that are not one ----------------------------------------------------------------------- */

KERNEL(divergent_barrier) {
  if (!WRONG || threadIdx.x % 2)
    AT(0), __syncthreads();
  else
    AT(1), __syncthreads();
}

KERNEL(early_return) {
  if (WRONG && threadIdx.x >= 40) return;
  AT(0), __syncthreads();
}

/* The warp that is outside the branch has ended when the other comes to its second barrier. */
KERNEL(barrier_in_branch) {
  if (!WRONG || threadIdx.x < 32) __syncthreads();
  AT(0), __syncthreads();
}

KERNEL(ended_lane) {
  if (WRONG && threadIdx.x == 31) return;
  AT(0), m.filled[threadIdx.x] = (uint32_t)shfl_xor_f32((float)threadIdx.x, 1);
}

KERNEL(ended_first_lane) {
  if (WRONG && threadIdx.x == 0) return;
  AT(0), m.filled[threadIdx.x] = (uint32_t)shfl_xor_f32((float)threadIdx.x, 1);
}

KERNEL(no_such_barrier) {
  AT(0), bar_sync(WRONG ? 16 : 15, 64);
}
KERNEL(part_of_a_warp) {
  if (threadIdx.x < 64) AT(0), bar_sync(1, WRONG ? 48 : 64);
}
KERNEL(more_than_there_are) {
  AT(0), bar_sync(1, WRONG ? 96 : 64);
}
KERNEL(for_nobody) {
  if (threadIdx.x < 32) AT(0), bar_arrive(1, WRONG ? 0 : 64);
  if (threadIdx.x >= 32) bar_sync(1, 64);
}
KERNEL(counts_differ) {
  AT(0), bar_sync(1, WRONG && threadIdx.x >= 32 ? 32 : 64);
}

} // namespace FA_KERNEL_NAMESPACE

using namespace FA_KERNEL_NAMESPACE;

const fault_t faults_barrier[] = {
    {"named barrier in a branch", "E01", "32 of 64 threads", 1, 80, FAULT(named_in_branch, 64, 0)},
    {"two named barriers, crossed", "E01", "barrier 2", 2, 80, FAULT(crossed, 64, 0)},
    {"named barrier for too many", "E01", "64 of 96 threads", 1, 80, FAULT(count_too_large, 128, 0)},
    {"half of each warp arrives", "E03 E01", "whole warps", 1, 80, FAULT(half_warps_arrive, 128, 0)},
    {"half of each warp meets", "E03", "whole warps", 1, 80, FAULT(half_warps_meet, 128, 0)},
    {"lane at a barrier, warp in a shuffle", "E01", "a shuffle", 2, 80, FAULT(lane_at_barrier, 64, 0)},
    {"shuffles in two branches", "E02", "a shuffle", 2, 80, FAULT(shuffle_in_branch, 32, 0)},
    {"shuffle and __syncwarp", "E02", "__syncwarp", 2, 80, FAULT(syncwarp_in_branch, 32, 0)},
    {"__syncthreads in two branches", "E03", "divergent", 2, 80, FAULT(divergent_barrier, 64, 0)},
    {"return before a barrier", "E03", "40 of 64 threads", 1, 80, FAULT(early_return, 64, 0)},
    {"__syncthreads in a branch", "E03", "32 of 64 threads", 1, 80, FAULT(barrier_in_branch, 64, 0)},
    {"last lane ended before a shuffle", "E03", "shuffle", 1, 80, FAULT(ended_lane, 32, 0)},
    {"first lane ended before a shuffle", "E03", "shuffle", 1, 80, FAULT(ended_first_lane, 32, 0)},
    {"barrier 16", "E03", "ids are 0-15", 1, 80, FAULT(no_such_barrier, 64, 0)},
    {"barrier for one warp and a half", "E03", "multiples of 32", 1, 80, FAULT(part_of_a_warp, 128, 0)},
    {"barrier for more than the block", "E03", "no more than", 1, 80, FAULT(more_than_there_are, 64, 0)},
    {"barrier for no threads", "E03", "at least 32", 1, 80, FAULT(for_nobody, 64, 0)},
    {"barrier with two counts", "E03 E01", "expects", 1, 80, FAULT(counts_differ, 64, 0)},
    {NULL, NULL, NULL, 0, 0, NULL},
};
