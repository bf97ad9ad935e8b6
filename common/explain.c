/* explain.c - names the fault behind a wrong row of O or LSE.
 *
 * For the worst row the value is computed again under each of a list of usual mistakes; the one that
 * reproduces what we got, where the right one does not, is named. Nothing is said if none fits. */
#include "compare.h"
#include "dtype.h"
#include "oracle_row.h"
#include "tensors.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct suspect {
  const fa_problem_t *p;
  fa_verdict_t *v;
  int64_t b, h, i, keys, visible;
  double *ours, *right, *trial; /* [head_dim_v] */
  double *query, *key;          /* [head_dim]: the row of Q, and one of K */
  double lse, tolerance;
} suspect_t;

/* Is `trial` what we got? Compared over the whole row, so that chance agreement is unlikely. */
static bool fits(const suspect_t *s, const double *trial) {
  for (int64_t c = 0; c < s->p->head_dim_v; c++)
    if (!(fabs(trial[c] - s->ours[c]) <= s->tolerance)) return false;
  return true;
}

static bool say(suspect_t *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool say(suspect_t *s, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(s->v->how, sizeof s->v->how, format, args);
  va_end(args);
  return true;
}

static bool never_written(suspect_t *s) {
  float sentinel = fa_round_to(s->p->dtype_out, FA_SENTINEL);
  for (int64_t c = 0; c < s->p->head_dim_v; c++)
    if (s->ours[c] != sentinel) return false;
  return say(s, "the row was never written");
}

static bool row_is_finite(const fa_problem_t *p, const fa_tensor_t *t, int64_t b, int64_t h, int64_t r,
                          int64_t dim) {
  for (int64_t c = 0; c < dim; c++)
    if (!isfinite(fa_load(p->dtype, t->data, fa_row(t, b, h, r) + c))) return false;
  return true;
}

/* The first of the keys begin .. end-1 that has a NaN or an infinity in its row of K or V; end if none has. */
static int64_t first_not_finite(const suspect_t *s, int64_t begin, int64_t end) {
  const fa_problem_t *p = s->p;
  const int64_t kvh = fa_kv_head(p, s->h);
  while (begin < end && row_is_finite(p, &p->k, s->b, kvh, begin, p->head_dim) &&
         row_is_finite(p, &p->v, s->b, kvh, begin, p->head_dim_v))
    begin++;
  return begin;
}

/* Hidden keys come first: 0 times their NaN is NaN, whatever else is right. */
static bool not_a_number(suspect_t *s) {
  if (!isnan(s->ours[s->v->worst[3]])) return false;
  int64_t hidden = first_not_finite(s, s->visible, s->p->seq_k);
  if (hidden < s->p->seq_k)
    return say(s, "NaN: key %lld, %s, is not finite, and leaked%s", (long long)hidden,
               hidden < s->keys ? "which the mask hides from this row" : "which lies beyond kv_len",
               s->visible ? "" : ", or 0/0 was not caught: the row sees no key");
  if (s->visible == 0) return say(s, "NaN in a row that sees no key: 0/0 was not caught");
  if (first_not_finite(s, 0, s->visible) < s->visible ||
      !row_is_finite(s->p, &s->p->q, s->b, s->h, s->i, s->p->head_dim))
    return say(s, "NaN where the infinite or NaN input that the row sees should not give one");
  return say(s, "NaN from finite input: overflow, or (-inf) - (-inf)");
}

static bool all_zero(suspect_t *s) {
  for (int64_t c = 0; c < s->p->head_dim_v; c++)
    if (s->ours[c] != 0) return false;
  return say(s, "the row is 0, like one that sees no key: every exponential became 0, or l was taken for 0");
}

static bool wrong_head(suspect_t *s) {
  const fa_problem_t *p = s->p;
  double lse;
  for (int64_t kvh = 0; kvh < p->heads_kv; kvh++) {
    if (kvh == fa_kv_head(p, s->h)) continue;
    fa_oracle_row(p, s->b, s->h, kvh, s->i, s->visible, s->trial, &lse);
    if (fits(s, s->trial))
      return say(s, "query head %lld used K and V of kv head %lld, not %lld (neighbouring head)",
                 (long long)s->h, (long long)kvh, (long long)fa_kv_head(p, s->h));
  }
  for (int step = -1; step <= 1; step += 2) {
    int64_t h = s->h + step;
    if (h < 0 || h >= p->heads_q) continue;
    fa_oracle_row(p, s->b, h, fa_kv_head(p, h), s->i, s->visible, s->trial, &lse);
    if (fits(s, s->trial)) return say(s, "this is the result of the neighbouring head %lld", (long long)h);
  }
  return false;
}

static bool wrong_row(suspect_t *s) {
  double lse;
  for (int step = -1; step <= 1; step += 2) {
    int64_t i = s->i + step;
    if (i < 0 || i >= s->p->seq_q) continue;
    fa_oracle_row(s->p, s->b, s->h, fa_kv_head(s->p, s->h), i, fa_visible(s->p, s->keys, i), s->trial, &lse);
    if (fits(s, s->trial)) return say(s, "this is the result of the neighbouring row %lld", (long long)i);
  }
  return false;
}

static bool wrong_mask(suspect_t *s) {
  const struct {
    int64_t visible;
    const char *what;
  } rules[] = {{s->keys, "the causal mask was not applied"},
               {s->i + 1, s->p->causal ? "causal aligned to the first key, not to the last"
                                       : "a causal mask was applied, which was not asked for"},
               {s->visible - 1, "the mask hides one key too many"},
               {s->visible + 1, "the mask shows one key too many"},
               {s->visible / 16 * 16, "the last, partial tile of keys was left out"},
               {s->visible / 32 * 32, "the last, partial tile of keys was left out"},
               {s->visible / 64 * 64, "the last, partial tile of keys was left out"},
               {s->visible / 128 * 128, "the last, partial tile of keys was left out"}};
  double lse;
  for (size_t t = 0; t < sizeof rules / sizeof *rules; t++) {
    int64_t n = rules[t].visible;
    if (n == s->visible || n < 0 || n > s->keys) continue;
    fa_oracle_row(s->p, s->b, s->h, fa_kv_head(s->p, s->h), s->i, n, s->trial, &lse);
    if (fits(s, s->trial)) return say(s, "masked wrong: %s", rules[t].what);
  }
  return false;
}

/* Padding keys with a logit of 0 add their number to the denominator: O shrinks by one factor. */
static bool padded_tail(suspect_t *s) {
  for (int64_t tile = 8; tile <= 256; tile *= 2) {
    double extra = (double)((s->keys + tile - 1) / tile * tile - s->keys);
    if (extra == 0) continue;
    double factor = 1 / (1 + extra * exp(-s->lse));
    for (int64_t c = 0; c < s->p->head_dim_v; c++) s->trial[c] = s->right[c] * factor;
    if (fits(s, s->trial))
      return say(s, "tail tile: %lld padding keys up to a multiple of %lld counted with logit 0",
                 (long long)extra, (long long)tile);
  }
  return false;
}

/* The logit of key j. */
static double logit(const suspect_t *s, int64_t j) {
  const fa_problem_t *p = s->p;
  double dot = 0;
  fa_load_row(p, &p->k, p->dtype, &p->descale_k, s->b, fa_kv_head(p, s->h), j, p->head_dim, s->key);
  for (int64_t c = 0; c < p->head_dim; c++) dot += s->query[c] * s->key[c];
  return p->scale * dot;
}

/* The running output is not multiplied by exp(m_old - m_new) when a later tile raises the maximum. */
static bool not_rescaled(suspect_t *s, int64_t tile, bool denominator_too) {
  const fa_problem_t *p = s->p;
  int64_t kvh = fa_kv_head(p, s->h), dv = p->head_dim_v;
  double m = -INFINITY, l = 0, logits[256] = {0};
  for (int64_t c = 0; c < dv; c++) s->trial[c] = 0;
  for (int64_t j0 = 0; j0 < s->visible; j0 += tile) {
    int64_t end = j0 + tile < s->visible ? j0 + tile : s->visible;
    double old = m;
    for (int64_t j = j0; j < end; j++) {
      logits[j - j0] = logit(s, j);
      m = fmax(m, logits[j - j0]);
    }
    if (!denominator_too && old > -INFINITY) l *= exp(old - m);
    for (int64_t j = j0; j < end; j++) {
      double e = exp(logits[j - j0] - m);
      l += e;
      for (int64_t c = 0; c < dv; c++)
        s->trial[c] += e * fa_load(p->dtype, p->v.data, fa_row(&p->v, s->b, kvh, j) + c);
    }
  }
  for (int64_t c = 0; c < dv; c++) s->trial[c] /= l;
  return fits(s, s->trial);
}

static bool rescaling(suspect_t *s) {
  if (s->p->dtype == FA_E4M3) return false; /* the factors of V would have to be repeated here */
  for (int64_t tile = 256; tile >= 1; tile /= 2)
    for (int both = 0; both < 2; both++)
      if (not_rescaled(s, tile, both))
        return say(s, "not rescaled: O%s kept the old maximum when a later tile of %lld keys raised it",
                   both ? " and l" : "", (long long)tile);
  return false;
}

/* The denominator that a kernel which subtracts the row's largest logit m divides by: l = exp(LSE - m). */
static double denominator(const suspect_t *s) {
  double m = -INFINITY;
  for (int64_t j = 0; j < s->visible; j++) m = fmax(m, logit(s, j));
  return exp(s->lse - m);
}

/* O is the right row times one factor: the numerator is right, the denominator is not. */
static bool proportional(suspect_t *s) {
  double dot = 0, norm = 0;
  for (int64_t c = 0; c < s->p->head_dim_v; c++) {
    dot += s->ours[c] * s->right[c];
    norm += s->right[c] * s->right[c];
  }
  double factor = dot / norm;
  if (!isfinite(factor) || fabs(factor - 1) < 1e-3) return false;
  for (int64_t c = 0; c < s->p->head_dim_v; c++) s->trial[c] = factor * s->right[c];
  if (!fits(s, s->trial)) return false;
  if (fabs(factor - denominator(s)) <= 1e-2 * fabs(factor))
    return say(s, "the row was never divided by its denominator l");
  return say(s, "the row is %.4g times the right one: the denominator l is wrong", factor);
}

static void explain_lse(fa_verdict_t *v) {
  if (!isfinite(v->right)) return;
  if (isfinite(v->ours) && fabs(v->ours - v->right / log(2.0)) <= 1e-3 * fmax(1, fabs(v->ours)))
    snprintf(v->how, sizeof v->how, "the log-sum-exp is in base 2, not natural");
  else if (v->ours == fa_round_to(FA_FP32, FA_SENTINEL))
    snprintf(v->how, sizeof v->how, "the element was never written");
}

void fa_explain(const fa_problem_t *p, const fa_expected_t *e, fa_verdict_t *v) {
  if (v->array == FA_LSE) explain_lse(v);
  if (v->array != FA_O) return;
  suspect_t s = {.p = p, .v = v, .b = v->worst[0], .h = v->worst[1], .i = v->worst[2]};
  int64_t dv = p->head_dim_v, n = 0;
  while (n < e->row_count && e->rows[n] != s.i) n++;
  double *memory = malloc((size_t)(3 * dv + 2 * p->head_dim) * sizeof *memory);
  if (!memory || n == e->row_count) {
    free(memory);
    return;
  }
  s.ours = memory, s.right = memory + dv, s.trial = memory + 2 * dv;
  s.query = memory + 3 * dv, s.key = s.query + p->head_dim;
  fa_load_row(p, &p->q, p->dtype, &p->descale_q, s.b, s.h, s.i, p->head_dim, s.query);
  s.keys = fa_keys(p, s.b);
  s.visible = fa_visible(p, s.keys, s.i);
  int64_t at = (s.b * p->heads_q + s.h) * e->row_count + n;
  s.lse = e->lse[at];
  /* Wide enough for rounding, and never as wide as the fault itself. */
  s.tolerance = fmin(v->limit, v->error / 4);
  for (int64_t c = 0; c < dv; c++) {
    s.right[c] = e->o[at * dv + c];
    s.ours[c] = fa_load(p->dtype_out, p->o.data, fa_row(&p->o, s.b, s.h, s.i) + c);
  }
  bool named = never_written(&s) || not_a_number(&s) || all_zero(&s) || wrong_head(&s) || wrong_mask(&s) ||
               padded_tail(&s) || rescaling(&s) || wrong_row(&s) || proportional(&s);
  (void)named;
  free(memory);
}
