/* arith.h - single arithmetic instructions: what the compiler must leave as it stands, or would not choose. */
#ifndef FA_PTX_ARITH_H
#define FA_PTX_ARITH_H

#include "launch.h"

/* mul.rn.f32 (PTX ISA, Floating Point: mul): a product that is rounded here and is never joined with a
 * following subtraction into one fma. Where the same product is subtracted from itself, as the largest
 * scaled logit is from its own row, the difference is then exactly 0. */
FA_DEVICE float mul_rn(float a, float b) {
#ifdef __CUDACC__
  float r;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a * b; /* kernel files are compiled with -ffp-contract=off */
#endif
}

/* ex2.approx.ftz.f32 (PTX ISA, Floating Point: ex2): 2^x on the special function unit, within 2 ulp; results below
 * 2^-126 become 0, 2^-inf is 0, NaN stays NaN. 16 of these a clock and SM, where there are 128 additions. */
FA_DEVICE float exp2_approx(float x) {
#ifdef __CUDACC__
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
#else
  fa_emu_count_exp(1, 0);
  float r = exp2f(x);
  return r < 0x1p-126f ? 0 : r;
#endif
}

/* No instruction. The compiler must take x for a number that it sees for the first time, so that what follows from x is
 * computed here, and not far ahead of here, where it would occupy registers until now. */
FA_DEVICE int not_ahead(int x) {
#ifdef __CUDACC__
  asm volatile("" : "+r"(x));
#endif
  return x;
}

#endif
