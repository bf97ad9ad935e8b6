/* combine_simd.c - see combine.h. Four rows of w at a time: out then goes through memory once for four terms. */
#include "combine.h"

#define DEFINE_COMBINE(REAL, name)                                                                           \
  void FA_SIMD(name)(const REAL *x, int64_t rows, const REAL *w, int64_t ld, int64_t cols, REAL *out) {      \
    int64_t r = 0;                                                                                           \
    for (int64_t j = 0; j < cols; j++) out[j] = 0;                                                           \
    for (; r + 4 <= rows; r += 4) {                                                                          \
      const REAL *const w0 = w + r * ld, *const w1 = w0 + ld, *const w2 = w1 + ld, *const w3 = w2 + ld;      \
      const REAL x0 = x[r], x1 = x[r + 1], x2 = x[r + 2], x3 = x[r + 3];                                     \
      for (int64_t j = 0; j < cols; j++)                                                                     \
        out[j] = (((out[j] + x0 * w0[j]) + x1 * w1[j]) + x2 * w2[j]) + x3 * w3[j];                           \
    }                                                                                                        \
    for (; r < rows; r++)                                                                                    \
      for (int64_t j = 0; j < cols; j++) out[j] += x[r] * w[r * ld + j];                                     \
  }
DEFINE_COMBINE(double, fa_combine)
DEFINE_COMBINE(float, fa_combine_f)
