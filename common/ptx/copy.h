/* copy.h - asynchronous copies from global to shared memory (PTX ISA, Data Movement and Conversion: cp.async; sm_80).
 *
 * A copy is under way until its group has been waited for by the thread that issued it; other threads may read the
 * bytes only after a barrier that follows that wait. Until then neither source nor destination may be touched. A kernel
 * for older targets too asks target_sm() first (limits.h): there, these stop the program. */
#ifndef FA_PTX_COPY_H
#define FA_PTX_COPY_H

#include "launch.h"

/* 16 bytes past the L1 cache (.cg). `valid`: how many of them are read, 0 or 16; the rest becomes 0. Both addresses are
 * multiples of 16; with valid = 0 the source is not read, but must be an address all the same. */
FA_DEVICE void cp_async_16(void *shared, const void *global, int valid FA_PLACE) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(shared_address(shared)), "l"(__cvta_generic_to_global(global)), "r"(valid)
               : "memory");
#else
  (void)shared, (void)global, (void)valid;
  __trap();
#endif
#else
  fa_emu_cp_async(shared, global, 16, valid, here);
#endif
}

/* Everything that this thread issued since the last commit becomes one group. */
FA_DEVICE void cp_async_commit(FA_PLACE_ONLY) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  __trap();
#endif
#else
  fa_emu_cp_async_commit(here);
#endif
}

/* Waits until at most PENDING of this thread's groups, the youngest, are under way. */
template <int PENDING> FA_DEVICE void cp_async_wait(FA_PLACE_ONLY) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#else
  __trap();
#endif
#else
  fa_emu_cp_async_wait(PENDING, here);
#endif
}

#endif
