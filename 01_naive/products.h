/* products.h - the matrix products of attention (products.cu).
 *
 *   kind               what                          used for                    one for each
 *   ROWS_BY_ROWS       C_ij = sum_c  A_ic B_jc       S = Q K^T,   dP = dO V^T    query head
 *   SCORES_BY_ROWS     C_ic = sum_j  A_ij B_jc       O = P V,     dQ = dS K      query head
 *   SCORES_T_BY_ROWS   C_jc = sum_gi A_ij B_ic       dV = P^T dO, dK = dS^T Q    kv head, over the heads g of
 *                                                                                its group
 * i: query, j: key, c: component. */
#ifndef NAIVE_PRODUCTS_H
#define NAIVE_PRODUCTS_H

#include "ptx/launch.h"

namespace FA_KERNEL_NAMESPACE {

typedef enum product { ROWS_BY_ROWS, SCORES_BY_ROWS, SCORES_T_BY_ROWS } product_t;

/* A tensor and its type. N x N matrices are tensors whose rows are queries and whose columns are keys. */
typedef struct matrix {
  fa_tensor_t at;
  fa_dtype_t dtype;
} matrix_t;

/* Of C, and how many terms one head adds to an element of it. */
typedef struct product_sizes {
  int64_t rows, cols, depth;
} product_sizes_t;

/* dim: the columns of those tensors that are not N x N. */
static inline product_sizes_t sizes_of(const fa_problem_t *p, product_t kind, int64_t dim) {
  if (kind == ROWS_BY_ROWS) return {p->seq_q, p->seq_k, dim};
  if (kind == SCORES_BY_ROWS) return {p->seq_q, dim, p->seq_k};
  return {p->seq_k, dim, p->seq_q};
}

/* C = factor * A B. Pairs that the mask hides are left out of the sum, not multiplied by 0, and so are
 * queries whose LSE is -inf. With `only` (a flag for each kv head on the device), heads whose flag is 0 are
 * left alone, at next to no cost: it is there to do a few heads again, with few blocks for each. */
fa_status_t launch_product(const fa_problem_t *p, product_t kind, matrix_t a, matrix_t b, matrix_t c,
                           int64_t dim, float factor, const int *only, fa_reason_t *why);

} // namespace FA_KERNEL_NAMESPACE
#endif
