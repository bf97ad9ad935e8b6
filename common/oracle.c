/* oracle.c - expected values of a whole problem: rows (oracle_row.h) dealt to threads, gradients of keys summed over
 * rows, and which rows and keys are looked at where all would be too many. */
#include "oracle.h"
#include "device.h"
#include "dtype.h"
#include "oracle_row.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* Of two numbers the one that is farther from what is right, or not finite. */
static float farther(float a, float b, double right) {
  return !isfinite(a) || (isfinite(b) && fabs(a - right) >= fabs(b - right)) ? a : b;
}

/* Query rows are dealt to this many parts; dK and dV are summed per part and then over parts in order, so
 * that the result does not depend on the number of threads. */
enum { PARTS = 16 };

typedef struct sums {
  double *dk, *dv; /* [key_count][d], [key_count][dv] */
  float *dk_f[YARDS], *dv_f[YARDS];
} sums_t;

static double sums_bytes(double keys, double d, double dv) {
  return keys * (d + dv) * (8 + 4 * YARDS);
}

static bool new_sums(sums_t *a, int64_t keys, int64_t d, int64_t dv) {
  size_t nk = (size_t)(keys * d) + 1, nv = (size_t)(keys * dv) + 1;
  a->dk = calloc(nk, 8), a->dv = calloc(nv, 8);
  bool ok = a->dk && a->dv;
  for (int way = 0; way < YARDS; way++) {
    a->dk_f[way] = calloc(nk, 4), a->dv_f[way] = calloc(nv, 4);
    ok = ok && a->dk_f[way] && a->dv_f[way];
  }
  return ok;
}

static void free_sums(sums_t *a) {
  free(a->dk), free(a->dv);
  for (int way = 0; way < YARDS; way++) free(a->dk_f[way]), free(a->dv_f[way]);
}

/* Adds row r's share to the sampled keys that it sees. */
static void add_to_keys(const head_t *x, const fa_expected_t *e, const fa_problem_t *p, int64_t n,
                        const row_t *r, sums_t *a) {
  if (r->lse == -INFINITY) return;
  for (int64_t t = 0; t < e->key_count && e->keys[t] < n; t++) {
    int64_t j = e->keys[t];
    for (int64_t c = 0; c < x->d; c++) a->dk[t * x->d + c] += r->ds[j] * r->q[c];
    for (int64_t c = 0; c < x->dv; c++) a->dv[t * x->dv + c] += r->p[j] * r->d_o[c];
    for (int way = 0; way < fa_yards(p); way++) {
      const float ds = p->scale * r->yard[way].ds[j], prob = r->yard[way].p[j];
      for (int64_t c = 0; c < x->d; c++) a->dk_f[way][t * x->d + c] += ds * r->q_f[c];
      for (int64_t c = 0; c < x->dv; c++) a->dv_f[way][t * x->dv + c] += prob * r->d_o_f[c];
    }
  }
}

/* Rows part, part + PARTS, ... of query head h. */
static void do_part(const fa_problem_t *p, const head_t *x, fa_expected_t *e, int64_t b, int64_t h, int part,
                    row_t *r, sums_t *a) {
  int64_t next = 0; /* index into e->rows of the first sampled row >= i */
  for (int64_t i = part; i < p->seq_q; i += PARTS) {
    while (next < e->row_count && e->rows[next] < i) next++;
    bool wanted = next < e->row_count && e->rows[next] == i;
    if (!wanted && !e->backward) continue;
    int64_t n = fa_visible(p, x->keys, i), d = x->d, dv = x->dv;
    fa_load_row(p, &p->q, p->dtype, &p->descale_q, b, h, i, d, r->q);
    for (int64_t c = 0; c < d; c++) r->q_f[c] = (float)r->q[c];
    fa_oracle_forward(x, p->scale, n, r);
    fa_yardstick_forward(x, p, n, r);
    if (e->backward) {
      fa_load_row(p, &p->d_o, p->dtype_out, NULL, b, h, i, dv, r->d_o);
      for (int64_t c = 0; c < dv; c++) r->d_o_f[c] = (float)r->d_o[c];
      fa_oracle_backward(x, p->scale, n, r);
      fa_yardstick_backward(x, p, n, r);
      add_to_keys(x, e, p, n, r, a);
    }
    if (!wanted) continue;
    int64_t at = (b * p->heads_q + h) * e->row_count + next;
    e->lse[at] = r->lse;
    memcpy(e->o + at * dv, r->o, (size_t)dv * 8);
    for (int way = 1; way < fa_yards(p); way++)
      for (int64_t c = 0; c < dv; c++) r->yard[0].o[c] = farther(r->yard[0].o[c], r->yard[way].o[c], r->o[c]);
    memcpy(e->o_yard + at * dv, r->yard[0].o, (size_t)dv * 4);
    if (!e->backward) continue;
    memcpy(e->dq + at * d, r->dq, (size_t)d * 8);
    for (int way = 1; way < fa_yards(p); way++)
      for (int64_t c = 0; c < d; c++)
        r->yard[0].dq[c] = farther(r->yard[0].dq[c], r->yard[way].dq[c], r->dq[c]);
    memcpy(e->dq_yard + at * d, r->yard[0].dq, (size_t)d * 4);
  }
}

static void add_sums(sums_t *to, const sums_t *from, int64_t nk, int64_t nv) {
  for (int64_t c = 0; c < nk; c++) to->dk[c] += from->dk[c];
  for (int64_t c = 0; c < nv; c++) to->dv[c] += from->dv[c];
  for (int way = 0; way < YARDS; way++) {
    for (int64_t c = 0; c < nk; c++) to->dk_f[way][c] += from->dk_f[way][c];
    for (int64_t c = 0; c < nv; c++) to->dv_f[way][c] += from->dv_f[way][c];
  }
}

static void hand_in(const fa_problem_t *p, int64_t n, const double *right, float *const yard[YARDS],
                    double *out, float *out_yard) {
  for (int64_t c = 0; c < n; c++) {
    out[c] = right[c];
    out_yard[c] = fa_round_to(p->dtype, yard[0][c]);
    for (int way = 1; way < fa_yards(p); way++)
      out_yard[c] = farther(out_yard[c], fa_round_to(p->dtype, yard[way][c]), right[c]);
  }
}

/* All query heads of one kv head. */
static bool do_head(const fa_problem_t *p, fa_expected_t *e, int64_t b, int64_t kvh) {
  head_t x;
  bool ok = fa_head_new(p, b, kvh, &x);
  int64_t group = p->heads_q / p->heads_kv, keys = e->backward ? e->key_count : 0;
  sums_t part[PARTS];
  memset(part, 0, sizeof part);
  for (int t = 0; t < PARTS && ok; t++) ok = new_sums(&part[t], keys, x.d, x.dv);
  bool done[PARTS] = {false};
  /* Starting threads costs more than a few thousand scores: think of 65,536 heads of one row. */
#pragma omp parallel for schedule(dynamic, 1) if (group * p->seq_q * x.keys > 4096)
  for (int t = 0; t < PARTS; t++) {
    row_t r;
    if (!ok || !fa_row_new(&r, x.keys, x.d, x.dv)) continue;
    for (int64_t g = 0; g < group; g++) do_part(p, &x, e, b, kvh * group + g, t, &r, &part[t]);
    free(r.q);
    done[t] = true;
  }
  for (int t = 0; t < PARTS; t++) ok = ok && done[t];
  int64_t at = (b * p->heads_kv + kvh) * keys;
  for (int t = 1; t < PARTS && ok; t++) add_sums(&part[0], &part[t], keys * x.d, keys * x.dv);
  if (ok) {
    hand_in(p, keys * x.d, part[0].dk, part[0].dk_f, e->dk + at * x.d, e->dk_yard + at * x.d);
    hand_in(p, keys * x.dv, part[0].dv, part[0].dv_f, e->dv + at * x.dv, e->dv_yard + at * x.dv);
  }
  for (int t = 0; t < PARTS; t++) free_sums(&part[t]);
  fa_head_free(&x);
  return ok;
}

/* `want` of 0 .. n-1: all if they are no more, otherwise spread evenly with both ends and the places around
 * multiples of 64, where tiles begin and end, among them. */
static int64_t *sample(int64_t n, int64_t want, int64_t *count) {
  int64_t *rows = malloc((size_t)(n < want ? n : want) * 8 + 8);
  *count = 0;
  if (!rows) return NULL;
  for (int64_t t = 0; t < (n < want ? n : want); t++) {
    int64_t r = n <= want ? t : (int64_t)((double)t * (double)(n - 1) / (double)(want - 1));
    if (n > want && t % 2 && t + 1 < want) r = r / 64 * 64 + (t % 4 == 1 ? 0 : 63);
    if (r > n - 1) r = n - 1;
    if (*count && rows[*count - 1] >= r) continue;
    rows[(*count)++] = r;
  }
  return rows;
}

static bool is_sampled(const fa_problem_t *p) {
  return (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_k *
             (double)(p->head_dim + p->head_dim_v) >
         FA_ORACLE_FULL;
}

static int parts_at_once(void) {
#ifdef _OPENMP
  return omp_get_max_threads() < PARTS ? omp_get_max_threads() : PARTS;
#else
  return 1;
#endif
}

double fa_expected_bytes(const fa_problem_t *p, bool backward) {
  const bool sampled = is_sampled(p);
  const double d = (double)p->head_dim, dv = (double)p->head_dim_v;
  const double rows = fmin((double)p->seq_q, sampled ? FA_SAMPLE_ROWS : INFINITY);
  const double keys = fmin((double)p->seq_k, sampled ? FA_SAMPLE_KEYS : INFINITY);
  int64_t longest = p->kv_len ? 0 : p->seq_k;
  for (int64_t b = 0; p->kv_len && b < p->batch; b++)
    if (fa_keys(p, b) > longest) longest = fa_keys(p, b);
  const double all_rows = (double)p->batch * (double)p->heads_q * rows;
  const double all_keys = (double)p->batch * (double)p->heads_kv * keys;
  double bytes = 8 * (rows + keys) + all_rows * (12 * dv + 8);
  if (backward) bytes += all_rows * 12 * d + all_keys * 12 * (d + dv) + PARTS * sums_bytes(keys, d, dv);
  return bytes + fa_head_bytes((double)longest, d, dv) +
         parts_at_once() * fa_row_bytes((double)longest, d, dv);
}

fa_status_t fa_expected_new(fa_expected_t *e, const fa_problem_t *p, bool backward, fa_reason_t *why) {
  memset(e, 0, sizeof *e);
  /* malloc may promise more than there is. */
  const double wanted = fa_expected_bytes(p, backward);
  if (wanted > FA_NOT_WORTH_ASKING && wanted > (double)fa_machine_cpu.memory_free())
    return fa_say(why, FA_REFUSED, "%.0f bytes of memory are wanted for the oracle, %.0f are available",
                  wanted, (double)fa_machine_cpu.memory_free());
  e->backward = backward;
  e->sampled = is_sampled(p);
  e->rows = sample(p->seq_q, e->sampled ? FA_SAMPLE_ROWS : p->seq_q, &e->row_count);
  e->keys = sample(p->seq_k, e->sampled ? FA_SAMPLE_KEYS : p->seq_k, &e->key_count);
  size_t rows = (size_t)(p->batch * p->heads_q * e->row_count),
         keys = (size_t)(p->batch * p->heads_kv * e->key_count);
  size_t d = (size_t)p->head_dim, dv = (size_t)p->head_dim_v;
  /* Without gradients their arrays are there, and empty. */
  const size_t grad_rows = backward ? rows : 0, grad_keys = backward ? keys : 0;
  e->o = calloc(rows * dv + 1, 8), e->lse = calloc(rows + 1, 8), e->dq = calloc(grad_rows * d + 1, 8);
  e->o_yard = calloc(rows * dv + 1, 4), e->dq_yard = calloc(grad_rows * d + 1, 4);
  e->dk = calloc(grad_keys * d + 1, 8), e->dv = calloc(grad_keys * dv + 1, 8);
  e->dk_yard = calloc(grad_keys * d + 1, 4), e->dv_yard = calloc(grad_keys * dv + 1, 4);
  bool ok = e->rows && e->keys && e->o && e->lse && e->dq && e->o_yard && e->dq_yard && e->dk && e->dv &&
            e->dk_yard && e->dv_yard;
  for (int64_t b = 0; b < p->batch && ok; b++)
    for (int64_t kvh = 0; kvh < p->heads_kv && ok; kvh++) ok = do_head(p, e, b, kvh);
  if (ok) return FA_OK;
  fa_expected_free(e);
  return fa_say(why, FA_REFUSED, "not enough memory for the oracle");
}

void fa_expected_free(fa_expected_t *e) {
  free(e->rows), free(e->keys), free(e->o), free(e->lse), free(e->dq), free(e->dk), free(e->dv);
  free(e->o_yard), free(e->dq_yard), free(e->dk_yard), free(e->dv_yard);
  memset(e, 0, sizeof *e);
}
