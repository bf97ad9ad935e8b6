/* oracle_row.c - see oracle_row.h: reading the inputs, and the oracle of one row. */
#include "oracle_row.h"
#include "dtype.h"
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double descale(const fa_descale_t *f, int64_t b, int64_t h, int64_t r) {
  if (!f->data) return 1.0;
  return f->data[b * f->stride_batch + h * f->stride_head + (f->block_rows ? r / f->block_rows : 0)];
}

void fa_load_row(const fa_problem_t *p, const fa_tensor_t *t, fa_dtype_t dtype, const fa_descale_t *f,
                 int64_t b, int64_t h, int64_t r, int64_t dim, double *out) {
  int64_t at = fa_row(t, b, h, r);
  double factor = f && p->dtype == FA_E4M3 ? descale(f, b, h, r) : 1.0;
  for (int64_t c = 0; c < dim; c++) out[c] = factor * fa_load(dtype, t->data, at + c);
}

void fa_head_free(head_t *x) {
  free(x->kt), free(x->vt), free(x->k), free(x->v);
  free(x->kt_f), free(x->vt_f), free(x->k_f), free(x->v_f);
}

/* K and V, both as they are and transposed, in double and in fp32. */
double fa_head_bytes(double keys, double d, double dv) {
  return 2 * (8 + 4) * keys * (d + dv);
}

bool fa_head_new(const fa_problem_t *p, int64_t b, int64_t kvh, head_t *x) {
  memset(x, 0, sizeof *x);
  x->keys = fa_keys(p, b), x->d = p->head_dim, x->dv = p->head_dim_v;
  x->combine = FA_PICK(fa_combine), x->combine_f = FA_PICK(fa_combine_f);
  size_t nk = (size_t)(x->keys * x->d) + 1, nv = (size_t)(x->keys * x->dv) + 1;
  x->k = malloc(nk * 8), x->kt = malloc(nk * 8), x->k_f = malloc(nk * 4), x->kt_f = malloc(nk * 4);
  x->v = malloc(nv * 8), x->vt = malloc(nv * 8), x->v_f = malloc(nv * 4), x->vt_f = malloc(nv * 4);
  if (!x->k || !x->kt || !x->k_f || !x->kt_f || !x->v || !x->vt || !x->v_f || !x->vt_f) return false;
  for (int64_t j = 0; j < x->keys; j++) {
    fa_load_row(p, &p->k, p->dtype, &p->descale_k, b, kvh, j, x->d, x->k + j * x->d);
    fa_load_row(p, &p->v, p->dtype, &p->descale_v, b, kvh, j, x->dv, x->v + j * x->dv);
    for (int64_t c = 0; c < x->d; c++) {
      x->kt[c * x->keys + j] = x->k[j * x->d + c];
      x->kt_f[c * x->keys + j] = x->k_f[j * x->d + c] = (float)x->k[j * x->d + c];
    }
    for (int64_t c = 0; c < x->dv; c++) {
      x->vt[c * x->keys + j] = x->v[j * x->dv + c];
      x->vt_f[c * x->keys + j] = x->v_f[j * x->dv + c] = (float)x->v[j * x->dv + c];
    }
  }
  return true;
}

/* The maximum that leaves NaN to show in the exponentials; 0 in place of -inf, so that exp(-inf) is 0. */
static double shift(const double *s, int64_t n) {
  double m = -INFINITY;
  for (int64_t j = 0; j < n; j++) m = s[j] > m ? s[j] : m;
  return m == -INFINITY ? 0 : m;
}

/* s becomes p (unnormalised); returns l. */
static double exponentials(double *s, int64_t n, double m) {
  double l = 0;
  for (int64_t j = 0; j < n; j++) l += s[j] = exp(s[j] - m);
  return l;
}

void fa_oracle_forward(const head_t *x, double scale, int64_t n, row_t *r) {
  x->combine(r->q, x->d, x->kt, x->keys, n, r->p);
  for (int64_t j = 0; j < n; j++) r->p[j] *= scale;
  double m = shift(r->p, n), l = exponentials(r->p, n, m);
  bool empty = l == 0; /* no key, or nothing but -inf */
  r->lse = empty ? -INFINITY : m + log(l);
  for (int64_t j = 0; j < n; j++) r->p[j] = empty ? 0 : r->p[j] / l;
  x->combine(r->p, empty ? 0 : n, x->v, x->dv, x->dv, r->o);
}

void fa_oracle_backward(const head_t *x, double scale, int64_t n, row_t *r) {
  if (r->lse == -INFINITY) n = 0;
  x->combine(r->d_o, x->dv, x->vt, x->keys, n, r->ds);
  double D = 0;
  for (int64_t j = 0; j < n; j++) D += r->p[j] * r->ds[j];
  for (int64_t j = 0; j < n; j++) r->ds[j] = scale * r->p[j] * (r->ds[j] - D);
  x->combine(r->ds, n, x->k, x->d, x->d, r->dq);
}

double fa_row_bytes(double keys, double d, double dv) {
  double right = 2 * (d + dv + keys), yards = (2 * keys + dv + d) * YARDS + 2 * keys;
  return right * 8 + (d + dv + yards) * 4 + 8;
}

/* One allocation for all arrays of a row, so that one test of the pointer suffices. */
bool fa_row_new(row_t *r, int64_t keys, int64_t d, int64_t dv) {
  double *x = malloc((size_t)fa_row_bytes((double)keys, (double)d, (double)dv));
  r->q = x;
  if (!x) return false;
  r->dq = r->q + d, r->o = r->dq + d, r->d_o = r->o + dv, r->p = r->d_o + dv, r->ds = r->p + keys;
  r->q_f = (float *)(void *)(r->ds + keys), r->d_o_f = r->q_f + d;
  r->exponentials = r->d_o_f + dv, r->dp = r->exponentials + keys;
  float *at = r->dp + keys;
  for (int way = 0; way < YARDS; way++) {
    r->yard[way].p = at, r->yard[way].ds = at + keys, r->yard[way].o = at + 2 * keys;
    r->yard[way].dq = at + 2 * keys + dv;
    at += 2 * keys + dv + d;
  }
  return true;
}

void fa_oracle_row(const fa_problem_t *p, int64_t b, int64_t h, int64_t kv_head, int64_t i, int64_t visible,
                   double *o, double *lse) {
  head_t x;
  row_t r;
  memset(&r, 0, sizeof r);
  *lse = NAN;
  if (fa_head_new(p, b, kv_head, &x) && fa_row_new(&r, x.keys, x.d, x.dv)) {
    fa_load_row(p, &p->q, p->dtype, &p->descale_q, b, h, i, x.d, r.q);
    fa_oracle_forward(&x, p->scale, visible < x.keys ? visible : x.keys, &r);
    memcpy(o, r.o, (size_t)x.dv * 8);
    *lse = r.lse;
  }
  free(r.q);
  fa_head_free(&x);
}
