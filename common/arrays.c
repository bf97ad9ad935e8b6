/* arrays.c - see arrays.h. */
#include "arrays.h"

static const char *const names[FA_ARRAYS] = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv", "kv_len"};

const char *fa_array_name(int array) {
  return names[array];
}

fa_tensor_t *fa_array_tensor(fa_problem_t *p, int array) {
  switch (array) {
  case FA_Q: return &p->q;
  case FA_K: return &p->k;
  case FA_V: return &p->v;
  case FA_O: return &p->o;
  case FA_DO: return &p->d_o;
  case FA_DQ: return &p->dq;
  case FA_DK: return &p->dk;
  case FA_DV: return &p->dv;
  default: return NULL;
  }
}

void fa_array_size(const fa_problem_t *p, int array, int64_t size[4]) {
  bool of_keys = array == FA_K || array == FA_V || array == FA_DK || array == FA_DV;
  bool of_values = array == FA_V || array == FA_DV || array == FA_O || array == FA_DO;
  size[0] = p->batch;
  size[1] = of_keys ? p->heads_kv : p->heads_q;
  size[2] = of_keys ? p->seq_k : p->seq_q;
  size[3] = array == FA_LSE ? 1 : of_values ? p->head_dim_v : p->head_dim;
  if (array == FA_KV_LEN) size[1] = size[2] = size[3] = 1;
}

fa_dtype_t fa_array_dtype(const fa_problem_t *p, int array) {
  if (array == FA_LSE || array == FA_KV_LEN) return FA_FP32; /* kv_len: int32, the same size */
  return array == FA_O || array == FA_DO ? p->dtype_out : p->dtype;
}

fa_view_t fa_array_view(const fa_problem_t *p, int array) {
  fa_problem_t copy = *p;
  const fa_tensor_t *t = fa_array_tensor(&copy, array);
  const fa_tensor_t lse = {p->lse, p->heads_q * p->seq_q, p->seq_q, 1};
  return (fa_view_t){t ? *t : lse, fa_array_dtype(p, array)};
}
