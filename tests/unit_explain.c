/* unit_explain.c - each usual mistake, made on purpose, fails and is named. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NQ = 80, NK = 100, D = 16, DV = 8, ROW = 70 };

static void right_result(fa_tensors_t *t, fa_expected_t *e, bool causal, double steepness) {
  fa_problem_t p = {.batch = 2,
                    .heads_q = 4,
                    .heads_kv = 2,
                    .seq_q = NQ,
                    .seq_k = NK,
                    .head_dim = D,
                    .head_dim_v = DV,
                    .causal = causal,
                    .scale = (float)steepness};
  host_tensors(t, &p, false, FA_BHND);
  expect_values(e, &t->host, false);
  write_right_result(t, e);
}

/* Writes o into row ROW of batch 1, head 2 and demands that the failure is explained with `part`. */
static void explained(fa_tensors_t *t, fa_expected_t *e, const double *o, const char *part) {
  for (int c = 0; c < DV; c++) store_at(&t->host, FA_O, 1, 2, ROW, c, o[c]);
  fa_comparison_t c;
  fa_compare(&t->host, e, &c);
  ck_assert_msg(!c.ok && !c.tensor[0].ok, "%s: passed", part);
  ck_assert_int_eq(c.tensor[0].worst[2], ROW);
  ck_assert_msg(strstr(c.tensor[0].how, part) != NULL, "explained as \"%s\", wanted \"%s\"", c.tensor[0].how,
                part);
  char line[400];
  fa_verdict_line(&c.tensor[0], line, sizeof line);
  ck_assert_msg(strstr(line, part) != NULL, "%s", line);
}

#define USUAL_SCALE 0.25
#define STEEP 1.5 /* logits so far apart that the running maximum rises often */

static void wrong_row(bool causal, int64_t h, int64_t kvh, int64_t i, int64_t visible, int64_t padding,
                      const char *part) {
  fa_tensors_t t;
  fa_expected_t e;
  double o[DV], lse;
  right_result(&t, &e, causal, USUAL_SCALE);
  attention_row(&t.host, 1, h, kvh, i, visible, padding, o, &lse);
  explained(&t, &e, o, part);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}

/* Head 2 reads kv head 1; row 70 of 80 sees 91 of 100 keys if causal. */
START_TEST(masked_wrong) {
  wrong_row(true, 2, 1, ROW, 100, 0, "masked wrong");
  wrong_row(true, 2, 1, ROW, 100, 0, "was not applied");
  wrong_row(true, 2, 1, ROW, 71, 0, "aligned to the first key");
  wrong_row(true, 2, 1, ROW, 90, 0, "one key too many");
  wrong_row(true, 2, 1, ROW, 90, 0, "hides");
  wrong_row(true, 2, 1, ROW, 92, 0, "shows");
  wrong_row(false, 2, 1, ROW, 71, 0, "not asked for");
}
END_TEST

START_TEST(tail_tile) {
  wrong_row(false, 2, 1, ROW, 96, 0, "tile of keys was left out");
  wrong_row(false, 2, 1, ROW, 64, 0, "tile of keys was left out");
  wrong_row(false, 2, 1, ROW, 100, 28, "tail tile"); /* up to 128, with logit 0 */
  wrong_row(false, 2, 1, ROW, 100, 4, "tail tile");  /* up to 104 */
}
END_TEST

START_TEST(neighbouring_head) {
  wrong_row(false, 2, 0, ROW, 100, 0, "kv head 0, not 1");
  wrong_row(false, 3, 1, ROW, 100, 0, "neighbouring head 3");
  wrong_row(false, 1, 0, ROW, 100, 0, "neighbouring head 1");
}
END_TEST

START_TEST(neighbouring_row) {
  wrong_row(false, 2, 1, ROW + 1, 100, 0, "neighbouring row 71");
  wrong_row(false, 2, 1, ROW - 1, 100, 0, "neighbouring row 69");
}
END_TEST

/* Online softmax over tiles in which the old O, or O and l, keep the old maximum. */
static void unrescaled(const fa_problem_t *p, int64_t tile, bool l_too, double *o) {
  double m = -INFINITY, l = 0;
  memset(o, 0, DV * sizeof *o);
  for (int64_t j0 = 0; j0 < NK; j0 += tile) {
    double s[NK] = {0}, old = m;
    int64_t end = j0 + tile < NK ? j0 + tile : NK;
    for (int64_t j = j0; j < end; j++) {
      for (int64_t c = 0; c < D; c++) s[j] += load_at(p, FA_Q, 1, 2, ROW, c) * load_at(p, FA_K, 1, 1, j, c);
      s[j] *= (double)p->scale;
      m = fmax(m, s[j]);
    }
    if (!l_too && j0) l *= exp(old - m);
    for (int64_t j = j0; j < end; j++) {
      l += exp(s[j] - m);
      for (int64_t c = 0; c < DV; c++) o[c] += exp(s[j] - m) * load_at(p, FA_V, 1, 1, j, c);
    }
  }
  for (int64_t c = 0; c < DV; c++) o[c] /= l;
}

START_TEST(not_rescaled) {
  static const int64_t tiles[] = {1, 16, 32, 64};
  for (int n = 0; n < 8; n++) {
    fa_tensors_t t;
    fa_expected_t e;
    double o[DV];
    right_result(&t, &e, false, STEEP);
    /* Key 99 has by far the largest logit, so that the maximum rises in the last tile for certain. */
    for (int c = 0; c < D; c++) store_at(&t.host, FA_K, 1, 1, 99, c, load_at(&t.host, FA_Q, 1, 2, ROW, c));
    fa_expected_free(&e);
    expect_values(&e, &t.host, false);
    write_right_result(&t, &e);
    unrescaled(&t.host, tiles[n / 2], n % 2, o);
    explained(&t, &e, o, "not rescaled");
    fa_expected_free(&e);
    fa_tensors_free(&t);
  }
}
END_TEST

static double largest_logit(const fa_problem_t *p) {
  double m = -INFINITY;
  for (int64_t j = 0; j < NK; j++) {
    double s = 0;
    for (int64_t c = 0; c < D; c++) s += load_at(p, FA_Q, 1, 2, ROW, c) * load_at(p, FA_K, 1, 1, j, c);
    m = fmax(m, p->scale * s);
  }
  return m;
}

START_TEST(never_written_and_never_divided) {
  fa_tensors_t t;
  fa_expected_t e;
  double o[DV], lse;
  right_result(&t, &e, false, USUAL_SCALE);
  for (int c = 0; c < DV; c++) o[c] = FA_SENTINEL;
  explained(&t, &e, o, "never written");
  attention_row(&t.host, 1, 2, 1, ROW, NK, 0, o, &lse);
  double l = exp(lse - largest_logit(&t.host)); /* sum_j exp(s_j - m) */
  for (int c = 0; c < DV; c++) o[c] *= l;
  explained(&t, &e, o, "never divided");
  for (int c = 0; c < DV; c++) o[c] *= exp(lse) / l; /* nobody divides by exp(LSE): another mistake */
  explained(&t, &e, o, "the denominator l is wrong");
  attention_row(&t.host, 1, 2, 1, ROW, NK, 0, o, &lse);
  for (int c = 0; c < DV; c++) o[c] *= 0.4321;
  explained(&t, &e, o, "denominator");
  attention_row(&t.host, 1, 2, 1, ROW, NK, 0, o, &lse);
  o[3] = NAN;
  explained(&t, &e, o, "NaN");
  for (int c = 0; c < DV; c++) o[c] = 0;
  explained(&t, &e, o, "the row is 0");
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* Row 70 sees 91 of 100 keys; item 1 has 95 of them if kv_len says so, and the row then 86. */
static void leaks(bool causal, int32_t kv_len, int array, int64_t key, double x, const char *part) {
  const int32_t kv[2] = {NK, kv_len};
  fa_tensors_t t;
  fa_expected_t e;
  double o[DV], lse;
  right_result(&t, &e, causal, USUAL_SCALE);
  fa_expected_free(&e);
  if (kv_len) t.host.kv_len = kv;
  store_at(&t.host, array, 1, 1, key, 3, x);
  expect_values(&e, &t.host, false);
  write_right_result(&t, &e);
  int64_t keys = kv_len ? kv_len : NK;
  attention_row(&t.host, 1, 2, 1, ROW, causal ? keys - 9 : keys, 0, o, &lse);
  o[3] = NAN;
  explained(&t, &e, o, part);
  fa_expected_free(&e);
  t.host.kv_len = NULL;
  fa_tensors_free(&t);
}

START_TEST(nan_from_a_hidden_key) {
  leaks(true, 0, FA_V, 91, NAN, "key 91, which the mask hides");
  leaks(true, 0, FA_K, 99, INFINITY, "key 99, which the mask hides");
  leaks(false, 95, FA_K, 95, NAN, "key 95, which lies beyond kv_len");
  leaks(true, 95, FA_V, 99, -INFINITY, "key 99, which lies beyond kv_len");
  leaks(true, 95, FA_V, 86, NAN, "key 86, which the mask hides");
  leaks(true, 0, FA_V, 90, INFINITY, "input that the row sees");
  leaks(true, 0, FA_V, 91, 1, "NaN from finite input");
}
END_TEST

START_TEST(nan_in_an_empty_row) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = 4,
                    .seq_k = 2,
                    .head_dim = 4,
                    .head_dim_v = 4,
                    .causal = true,
                    .scale = 1};
  fa_tensors_t t;
  fa_expected_t e;
  fa_comparison_t c;
  host_tensors(&t, &p, false, FA_BHND);
  expect_values(&e, &t.host, false);
  write_right_result(&t, &e);
  for (int n = 0; n < 4; n++) store_at(&t.host, FA_O, 0, 0, 1, n, NAN);
  fa_compare(&t.host, &e, &c);
  ck_assert(!c.ok);
  ck_assert_ptr_nonnull(strstr(c.tensor[0].how, "0/0"));
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

START_TEST(base_two_log) {
  fa_tensors_t t;
  fa_expected_t e;
  fa_comparison_t c;
  right_result(&t, &e, false, USUAL_SCALE);
  for (int k = 0; k < 2 * 4 * NQ; k++) t.host.lse[k] = (float)(e.lse[k] / log(2));
  fa_compare(&t.host, &e, &c);
  ck_assert(c.tensor[0].ok && !c.tensor[1].ok);
  ck_assert_ptr_nonnull(strstr(c.tensor[1].how, "base 2"));
  for (int k = 0; k < 2 * 4 * NQ; k++) t.host.lse[k] = (float)e.lse[k];
  t.host.lse[17] = FA_SENTINEL;
  fa_compare(&t.host, &e, &c);
  ck_assert_ptr_nonnull(strstr(c.tensor[1].how, "never written"));
  t.host.lse[17] = -INFINITY; /* near every number, where differences of infinities are compared */
  fa_compare(&t.host, &e, &c);
  ck_assert(!c.ok);
  ck_assert_str_eq(c.tensor[1].how, "");
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* Noise is no fault with a name: nothing is made up. */
START_TEST(unknown_faults_stay_unnamed) {
  fa_tensors_t t;
  fa_expected_t e;
  fa_comparison_t c;
  right_result(&t, &e, false, USUAL_SCALE);
  for (int n = 0; n < DV; n++)
    store_at(&t.host, FA_O, 1, 2, ROW, n,
             load_at(&t.host, FA_O, 1, 2, ROW, n) + (n % 3 - 1) * 0.07 + 0.011 * n);
  fa_compare(&t.host, &e, &c);
  ck_assert(!c.ok);
  ck_assert_str_eq(c.tensor[0].how, "");
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

Suite *unit_explain(void) {
  const TTest *const tests[] = {masked_wrong,
                                tail_tile,
                                neighbouring_head,
                                neighbouring_row,
                                not_rescaled,
                                never_written_and_never_divided,
                                nan_from_a_hidden_key,
                                nan_in_an_empty_row,
                                base_two_log,
                                unknown_faults_stay_unnamed,
                                NULL};
  return suite_of("explanations of failures", tests);
}
