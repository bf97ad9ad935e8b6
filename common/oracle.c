/* oracle.c - attention by definition, row by row: the oracle in double, the yardstick in fp32.
 *
 * For a query row i that sees keys 0 .. n-1 of its kv head:
 *   s_j = scale q_i . k_j    p_j = exp(s_j - m) / l    O_i = sum_j p_j v_j    LSE_i = m + ln l
 *   dp_j = dO_i . v_j        D_i = sum_j p_j dp_j      ds_j = p_j (dp_j - D_i)
 *   dQ_i = scale sum_j ds_j k_j    dK_j += scale ds_j q_i    dV_j += p_j dO_i
 * A row without keys, or whose scores are all -inf, has O = 0, LSE = -inf and no gradients. */
#include "oracle.h"
#include "dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* K and V of one kv head, transposed where sums run over the head dimension: the innermost loop then
 * runs over keys, which the compiler can vectorise without reordering any sum. */
typedef struct head {
  int64_t keys, d, dv;
  double *kt, *vt, *k, *v; /* [d][keys], [dv][keys], [keys][d], [keys][dv] */
  float *kt_f, *vt_f, *k_f, *v_f;
} head_t;

/* out_j = sum_c x_c w[c][j], and out_c = sum_j x_j w[j][c]: the same loop over a row-major matrix. */
#define DEFINE_COMBINE(REAL, name)                                                                           \
  static void name(const REAL *x, int64_t rows, const REAL *w, int64_t ld, int64_t cols, REAL *out) {        \
    for (int64_t j = 0; j < cols; j++) out[j] = 0;                                                           \
    for (int64_t c = 0; c < rows; c++)                                                                       \
      for (int64_t j = 0; j < cols; j++) out[j] += x[c] * w[c * ld + j];                                     \
  }
DEFINE_COMBINE(double, combine)
DEFINE_COMBINE(float, combine_f)

static double descale(const fa_descale_t *f, int64_t b, int64_t h, int64_t r) {
  if (!f->data) return 1.0;
  return f->data[b * f->stride_batch + h * f->stride_head + (f->block_rows ? r / f->block_rows : 0)];
}

static void load_row(const fa_problem_t *p, const fa_tensor_t *t, fa_dtype_t dtype, const fa_descale_t *f,
                     int64_t b, int64_t h, int64_t r, int64_t dim, double *out) {
  int64_t at = fa_row(t, b, h, r);
  double factor = f && p->dtype == FA_E4M3 ? descale(f, b, h, r) : 1.0;
  for (int64_t c = 0; c < dim; c++) out[c] = factor * fa_load(dtype, t->data, at + c);
}

static void free_head(head_t *x) {
  free(x->kt), free(x->vt), free(x->k), free(x->v);
  free(x->kt_f), free(x->vt_f), free(x->k_f), free(x->v_f);
}

static bool load_head(const fa_problem_t *p, int64_t b, int64_t kvh, head_t *x) {
  memset(x, 0, sizeof *x);
  x->keys = fa_keys(p, b), x->d = p->head_dim, x->dv = p->head_dim_v;
  size_t nk = (size_t)(x->keys * x->d) + 1, nv = (size_t)(x->keys * x->dv) + 1;
  x->k = malloc(nk * 8), x->kt = malloc(nk * 8), x->k_f = malloc(nk * 4), x->kt_f = malloc(nk * 4);
  x->v = malloc(nv * 8), x->vt = malloc(nv * 8), x->v_f = malloc(nv * 4), x->vt_f = malloc(nv * 4);
  if (!x->k || !x->kt || !x->k_f || !x->kt_f || !x->v || !x->vt || !x->v_f || !x->vt_f) return false;
  for (int64_t j = 0; j < x->keys; j++) {
    load_row(p, &p->k, p->dtype, &p->descale_k, b, kvh, j, x->d, x->k + j * x->d);
    load_row(p, &p->v, p->dtype, &p->descale_v, b, kvh, j, x->dv, x->v + j * x->dv);
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

/* Three plain ways with P: rounded to the dtype after the division by l, as by three kernels that store P; before it, as
 * by kernels that divide O at the end; and not at all, as by kernels without tensor cores. Each is right, and rounds O.
 * The yardstick is the least exact one, element by element: the luck of one way says little about another where there
 * are few elements, or where a single outlier rules a row. */
typedef enum { P_DIVIDED, P_UNDIVIDED, P_EXACT, YARDS } yard_t;

/* In fp32 they are the same but for the last bit. */
static int ways(const fa_problem_t *p) {
  return p->dtype == FA_FP32 ? 1 : YARDS;
}

/* Scratch and results of one row. */
typedef struct row {
  double *q, *d_o, *p, *ds, *o, *dq; /* p, ds: [keys] */
  double lse;
  float *q_f, *d_o_f;
  struct {
    float *p, *ds, *o, *dq;
  } yard[YARDS];
} row_t;

static void oracle_forward(const head_t *x, double scale, int64_t n, row_t *r) {
  combine(r->q, x->d, x->kt, x->keys, n, r->p);
  for (int64_t j = 0; j < n; j++) r->p[j] *= scale;
  double m = shift(r->p, n), l = exponentials(r->p, n, m);
  bool empty = l == 0; /* no key, or nothing but -inf */
  r->lse = empty ? -INFINITY : m + log(l);
  for (int64_t j = 0; j < n; j++) r->p[j] = empty ? 0 : r->p[j] / l;
  combine(r->p, empty ? 0 : n, x->v, x->dv, x->dv, r->o);
}

static void oracle_backward(const head_t *x, double scale, int64_t n, row_t *r) {
  if (r->lse == -INFINITY) n = 0;
  combine(r->d_o, x->dv, x->vt, x->keys, n, r->ds);
  double D = 0;
  for (int64_t j = 0; j < n; j++) D += r->p[j] * r->ds[j];
  for (int64_t j = 0; j < n; j++) r->ds[j] = scale * r->p[j] * (r->ds[j] - D);
  combine(r->ds, n, x->k, x->d, x->d, r->dq);
}

/* The offset at which kernels keep P in E4M3: exp(s - m) in 0 .. 1 becomes 0 .. 256 of the type's 448. */
#define E4M3_P_SCALE 256.0f

static void yardstick_forward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r, yard_t way) {
  float *prob = r->yard[way].p, *o = r->yard[way].o;
  combine_f(r->q_f, x->d, x->kt_f, x->keys, n, prob);
  float m = -INFINITY, l = 0;
  for (int64_t j = 0; j < n; j++) {
    prob[j] *= p->scale;
    m = prob[j] > m ? prob[j] : m;
  }
  if (m == -INFINITY) m = 0;
  for (int64_t j = 0; j < n; j++) l += prob[j] = expf(prob[j] - m);
  const float offset = p->dtype == FA_E4M3 ? E4M3_P_SCALE : 1;
  float rest =
      way == P_DIVIDED ? 1 : 1 / l; /* what the sum must still be multiplied by, and P as it is rounded */
  for (int64_t j = 0; j < n; j++) {
    if (way == P_DIVIDED) prob[j] /= l;
    if (way != P_EXACT) prob[j] = fa_round_to(p->dtype, prob[j] * offset) / offset;
    if (l == 0) prob[j] = 0;
  }
  combine_f(prob, l == 0 ? 0 : n, x->v_f, x->dv, x->dv, o);
  for (int64_t c = 0; c < x->dv; c++) o[c] = l == 0 ? 0 : fa_round_to(p->dtype_out, o[c] * rest);
  for (int64_t j = 0; j < n; j++) prob[j] *= l == 0 ? 0 : rest;
}

/* D = rowsum(dO o O) with the O that a backward pass is given, which is rounded: what that costs is nobody's fault. */
static void yardstick_backward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r, yard_t way) {
  float *prob = r->yard[way].p, *ds = r->yard[way].ds, *dq = r->yard[way].dq;
  if (r->lse == -INFINITY) n = 0;
  combine_f(r->d_o_f, x->dv, x->vt_f, x->keys, n, ds);
  float D = 0;
  for (int64_t c = 0; c < x->dv; c++) D += r->d_o_f[c] * r->yard[way].o[c];
  for (int64_t j = 0; j < n; j++) ds[j] = fa_round_to(p->dtype, prob[j] * (ds[j] - D));
  combine_f(ds, n, x->k_f, x->d, x->d, dq);
  for (int64_t c = 0; c < x->d; c++) dq[c] = fa_round_to(p->dtype, p->scale * dq[c]);
}

/* Of two numbers the one that is farther from what is right, or not finite. */
static float farther(float a, float b, double right) {
  return !isfinite(a) || (isfinite(b) && fabs(a - right) >= fabs(b - right)) ? a : b;
}

/* One allocation for all arrays of a row, so that one test of the pointer suffices. */
static bool new_row(row_t *r, int64_t keys, int64_t d, int64_t dv) {
  size_t n = (size_t)(2 * d + 2 * dv + 2 * keys), yards = (size_t)(2 * keys + dv + d) * YARDS;
  double *x = malloc(n * 8 + ((size_t)(d + dv) + yards) * 4 + 8);
  r->q = x;
  if (!x) return false;
  r->dq = r->q + d, r->o = r->dq + d, r->d_o = r->o + dv, r->p = r->d_o + dv, r->ds = r->p + keys;
  r->q_f = (float *)(void *)(r->ds + keys), r->d_o_f = r->q_f + d;
  float *at = r->d_o_f + dv;
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
  if (load_head(p, b, kv_head, &x) && new_row(&r, x.keys, x.d, x.dv)) {
    load_row(p, &p->q, p->dtype, &p->descale_q, b, h, i, x.d, r.q);
    oracle_forward(&x, p->scale, visible < x.keys ? visible : x.keys, &r);
    memcpy(o, r.o, (size_t)x.dv * 8);
    *lse = r.lse;
  }
  free(r.q);
  free_head(&x);
}

/* Query rows are dealt to this many parts; dK and dV are summed per part and then over parts in order, so
 * that the result does not depend on the number of threads. */
enum { PARTS = 16 };

typedef struct sums {
  double *dk, *dv; /* [key_count][d], [key_count][dv] */
  float *dk_f[YARDS], *dv_f[YARDS];
} sums_t;

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
    for (int way = 0; way < ways(p); way++) {
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
    load_row(p, &p->q, p->dtype, &p->descale_q, b, h, i, d, r->q);
    for (int64_t c = 0; c < d; c++) r->q_f[c] = (float)r->q[c];
    oracle_forward(x, p->scale, n, r);
    for (int way = 0; way < ways(p); way++) yardstick_forward(x, p, n, r, (yard_t)way);
    if (e->backward) {
      load_row(p, &p->d_o, p->dtype_out, NULL, b, h, i, dv, r->d_o);
      for (int64_t c = 0; c < dv; c++) r->d_o_f[c] = (float)r->d_o[c];
      oracle_backward(x, p->scale, n, r);
      for (int way = 0; way < ways(p); way++) yardstick_backward(x, p, n, r, (yard_t)way);
      add_to_keys(x, e, p, n, r, a);
    }
    if (!wanted) continue;
    int64_t at = (b * p->heads_q + h) * e->row_count + next;
    e->lse[at] = r->lse;
    memcpy(e->o + at * dv, r->o, (size_t)dv * 8);
    for (int way = 1; way < ways(p); way++)
      for (int64_t c = 0; c < dv; c++) r->yard[0].o[c] = farther(r->yard[0].o[c], r->yard[way].o[c], r->o[c]);
    memcpy(e->o_yard + at * dv, r->yard[0].o, (size_t)dv * 4);
    if (!e->backward) continue;
    memcpy(e->dq + at * d, r->dq, (size_t)d * 8);
    for (int way = 1; way < ways(p); way++)
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
    for (int way = 1; way < ways(p); way++)
      out_yard[c] = farther(out_yard[c], fa_round_to(p->dtype, yard[way][c]), right[c]);
  }
}

/* All query heads of one kv head. */
static bool do_head(const fa_problem_t *p, fa_expected_t *e, int64_t b, int64_t kvh) {
  head_t x;
  bool ok = load_head(p, b, kvh, &x);
  int64_t group = p->heads_q / p->heads_kv, keys = e->backward ? e->key_count : 0;
  sums_t part[PARTS];
  memset(part, 0, sizeof part);
  for (int t = 0; t < PARTS && ok; t++) ok = new_sums(&part[t], keys, x.d, x.dv);
  bool done[PARTS] = {false};
  /* Starting threads costs more than a few thousand scores: think of 65,536 heads of one row. */
#pragma omp parallel for schedule(dynamic, 1) if (group * p->seq_q * x.keys > 4096)
  for (int t = 0; t < PARTS; t++) {
    row_t r;
    if (!ok || !new_row(&r, x.keys, x.d, x.dv)) continue;
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
  free_head(&x);
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

fa_status_t fa_expected_new(fa_expected_t *e, const fa_problem_t *p, bool backward, fa_reason_t *why) {
  memset(e, 0, sizeof *e);
  e->backward = backward;
  double work = (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_k *
                (double)(p->head_dim + p->head_dim_v);
  e->sampled = work > FA_ORACLE_FULL;
  e->rows = sample(p->seq_q, e->sampled ? FA_SAMPLE_ROWS : p->seq_q, &e->row_count);
  e->keys = sample(p->seq_k, e->sampled ? FA_SAMPLE_KEYS : p->seq_k, &e->key_count);
  size_t rows = (size_t)(p->batch * p->heads_q * e->row_count),
         keys = (size_t)(p->batch * p->heads_kv * e->key_count);
  size_t d = (size_t)p->head_dim, dv = (size_t)p->head_dim_v;
  e->o = calloc(rows * dv + 1, 8), e->lse = calloc(rows + 1, 8), e->dq = calloc(rows * d + 1, 8);
  e->o_yard = calloc(rows * dv + 1, 4), e->dq_yard = calloc(rows * d + 1, 4);
  e->dk = calloc(keys * d + 1, 8), e->dv = calloc(keys * dv + 1, 8);
  e->dk_yard = calloc(keys * d + 1, 4), e->dv_yard = calloc(keys * dv + 1, 4);
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
