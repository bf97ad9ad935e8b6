/* barrier.h - named barriers: some warps of a block meet, the others go on (PTX ISA, Parallel Synchronization and
 * Communication: bar, barrier).
 *
 * A block has 16, with ids 0 to 15; 0 is the one of __syncthreads. `threads` is how many come in all, a multiple of 32,
 * and the same in every call that meets there; warps come whole. When the last has come the barrier is as it was at the
 * start, and can be used again. */
#ifndef FA_PTX_BARRIER_H
#define FA_PTX_BARRIER_H

#include "launch.h"

/* bar.sync: comes, and waits for all the others. What any of them read or wrote before coming happens before what this
 * thread does next. */
FA_DEVICE void bar_sync(int id, int threads FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("bar.sync %0, %1;" : : "r"(id), "r"(threads) : "memory");
#else
  fa_emu_named_barrier(id, threads, true, here);
#endif
}

/* bar.arrive: comes, and goes on. What this thread read or wrote before happens before what those do that wait there;
 * of theirs nothing is promised to it. A buffer thus needs two barriers: one that says full, and one that says empty. */
FA_DEVICE void bar_arrive(int id, int threads FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("bar.arrive %0, %1;" : : "r"(id), "r"(threads) : "memory");
#else
  fa_emu_named_barrier(id, threads, false, here);
#endif
}

#endif
