/* yardstick.c - plain attention in the type at hand, one row at a time: its error is what a kernel may make twice. */
#include "dtype.h"
#include "oracle_row.h"

#include <math.h>

int fa_yards(const fa_problem_t *p) {
  return p->dtype == FA_FP32 ? 1 : YARDS;
}

/* The offset at which kernels keep P in E4M3: exp(s - m) in 0 .. 1 becomes 0 .. 256 of the type's 448. */
#define E4M3_P_SCALE 256.0f

/* exp(s - m) in r->exponentials; returns their sum l. */
static float exponentials(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r) {
  float *s = r->exponentials, m = -INFINITY, l = 0;
  x->combine_f(r->q_f, x->d, x->kt_f, x->keys, n, s);
  for (int64_t j = 0; j < n; j++) {
    s[j] *= p->scale;
    m = s[j] > m ? s[j] : m;
  }
  if (m == -INFINITY) m = 0;
  for (int64_t j = 0; j < n; j++) l += s[j] = expf(s[j] - m);
  return l;
}

static void forward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r, yard_t way, float l) {
  float *prob = r->yard[way].p, *o = r->yard[way].o;
  const float offset = p->dtype == FA_E4M3 ? E4M3_P_SCALE : 1;
  const float rest = way == P_DIVIDED ? 1 : 1 / l; /* what the sum must still be multiplied by, and P */
  for (int64_t j = 0; j < n; j++) {
    prob[j] = way == P_DIVIDED ? r->exponentials[j] / l : r->exponentials[j];
    if (way != P_EXACT) prob[j] = fa_round_to(p->dtype, prob[j] * offset) / offset;
    if (l == 0) prob[j] = 0;
  }
  x->combine_f(prob, l == 0 ? 0 : n, x->v_f, x->dv, x->dv, o);
  for (int64_t c = 0; c < x->dv; c++) o[c] = l == 0 ? 0 : fa_round_to(p->dtype_out, o[c] * rest);
  for (int64_t j = 0; j < n; j++) prob[j] *= l == 0 ? 0 : rest;
}

void fa_yardstick_forward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r) {
  const float l = exponentials(x, p, n, r);
  for (int way = 0; way < fa_yards(p); way++) forward(x, p, n, r, (yard_t)way, l);
}

/* D = rowsum(dO o O) with the O that a backward pass is given, which is rounded: what that costs is nobody's fault. */
static void backward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r, yard_t way) {
  float *prob = r->yard[way].p, *ds = r->yard[way].ds, *dq = r->yard[way].dq;
  float D = 0;
  for (int64_t c = 0; c < x->dv; c++) D += r->d_o_f[c] * r->yard[way].o[c];
  for (int64_t j = 0; j < n; j++) ds[j] = fa_round_to(p->dtype, prob[j] * (r->dp[j] - D));
  x->combine_f(ds, n, x->k_f, x->d, x->d, dq);
  for (int64_t c = 0; c < x->d; c++) dq[c] = fa_round_to(p->dtype, p->scale * dq[c]);
}

void fa_yardstick_backward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r) {
  if (r->lse == -INFINITY) n = 0;
  x->combine_f(r->d_o_f, x->dv, x->vt_f, x->keys, n, r->dp);
  for (int way = 0; way < fa_yards(p); way++) backward(x, p, n, r, (yard_t)way);
}
