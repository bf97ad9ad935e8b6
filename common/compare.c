/* compare.c - the tolerance rule, NaN-safe: a result passes only where `error <= limit` holds. */
#include "compare.h"
#include "dtype.h"
#include "tensors.h"

#include <math.h>
#include <string.h>

/* One tensor's expected values and where they lie in the full tensor. */
typedef struct expected_tensor {
  int array;
  const double *right;
  const float *yard; /* NULL for LSE */
  int64_t heads, count, dim;
  const int64_t *rows;
} expected_tensor_t;

/* Same class: both finite, both NaN, or the same infinity. */
static bool same_class(double ours, double right) {
  if (isnan(right)) return isnan(ours);
  if (isinf(right)) return ours == right;
  return isfinite(ours);
}

/* Infinite for a difference of class, so that it outweighs every finite error. */
static double error_of(double ours, double right) {
  if (!same_class(ours, right)) return INFINITY;
  return isfinite(right) ? fabs(ours - right) : 0;
}

/* Without a finite yardstick: relative to max(1, |right|), by type (the fixed tolerances of the case list). */
static double fixed_tolerance(fa_dtype_t t) {
  return t == FA_FP32 ? 1e-5 : t == FA_FP16 ? 2e-3 : t == FA_BF16 ? 1e-2 : 5e-2;
}

/* One element, which becomes the worst if it uses up more than `part` of its limit. LSE has a limit for each element:
 * the largest error need not be the worst. */
static void judge(const expected_tensor_t *x, const int64_t at[4], double ours, double right, double *part,
                  fa_verdict_t *v) {
  const double error = error_of(ours, right);
  const double limit = x->array == FA_LSE && isfinite(right) ? 2e-4 + 1e-6 * fabs(right) : v->limit;
  if (!(error <= limit)) v->ok = false;
  if (error == 0 && !isfinite(right)) return; /* of the same class: there is nothing to measure */
  if (error / limit <= *part) return;
  *part = error / limit;
  v->error = error;
  if (x->array == FA_LSE) v->limit = limit;
  memcpy(v->worst, at, sizeof v->worst);
  v->ours = ours;
  v->right = right;
}

static void compare_tensor(const fa_problem_t *p, const expected_tensor_t *x, fa_verdict_t *v) {
  memset(v, 0, sizeof *v);
  v->array = x->array;
  v->ok = true;
  double largest = 1, part = -1;
  bool yard_finite = true;
  const int64_t total = p->batch * x->heads * x->count * x->dim;
  for (int64_t n = 0; n < total; n++) {
    double right = x->right[n];
    if (!isfinite(right)) continue;
    largest = fmax(largest, fabs(right));
    if (!x->yard) continue;
    if (isfinite(x->yard[n]))
      v->yardstick = fmax(v->yardstick, fabs(x->yard[n] - right));
    else
      yard_finite = false;
  }
  v->limit = yard_finite ? 2 * v->yardstick + 1e-5 * largest : fixed_tolerance(p->dtype) * largest;
  if (x->array == FA_LSE) v->limit = 2e-4; /* until there is a finite one */
  const fa_view_t view = fa_array_view(p, x->array);
  const double *next = x->right;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < x->heads; h++)
      for (int64_t i = 0; i < x->count; i++)
        for (int64_t c = 0; c < x->dim; c++, next++) {
          const int64_t at[4] = {b, h, x->rows[i], c};
          judge(x, at, fa_view_load(&view, b, h, x->rows[i], c), *next, &part, v);
        }
}

void fa_compare(const fa_problem_t *p, const fa_expected_t *e, fa_comparison_t *c) {
  const expected_tensor_t tensors[5] = {
      {FA_O, e->o, e->o_yard, p->heads_q, e->row_count, p->head_dim_v, e->rows},
      {FA_LSE, e->lse, NULL, p->heads_q, e->row_count, 1, e->rows},
      {FA_DQ, e->dq, e->dq_yard, p->heads_q, e->row_count, p->head_dim, e->rows},
      {FA_DK, e->dk, e->dk_yard, p->heads_kv, e->key_count, p->head_dim, e->keys},
      {FA_DV, e->dv, e->dv_yard, p->heads_kv, e->key_count, p->head_dim_v, e->keys}};
  memset(c, 0, sizeof *c);
  c->ok = true;
  c->sampled = e->sampled;
  c->row_count = e->row_count;
  c->key_count = e->key_count;
  c->count = e->backward ? 5 : 2;
  for (int i = 0; i < c->count; i++) {
    compare_tensor(p, &tensors[i], &c->tensor[i]);
    c->ok = c->ok && c->tensor[i].ok;
    if (!c->tensor[i].ok) fa_explain(p, e, &c->tensor[i]);
  }
}

void fa_verdict_line(const fa_verdict_t *v, char *line, size_t size) {
  snprintf(
      line, size,
      "%s: error %.3g, limit %.3g (yardstick %.3g); worst at batch %lld, head %lld, row %lld, column %lld: "
      "%.9g, right is %.9g%s%s",
      fa_array_name(v->array), v->error, v->limit, v->yardstick, (long long)v->worst[0],
      (long long)v->worst[1], (long long)v->worst[2], (long long)v->worst[3], v->ours, v->right,
      v->how[0] ? ": " : "", v->how);
}
