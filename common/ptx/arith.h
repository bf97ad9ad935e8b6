/* arith.h - arithmetic that the compiler must leave as it stands. */
#ifndef FA_PTX_ARITH_H
#define FA_PTX_ARITH_H

#include "launch.h"

/* mul.rn.f32 (PTX ISA, Floating Point: mul): a product that is rounded here and is never joined with a
 * following subtraction into one fma. Where the same product is subtracted from itself, as the largest
 * scaled logit is from its own row, the difference is then exactly 0. */
FA_DEVICE float mul_rn(float a, float b) {
  float r;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

#endif
