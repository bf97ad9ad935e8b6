/* convert.h - fp16 and bf16 to and from fp32, one instruction each (PTX ISA, Data Movement and Conversion:
 * cvt). All round to nearest even, overflow to infinity and keep NaN a NaN, as dtype.h does in integers. */
#ifndef FA_PTX_CONVERT_H
#define FA_PTX_CONVERT_H

#include "launch.h"
#include "../dtype.h"

/* cvt.f32.f16: exact. */
FA_DEVICE float to_f32(fp16_t x) {
#ifdef __CUDACC__
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
  return r;
#else
  return fa_from_fp16(x);
#endif
}
/* No instruction at all: bf16 is the upper half of an fp32. */
FA_DEVICE float to_f32(bf16_t x) {
  return fa_from_bf16(x);
}
FA_DEVICE float to_f32(float x) {
  return x;
}

/* cvt.rn.f16.f32. */
FA_DEVICE void from_f32(float x, fp16_t *r) {
#ifdef __CUDACC__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r->bits) : "f"(x));
#else
  *r = fa_to_fp16(x);
#endif
}
/* cvt.rn.bf16.f32, from sm_80 on. */
FA_DEVICE void from_f32(float x, bf16_t *r) {
#if __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r->bits) : "f"(x));
#else
  *r = fa_to_bf16(x);
#endif
}
FA_DEVICE void from_f32(float x, float *r) {
  *r = x;
}

/* cvt.rn.f16x2.f32 (from sm_80 on): two numbers in 32 bits, `low` in the lower half, which is the first of
 * the two in memory. */
FA_DEVICE uint32_t pack_f32(float low, float high, fp16_t) {
#if __CUDA_ARCH__ >= 800
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  fp16_t a, b;
  from_f32(low, &a);
  from_f32(high, &b);
  return a.bits | (uint32_t)b.bits << 16;
#endif
}
/* cvt.rn.bf16x2.f32 (from sm_80 on). */
FA_DEVICE uint32_t pack_f32(float low, float high, bf16_t) {
#if __CUDA_ARCH__ >= 800
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
  return r;
#else
  return fa_to_bf16(low).bits | (uint32_t)fa_to_bf16(high).bits << 16;
#endif
}

/* The two numbers that pack_f32 put together. */
FA_DEVICE void unpack_f32(float *low, float *high, uint32_t x, fp16_t) {
  *low = to_f32(fp16_t{(uint16_t)x});
  *high = to_f32(fp16_t{(uint16_t)(x >> 16)});
}
FA_DEVICE void unpack_f32(float *low, float *high, uint32_t x, bf16_t) {
  *low = fa_bits_float(x << 16);
  *high = fa_bits_float(x & 0xffff0000u);
}

/* One element of an array whose type is known only when the kernel runs. */
FA_DEVICE float load_element(fa_dtype_t t, const void *data, int64_t i) {
  if (t == FA_FP16) return to_f32(((const fp16_t *)data)[i]);
  if (t == FA_BF16) return to_f32(((const bf16_t *)data)[i]);
  return ((const float *)data)[i];
}
FA_DEVICE void store_element(fa_dtype_t t, void *data, int64_t i, float x) {
  if (t == FA_FP16)
    from_f32(x, &((fp16_t *)data)[i]);
  else if (t == FA_BF16)
    from_f32(x, &((bf16_t *)data)[i]);
  else
    ((float *)data)[i] = x;
}

#endif
