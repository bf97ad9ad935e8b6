/* product_simd.c - see product.h. */
#include "product.h"
#include "../dtype.h"

#include <string.h>

/* All of a block at once and without branches, so that the compiler makes vector instructions of it. */
static void widen_bf16(float *to, const uint16_t *from, int count) {
  for (int n = 0; n < count; n++) to[n] = fa_bits_float((uint32_t)from[n] << 16);
}
static void widen_fp16(float *to, const uint16_t *from, int count) {
  for (int n = 0; n < count; n++) {
    const uint32_t sign = (uint32_t)(from[n] & 0x8000u) << 16, rest = from[n] & 0x7fffu;
    /* fp16's exponent in fp32's place is 112 too small; its largest means infinity or NaN */
    const uint32_t special = rest >= 0x7c00u ? 0x7f800000u : 0;
    to[n] = fa_bits_float(fa_float_bits(fa_bits_float(rest << 13) * 0x1p112f) | special | sign);
  }
}

typedef float row8_t __attribute__((vector_size(32)));

void FA_SIMD(fa_product)(fa_product_operands_t *x) {
  float a[16][16], b[16][8];
  (x->bf16 ? widen_bf16 : widen_fp16)(a[0], x->a[0], 16 * 16);
  (x->bf16 ? widen_bf16 : widen_fp16)(b[0], x->b[0], 16 * 8);
  for (int i = 0; i < 16; i++) {
    row8_t sum, row;
    memcpy(&sum, x->d[i], sizeof sum);
    for (int k = 0; k < x->depth; k++) {
      memcpy(&row, b[k], sizeof row);
      sum += a[i][k] * row;
    }
    memcpy(x->d[i], &sum, sizeof sum);
  }
}
