/* fast_simd.h - vectors, and the one matrix product that step `fast` is made of.
 *
 * GCC's and clang's vector extensions are the whole instruction set: the same source becomes AVX-512, AVX2,
 * SSE2 or NEON, depending on the flags that this file is compiled with (common/simd.h). */
#ifndef FA_FAST_SIMD_H
#define FA_FAST_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include "exp_poly.h"
#include "fast.h"
#include "simd.h"

#if defined(__AVX512F__)
#define LANES 16 /* floats in a vector */
#define STRIP 8  /* rows of one register tile: 32 registers hold 8 x 3 accumulators */
#elif defined(__AVX2__)
#define LANES 8
#define STRIP 4 /* 16 registers hold 4 x 3 accumulators, 3 vectors of B and 1 of A */
#elif defined(__aarch64__)
#define LANES 4
#define STRIP 8
#else
#define LANES 4
#define STRIP 4
#endif
#define VECTORS 3               /* vectors side by side in a register tile */
#define PANEL (VECTORS * LANES) /* its width in floats: 48, 24 or 12 */
_Static_assert(FA_FAST_PAD % STRIP == 0 && FA_FAST_PAD % LANES == 0,
               "padded blocks are whole strips and whole vectors");
_Static_assert(FA_FAST_WIDE % PANEL == 0, "a block is a whole number of panels on every instruction set");

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));
#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *p) {
  return *(const vec *)(const void *)p;
}
INLINE void store(float *p, vec x) {
  *(vec *)(void *)p = x;
}
/* At any address that a float may have. */
INLINE vec load_anywhere(const float *p) {
  vec x;
  memcpy(&x, p, sizeof x);
  return x;
}
INLINE void store_anywhere(float *p, vec x) {
  memcpy(p, &x, sizeof x);
}
INLINE vec splat(float x) {
  return x - (vec){0};
}
INLINE ivec isplat(int32_t x) {
  return x - (ivec){0};
}
/* Lane by lane: where ? a : b. A comparison gives -1 where it holds and 0 elsewhere. */
INLINE vec choose(ivec where, vec a, vec b) {
  return (vec)((where & (ivec)a) | (~where & (ivec)b));
}

/* a > b ? a : b, which is b if either is NaN. x86 has one instruction for it, which gcc does not find. */
#if defined(__x86_64__)
#include <immintrin.h>
#endif
INLINE vec greater(vec a, vec b) {
#if defined(__AVX512F__)
  return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
  return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__x86_64__)
  return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
  return choose(a > b, a, b);
#endif
}

/* exp_poly.h for a vector. */
INLINE vec vexp(vec x) {
  x = greater(splat(FA_EXP_LEAST), x);
  vec t = x * FA_EXP_LOG2E + FA_EXP_ROUND, n = t - FA_EXP_ROUND;
  vec r = x - n * FA_EXP_LN2_HIGH - n * FA_EXP_LN2_LOW;
  vec p = ((FA_EXP_C5 * r + FA_EXP_C4) * r + FA_EXP_C3) * r + FA_EXP_C2;
  return ((p * r + 1.0f) * r + 1.0f) * (vec)((ivec)t << 23);
}

/* The register tile: C[STRIP][vectors] = or += sum over k of A[k][STRIP] times B[k][vectors].
 *
 *              B[k]     | b0 | b1 | b2 |      3 vectors, loaded once per k
 *   A[k][0] broadcast   | c  | c  | c  |
 *   A[k][1]    ...      | c  | c  | c  |      the C tile stays in registers while k runs
 *     ...               |    |    |    |
 *   A[k][STRIP-1]       | c  | c  | c  |
 *
 * A product needs two operands per multiply-add, and a core loads two vectors per cycle, as many as it
 * multiplies: one that fetched both operands for each multiply-add would run at half speed at most. Here
 * 3 + 8 loads serve 24 multiply-adds (3 + 4 serve 12), and 24 (12) independent sums hide the 4 cycles that
 * a multiply-add takes.
 *
 * A's element for row r and step k is A[r * row + k * step]: with step 1 A is used as it lies, with row 1
 * it is used transposed. Both cost the same, since elements are broadcast one at a time.
 *
 * The loops over r and v must be unrolled wholly: registers have no index. */
INLINE void register_tile(const int vectors, const float *A, int64_t row, int64_t step, const float *B,
                          int64_t ldb, int64_t n, float *C, int64_t ldc, bool add) {
  vec c[STRIP][VECTORS], b[VECTORS];
#pragma GCC unroll 8
  for (int r = 0; r < STRIP; r++)
    for (int v = 0; v < vectors; v++) c[r][v] = add ? load(C + r * ldc + v * LANES) : splat(0);
#pragma GCC unroll 4
  for (int64_t k = 0; k < n; k++) {
    for (int v = 0; v < vectors; v++) b[v] = load(B + k * ldb + v * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < STRIP; r++) {
      vec a = splat(A[r * row + k * step]);
      for (int v = 0; v < vectors; v++) c[r][v] += a * b[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < STRIP; r++)
    for (int v = 0; v < vectors; v++) store(C + r * ldc + v * LANES, c[r][v]);
}

/* C[rows][vectors] = or += A B, strip by strip; rows is a multiple of STRIP. B is used once per strip: it
 * should fit the first-level cache. A passes through once. */
#define DEFINE_PRODUCT(name, ROW, STEP)                                                                      \
  static inline void name(int vectors, const float *A, int64_t lda, int64_t rows, const float *B,            \
                          int64_t ldb, int64_t n, float *C, int64_t ldc, bool add) {                         \
    for (int64_t r = 0; r < rows; r += STRIP, A += STRIP * (ROW), C += STRIP * ldc) switch (vectors) {       \
      case 1: register_tile(1, A, ROW, STEP, B, ldb, n, C, ldc, add); break;                                 \
      case 2: register_tile(2, A, ROW, STEP, B, ldb, n, C, ldc, add); break;                                 \
      default: register_tile(VECTORS, A, ROW, STEP, B, ldb, n, C, ldc, add);                                 \
      }                                                                                                      \
  }
DEFINE_PRODUCT(product, lda, 1)            /* C = A B:   A is [rows][n] */
DEFINE_PRODUCT(product_transposed, 1, lda) /* C = A^T B: A is [n][rows] */

#endif
