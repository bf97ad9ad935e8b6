/* online.c - step `online`: softmax in one pass, one query row and one key at a time.
 *
 * The row carries (m, l, O) with O *not* divided by l (FlashAttention-2, section 3.1). A key with logit s
 * costs one comparison, and one rescaling if it raises the maximum:
 *
 *   m' = max(m, s)    l' = exp(m - m') l + exp(s - m')    O' = exp(m - m') O + exp(s - m') v
 *
 * At the end O / l is the output and LSE = m + ln l. S and P never exist: the row needs head_dim_v + 2
 * numbers whatever the sequence length. But every row reads all of K and V again: see `tiled`. */
#include "stage.h"

#include <math.h>

#include "count.h"

/* Row i of head h. Returns how often the maximum rose; the first time, there is nothing to rescale. */
static double one_row(const fa_problem_t *p, int64_t b, int64_t h, int64_t i, int64_t n) {
  int64_t kvh = fa_kv_head(p, h), d = p->head_dim, dv = p->head_dim_v;
  const float *q = (const float *)p->q.data + fa_row(&p->q, b, h, i);
  float *O = (float *)p->o.data + fa_row(&p->o, b, h, i);
  float *lse = &p->lse[(b * p->heads_q + h) * p->seq_q + i];
  double rises = 0;
  for (int64_t c = 0; c < dv; c++) O[c] = 0;
  /* BEGIN SOLUTION */
  /* STUB: (void)kvh, (void)d, (void)q, (void)n; */
  /* STUB: *lse = 0; */
  float m = -INFINITY, l = 0;
  for (int64_t j = 0; j < n; j++) {
    const float *k = (const float *)p->k.data + fa_row(&p->k, b, kvh, j);
    const float *v = (const float *)p->v.data + fa_row(&p->v, b, kvh, j);
    float s = 0;
    for (int64_t c = 0; c < d; c++) s += q[c] * k[c];
    s *= p->scale;
    if (s > m) { /* the maximum rises: what was summed so far is worth less */
      float kept = expf(m - s);
      l *= kept;
      for (int64_t c = 0; c < dv; c++) O[c] *= kept;
      m = s;
      rises++;
    }
    float a = s == -INFINITY ? 0 : expf(s - m); /* m may still be -inf; NaN goes through */
    l += a;
    for (int64_t c = 0; c < dv; c++) O[c] += a * v[c];
  }
  bool empty = l == 0; /* no key, or nothing but -inf */
  for (int64_t c = 0; c < dv; c++) O[c] = empty ? 0 : O[c] / l;
  *lse = empty ? -INFINITY : m + logf(l);
  /* END SOLUTION */
  return rises;
}

static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  double d = (double)p->head_dim, dv = (double)p->head_dim_v;
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->heads_q; h++) {
      fa_count_t count = {0};
      for (int64_t i = 0; i < p->seq_q; i++) {
        int64_t n = fa_visible(p, fa_keys(p, b), i);
        double rises = one_row(p, b, h, i, n), pairs = (double)n;
        double logs = p->lse[(b * p->heads_q + h) * p->seq_q + i] == -INFINITY ? 0 : 1;
        count.hbm_read += 4 * (d + pairs * (d + dv)); /* the row of Q, and all of K and V that it sees */
        count.hbm_written += 4 * (dv + 1);
        count.matmul_flop += 2 * pairs * (d + dv);
        /* scale, maximum, subtract, add; O, l and the difference; O and LSE */
        count.other_flop += 4 * pairs + rises * (dv + 2) + logs * (dv + 1);
        count.exp += pairs + rises + logs;
        count.rescales += rises > 0 ? rises - 1 : 0;
      }
      fa_count_add(&count);
    }
  return FA_OK;
}

const fa_kernels_t fa_kernels_online = {NULL, forward, NULL};
