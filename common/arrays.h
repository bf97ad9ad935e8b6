/* arrays.h - the arrays of a problem, by number: what each is called, and its size, type and place. */
#ifndef FA_ARRAYS_H
#define FA_ARRAYS_H

#include "dtype.h"
#include "fa.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { FA_Q, FA_K, FA_V, FA_O, FA_LSE, FA_DO, FA_DQ, FA_DK, FA_DV, FA_KV_LEN, FA_ARRAYS };

const char *fa_array_name(int array);                                  /* "q", "lse", "dq", ... */
fa_tensor_t *fa_array_tensor(fa_problem_t *p, int array);              /* NULL for FA_LSE and FA_KV_LEN */
void fa_array_size(const fa_problem_t *p, int array, int64_t size[4]); /* batch, heads, rows, dim */
fa_dtype_t fa_array_dtype(const fa_problem_t *p, int array);

/* Any array's elements, LSE too (its one column is 0). Made once for a loop: to find the array costs more than an
 * element. */
typedef struct fa_view {
  fa_tensor_t tensor;
  fa_dtype_t dtype;
} fa_view_t;
fa_view_t fa_array_view(const fa_problem_t *p, int array);
static inline double fa_view_load(const fa_view_t *v, int64_t b, int64_t h, int64_t r, int64_t c) {
  return fa_load(v->dtype, v->tensor.data, fa_row(&v->tensor, b, h, r) + c);
}
static inline void fa_view_store(const fa_view_t *v, int64_t b, int64_t h, int64_t r, int64_t c, double x) {
  fa_store(v->dtype, v->tensor.data, fa_row(&v->tensor, b, h, r) + c, (float)x);
}

#ifdef __cplusplus
}
#endif
#endif
