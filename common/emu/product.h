/* product.h - the arithmetic of mma.sync, compiled for each instruction set of the CPU (../simd.h). */
#ifndef FA_EMU_PRODUCT_H
#define FA_EMU_PRODUCT_H

#include "../simd.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* 16-bit elements as bits; a [16][depth], b [depth][8], depth 8 or 16. */
typedef struct fa_product_operands {
  uint16_t a[16][16], b[16][8];
  float d[16][8];
  int depth;
  bool bf16; /* else fp16 */
} fa_product_operands_t;

/* d += a b. A product of two 16-bit numbers is exact in fp32, fused or not; sums are rounded in order of depth (hardware
 * aligns and truncates: equal on small integers only). */
typedef void fa_product_t(fa_product_operands_t *x);
extern fa_product_t fa_product_baseline, fa_product_avx2, fa_product_avx512;

#ifdef __cplusplus
}
#endif
#endif
