/* combine.h - sums of rows, the one loop of oracle and yardstick: out[j] = sum over r of x[r] w[r][j].
 *
 * x has `rows` elements, w is row-major with `ld` elements from one row to the next. Each out[j] is summed in order of r,
 * whatever the instruction set; where there is a fused multiply-add it rounds once a term instead of twice. */
#ifndef FA_COMBINE_H
#define FA_COMBINE_H

#include "simd.h"

#include <stdint.h>

typedef void fa_combine_t(const double *x, int64_t rows, const double *w, int64_t ld, int64_t cols,
                          double *out);
typedef void fa_combine_f_t(const float *x, int64_t rows, const float *w, int64_t ld, int64_t cols,
                            float *out);
extern fa_combine_t fa_combine_baseline, fa_combine_avx2, fa_combine_avx512;
extern fa_combine_f_t fa_combine_f_baseline, fa_combine_f_avx2, fa_combine_f_avx512;

#endif
