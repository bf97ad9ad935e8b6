/* tiled_products.c - what `tiled` forward and backward share: two block products and the mask. */
#include "tiled_products.h"

/* S[r][c] = factor * x_r . y_c for the first `visible[r]` columns of a [rows][cols] block: X Y^T. */
void fa_tile_multiply_transposed(const float *x, const float *y, int64_t rows, int64_t dim, float factor,
                                 const int64_t *visible, int64_t ld, float *S) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < visible[r]; c++) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t k = 0; k < dim; k++) sum += x[r * dim + k] * y[c * dim + k];
      S[r * ld + c] = factor * sum;
    }
}

/* out[r] += sum_c S[r][c] y[c] over the visible columns: S Y. */
void fa_tile_multiply(const float *S, const float *y, int64_t rows, int64_t dim, const int64_t *visible,
                      int64_t ld, float *out) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < visible[r]; c++)
      for (int64_t k = 0; k < dim; k++) out[r * dim + k] += S[r * ld + c] * y[c * dim + k];
}

/* How many of the keys [begin, begin + cols) each of the queries [first, first + rows) sees. Returns the sum. */
int64_t fa_tile_visible(const fa_problem_t *p, int64_t keys, int64_t first, int64_t rows, int64_t begin,
                        int64_t cols, int64_t *visible) {
  int64_t sum = 0;
  for (int64_t r = 0; r < rows; r++) {
    int64_t n = fa_visible(p, keys, first + r) - begin;
    visible[r] = n < 0 ? 0 : n > cols ? cols : n;
    sum += visible[r];
  }
  return sum;
}
