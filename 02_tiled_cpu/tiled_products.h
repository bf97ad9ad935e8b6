/* tiled_products.h - what `tiled` forward and backward share: two block products and the mask. */
#ifndef FA_TILED_PRODUCTS_H
#define FA_TILED_PRODUCTS_H

#include "stage.h"

void fa_tile_multiply_transposed(const float *x, const float *y, int64_t rows, int64_t dim, float factor,
                                 const int64_t *visible, int64_t ld, float *S);
void fa_tile_multiply(const float *S, const float *y, int64_t rows, int64_t dim, const int64_t *visible,
                      int64_t ld, float *out);
int64_t fa_tile_visible(const fa_problem_t *p, int64_t keys, int64_t first, int64_t rows, int64_t begin,
                        int64_t cols, int64_t *visible);

#endif
