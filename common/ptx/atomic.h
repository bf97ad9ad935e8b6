/* atomic.h - additions that meet those of other threads (PTX ISA, Parallel Synchronization and Communication: atom).
 *
 * Each is one undivided step, for all threads of the GPU, in an order that differs from run to run: a sum of fp32 is then
 * not the same to the last bit either. They order nothing else (.relaxed): who is told by one that another thread's data
 * is ready has not been promised to see the data. All return what was there before. */
#ifndef FA_PTX_ATOMIC_H
#define FA_PTX_ATOMIC_H

#include "launch.h"

/* atom.global.add.f32: rounded to nearest even. In global memory, what is below 2^-126 counts as 0 of its sign, before
 * the addition and after. */
FA_DEVICE float atom_global_add_f32(float *p, float x FA_PLACE) {
#ifdef __CUDACC__
  float old;
  asm volatile("atom.relaxed.gpu.global.add.f32 %0, [%1], %2;"
               : "=f"(old)
               : "l"(__cvta_generic_to_global(p)), "f"(x)
               : "memory");
  return old;
#else
  return fa_emu_atomic_add_f32(p, x, here);
#endif
}

/* atom.global.add.s32: modulo 2^32. */
FA_DEVICE int atom_global_add_s32(int *p, int x FA_PLACE) {
#ifdef __CUDACC__
  int old;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], %2;"
               : "=r"(old)
               : "l"(__cvta_generic_to_global(p)), "r"(x)
               : "memory");
  return old;
#else
  return fa_emu_atomic_add_s32(p, x, here);
#endif
}

#endif
