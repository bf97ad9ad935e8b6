/* dtype.h - fp16, bf16 and E4M3 to and from fp32, in plain integer arithmetic (host and device).
 *
 * Rounding is to nearest, ties to even. fp16 and bf16 overflow to infinity; E4M3 has no infinity and
 * saturates at +-448 (infinity too). NaN stays NaN in every type.
 * Where speed matters a kernel uses the one-instruction forms of common/ptx instead. */
#ifndef FA_DTYPE_H
#define FA_DTYPE_H

#include <string.h>
#include "fa.h"

FA_HD static inline uint32_t fa_float_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
FA_HD static inline float fa_bits_float(uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

/* bf16 is the upper half of an fp32. */
FA_HD static inline float fa_from_bf16(bf16_t x) {
  return fa_bits_float((uint32_t)x.bits << 16);
}
FA_HD static inline bf16_t fa_to_bf16(float x) {
  uint32_t u = fa_float_bits(x);
  bf16_t r;
  if ((u & 0x7fffffffu) > 0x7f800000u)
    r.bits = (uint16_t)(u >> 16 | 0x40); /* NaN: keep it one although its low bits are cut off */
  else
    r.bits = (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16); /* half an ulp, less one if even */
  return r;
}

/* fp16: sign, 5 exponent bits (bias 15), 10 mantissa bits; subnormals are multiples of 2^-24. */
FA_HD static inline float fa_from_fp16(fp16_t x) {
  uint32_t sign = (uint32_t)(x.bits & 0x8000u) << 16, e = x.bits >> 10 & 31u, m = x.bits & 1023u;
  if (e == 31) return fa_bits_float(sign | 0x7f800000u | m << 13);
  if (e == 0) {
    float tiny = (float)m * 0x1p-24f;
    return fa_bits_float(sign | fa_float_bits(tiny));
  }
  return fa_bits_float(sign | (e + 112) << 23 | m << 13);
}
FA_HD static inline fp16_t fa_to_fp16(float x) {
  uint32_t u = fa_float_bits(x), sign = u >> 16 & 0x8000u;
  fp16_t r;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u)
    r.bits = (uint16_t)(sign | 0x7e00u);
  else if (u >= 0x477ff000u) /* 65520: the first number that rounds to infinity */
    r.bits = (uint16_t)(sign | 0x7c00u);
  else if (u < 0x38800000u) { /* below 2^-14: adding 0.5 makes the FPU round to a multiple of 2^-24 */
    uint32_t rounded = fa_float_bits(fa_bits_float(u) + 0.5f);
    r.bits = (uint16_t)(sign | (rounded - 0x3f000000u));
  } else
    r.bits = (uint16_t)(sign | ((u + 0xfffu + (u >> 13 & 1u)) - 0x38000000u) >> 13);
  return r;
}

/* E4M3: sign, 4 exponent bits (bias 7), 3 mantissa bits; 0x7f and 0xff are NaN, 0x7e is 448. */
FA_HD static inline float fa_from_e4m3(e4m3_t x) {
  uint32_t sign = (uint32_t)(x.bits & 0x80u) << 24, e = x.bits >> 3 & 15u, m = x.bits & 7u;
  if ((x.bits & 0x7fu) == 0x7fu) return fa_bits_float(sign | 0x7fc00000u);
  if (e == 0) return fa_bits_float(sign | fa_float_bits((float)m * 0x1p-9f));
  return fa_bits_float(sign | (e + 120) << 23 | m << 20);
}
FA_HD static inline e4m3_t fa_to_e4m3(float x) {
  uint32_t u = fa_float_bits(x), sign = u >> 24 & 0x80u;
  e4m3_t r;
  u &= 0x7fffffffu;
  if (u > 0x7f800000u)
    r.bits = (uint8_t)(sign | 0x7fu);
  else if (u >= 0x43e00000u) /* 448 and all above */
    r.bits = (uint8_t)(sign | 0x7eu);
  else if (u < 0x3c800000u) { /* below 2^-6: adding 2^14 makes the FPU round to a multiple of 2^-9 */
    uint32_t rounded = fa_float_bits(fa_bits_float(u) + 16384.0f);
    r.bits = (uint8_t)(sign | (rounded - 0x46800000u));
  } else
    r.bits = (uint8_t)(sign | ((u + 0x7ffffu + (u >> 20 & 1u)) - 0x3c000000u) >> 20);
  return r;
}

/* One element of an array of the given type. */
FA_HD static inline float fa_load(fa_dtype_t t, const void *data, int64_t i) {
  switch (t) {
  case FA_FP16: return fa_from_fp16(((const fp16_t *)data)[i]);
  case FA_BF16: return fa_from_bf16(((const bf16_t *)data)[i]);
  case FA_E4M3: return fa_from_e4m3(((const e4m3_t *)data)[i]);
  default: return ((const float *)data)[i];
  }
}
FA_HD static inline void fa_store(fa_dtype_t t, void *data, int64_t i, float x) {
  switch (t) {
  case FA_FP16: ((fp16_t *)data)[i] = fa_to_fp16(x); break;
  case FA_BF16: ((bf16_t *)data)[i] = fa_to_bf16(x); break;
  case FA_E4M3: ((e4m3_t *)data)[i] = fa_to_e4m3(x); break;
  default: ((float *)data)[i] = x;
  }
}

/* x rounded to the type and back. */
FA_HD static inline float fa_round_to(fa_dtype_t t, float x) {
  switch (t) {
  case FA_FP16: return fa_from_fp16(fa_to_fp16(x));
  case FA_BF16: return fa_from_bf16(fa_to_bf16(x));
  case FA_E4M3: return fa_from_e4m3(fa_to_e4m3(x));
  default: return x;
  }
}

#endif
