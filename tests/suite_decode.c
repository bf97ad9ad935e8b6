/* suite_decode.c - bl43: row i of a full causal pass equals the one-query step that the same cache allows. */
#include "run_case.h"

#include <math.h>

enum { N = 37, HEADS = 4, HEADS_KV = 2 };

/* Query rows of head h copied from the full problem to the step's own. */
static void copy_queries(const fa_tensors_t *full, fa_tensors_t *step, int64_t first) {
  for (int64_t h = 0; h < HEADS; h++)
    for (int64_t i = 0; i < step->host.seq_q; i++)
      for (int64_t c = 0; c < full->host.head_dim; c++)
        set(step, FA_Q, 0, h, i, c, get(full, FA_Q, 0, h, first + i, c));
}

static void copy_cache(const fa_tensors_t *full, fa_tensors_t *step, int64_t keys) {
  for (int64_t h = 0; h < HEADS_KV; h++)
    for (int64_t j = 0; j < keys; j++) {
      for (int64_t c = 0; c < full->host.head_dim; c++)
        set(step, FA_K, 0, h, j, c, get(full, FA_K, 0, h, j, c));
      for (int64_t c = 0; c < full->host.head_dim_v; c++)
        set(step, FA_V, 0, h, j, c, get(full, FA_V, 0, h, j, c));
    }
}

static bool rows_agree(const subject_t *s, const fa_tensors_t *full, const fa_tensors_t *step, int64_t first,
                       const char *what, report_t *r) {
  double tolerance = tolerance_of(&full->host);
  for (int64_t h = 0; h < HEADS; h++)
    for (int64_t i = 0; i < step->host.seq_q; i++)
      for (int64_t c = -1; c < full->host.head_dim_v; c++) { /* column -1 stands for LSE */
        int array = c < 0 ? FA_LSE : FA_O;
        double whole = get(full, array, 0, h, first + i, c < 0 ? 0 : c),
               one = get(step, array, 0, h, i, c < 0 ? 0 : c);
        if (fabs(whole - one) <= tolerance * fmax(1, fabs(whole))) continue;
        wrong(r, "%s, step %s: %s: %s of head %lld, row %lld, column %lld: full pass %.9g, decoding %.9g",
              s->stage->name, s->step->name, what, fa_array_name(array), (long long)h, (long long)(first + i),
              (long long)c, whole, one);
        return false;
      }
  return true;
}

/* Steps of `queries` rows against a cache of N rows of which kv_len exist, or of exactly those. */
static void steps(const subject_t *s, const fa_tensors_t *full, int64_t queries, bool whole_cache,
                  report_t *r) {
  char what[80];
  bool ok = true;
  for (int64_t i = 0; i + queries <= N && ok; i += every(s, 7)) {
    int64_t keys = i + queries;
    int32_t kv_len[1] = {(int32_t)keys};
    fa_problem_t p = full->host;
    p.seq_q = queries;
    p.seq_k = whole_cache ? N : keys;
    p.kv_len = whole_cache ? kv_len : NULL;
    fa_tensors_t step;
    snprintf(what, sizeof what, "%d queries, %d keys%s", (int)queries, (int)keys,
             whole_cache ? " of a longer cache" : "");
    if (!make_tensors(s, &p, FA_BHND, false, what, &step, r)) return;
    copy_queries(full, &step, i);
    copy_cache(full, &step, keys);
    ok = run(s, &step, what, r) && rows_agree(s, full, &step, i, what, r);
    fa_tensors_free(&step);
  }
}

static void decode(const subject_t *s, report_t *r) {
  int ran = 0;
  for (int pair = 0; pair < IN_E4M3; pair++) {
    fa_problem_t p = {.batch = 1,
                      .heads_q = HEADS,
                      .heads_kv = HEADS_KV,
                      .seq_q = N,
                      .seq_k = N,
                      .head_dim = 64,
                      .head_dim_v = 64,
                      .dtype = type_pairs[pair].in,
                      .dtype_out = type_pairs[pair].out,
                      .causal = true,
                      .scale = fa_default_scale(64)};
    fa_reason_t why;
    if (fa_stage_supports(s->stage, s->step, &p, FA_FORWARD, s->device, &why)) continue;
    fa_tensors_t full;
    if (!make_tensors(s, &p, FA_BHND, false, "full causal pass", &full, r)) return;
    if (fill_random(&full, "normal", 43, r) && run(s, &full, "full causal pass", r)) {
      steps(s, &full, 1, true, r);
      steps(s, &full, 1, false, r);
      steps(s, &full, 4, true, r);
      ran++;
    }
    fa_tensors_free(&full);
  }
  if (!ran && !r->failures) not_run(r, "the step does not offer head_dim 64, causal, GQA");
}

static const property_t properties[] = {{.name = "bl43_decode", .once = decode}, {.name = NULL}};
const suite_t suite_decode = {"decoding step by step", properties};
