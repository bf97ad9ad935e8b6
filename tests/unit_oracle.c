/* unit_oracle.c - the judge itself: against loops written apart from it, hand-worked values and central
 * differences, all in double. */
#include "oracle.h"
#include "unit.h"

#include <math.h>
#include <string.h>
#include <sys/resource.h>

static const int32_t lens[2] = {3, 9};

/* Shapes with everything that can go wrong: GQA, Nq != Nk both ways, causal, kv_len, d != dv. */
static fa_problem_t shape(int n) {
  fa_problem_t p = {.batch = 2,
                    .heads_q = 4,
                    .heads_kv = 2,
                    .seq_q = n & 1 ? 11 : 6,
                    .seq_k = n & 1 ? 6 : 9,
                    .head_dim = 5,
                    .head_dim_v = 3,
                    .causal = n & 2,
                    .scale = n & 4 ? -0.4f : 0.45f,
                    .kv_len = n & 8 ? lens : NULL};
  return p;
}
enum { SHAPES = 16 };

START_TEST(forward_by_definition) {
  for (int n = 0; n < SHAPES; n++) {
    fa_problem_t p = shape(n);
    fa_tensors_t t;
    fa_expected_t e;
    host_tensors(&t, &p, false, n % 3 ? FA_BNHD : FA_PADDED);
    expect_values(&e, &t.host, false);
    ck_assert_int_eq(e.row_count, p.seq_q);
    ck_assert(!e.sampled);
    for (int64_t b = 0; b < 2; b++)
      for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < p.seq_q; i++) {
          double o[3], lse, again[3], lse_again;
          int64_t keys = p.kv_len ? (p.kv_len[b] < p.seq_k ? p.kv_len[b] : p.seq_k) : p.seq_k, visible = 0;
          for (int64_t j = 0; j < keys; j++) visible += !p.causal || j <= i + (keys - p.seq_q);
          attention_row(&t.host, b, h, h / 2, i, visible, 0, o, &lse);
          fa_oracle_row(&t.host, b, h, h / 2, i, visible, again, &lse_again);
          int64_t at = (b * 4 + h) * p.seq_q + i;
          ck_assert(lse == e.lse[at] || fabs(lse - e.lse[at]) <= 1e-12);
          ck_assert(lse_again == e.lse[at]);
          for (int c = 0; c < 3; c++) {
            ck_assert_double_eq_tol(visible ? o[c] : 0, e.o[at * 3 + c], 1e-12);
            ck_assert_double_eq(again[c], e.o[at * 3 + c]);
          }
        }
    fa_expected_free(&e);
    fa_tensors_free(&t);
  }
}
END_TEST

/* The sum of dO * O, whose gradients the oracle's dQ, dK and dV must be. */
static double loss(const fa_problem_t *p) {
  fa_expected_t e;
  expect_values(&e, p, false);
  double sum = 0;
  int64_t n = 0;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->heads_q; h++)
      for (int64_t i = 0; i < p->seq_q; i++)
        for (int64_t c = 0; c < p->head_dim_v; c++) sum += e.o[n++] * load_at(p, FA_DO, b, h, i, c);
  fa_expected_free(&e);
  return sum;
}

/* Inputs are multiples of 2^-8, so that adding 2^-12 is exact in the fp32 in which they are stored. */
START_TEST(gradients_by_central_differences) {
  const double step = 0x1p-12;
  static const int inputs[3] = {FA_Q, FA_K, FA_V};
  for (int n = 0; n < SHAPES; n++) {
    fa_problem_t p = shape(n);
    fa_tensors_t t;
    fa_expected_t e;
    host_tensors(&t, &p, true, FA_BHND);
    for (int a = 0; a < 3; a++) {
      float *x = (float *)fa_array_tensor(&t.host, inputs[a])->data;
      int64_t size[4];
      fa_array_size(&p, inputs[a], size);
      for (int64_t k = 0; k < size[0] * size[1] * size[2] * size[3]; k++) x[k] = rintf(x[k] * 256) / 256;
    }
    expect_values(&e, &t.host, true);
    const double *gradients[3] = {e.dq, e.dk, e.dv};
    for (int a = 0; a < 3; a++) {
      int64_t size[4], k = 0;
      fa_array_size(&p, inputs[a], size);
      for (int64_t b = 0; b < size[0]; b++)
        for (int64_t h = 0; h < size[1]; h++)
          for (int64_t r = 0; r < size[2]; r++)
            for (int64_t c = 0; c < size[3]; c++, k++) {
              double x = load_at(&t.host, inputs[a], b, h, r, c);
              if (isnan(x)) { /* beyond kv_len */
                ck_assert_double_eq(gradients[a][k], 0);
                continue;
              }
              store_at(&t.host, inputs[a], b, h, r, c, x + step);
              double above = loss(&t.host);
              store_at(&t.host, inputs[a], b, h, r, c, x - step);
              double below = loss(&t.host), numeric = (above - below) / (2 * step);
              store_at(&t.host, inputs[a], b, h, r, c, x);
              ck_assert_msg(fabs(numeric - gradients[a][k]) <= 1e-6,
                            "shape %d, %s element %d: %.12g, numeric %.12g", n, fa_array_name(inputs[a]),
                            (int)k, gradients[a][k], numeric);
            }
    }
    fa_expected_free(&e);
    fa_tensors_free(&t);
  }
}
END_TEST

/* bl11 and bl01 by hand. */
START_TEST(hand_worked_values) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = 1,
                    .seq_k = 4,
                    .head_dim = 1,
                    .head_dim_v = 1,
                    .scale = 1};
  fa_tensors_t t;
  fa_expected_t e;
  host_tensors(&t, &p, true, FA_BHND);
  for (int j = 0; j < 4; j++) {
    store_at(&t.host, FA_K, 0, 0, j, 0, 5 * j);
    store_at(&t.host, FA_V, 0, 0, j, 0, j + 1);
  }
  store_at(&t.host, FA_Q, 0, 0, 0, 0, 1);
  store_at(&t.host, FA_DO, 0, 0, 0, 0, 2);
  expect_values(&e, &t.host, true);
  ck_assert_double_eq_tol(e.o[0], 3.9932163533383096, 1e-14);
  ck_assert_double_eq_tol(e.lse[0], 15.006760747388334, 1e-13);
  ck_assert_double_eq_tol(e.dv[3], 2 * 0.9932620550481801, 1e-13); /* P of the last key times dO */
  fa_expected_free(&e);
  fa_tensors_free(&t);

  p.seq_q = 4, p.seq_k = 2, p.causal = true;
  host_tensors(&t, &p, true, FA_BHND);
  for (int i = 0; i < 4; i++) store_at(&t.host, FA_Q, 0, 0, i, 0, 0);
  store_at(&t.host, FA_V, 0, 0, 0, 0, 1);
  store_at(&t.host, FA_V, 0, 0, 1, 0, 3);
  expect_values(&e, &t.host, true);
  static const double o[4] = {0, 0, 1, 2}, lse[4] = {-INFINITY, -INFINITY, 0, 0.6931471805599453};
  for (int i = 0; i < 4; i++) {
    ck_assert_double_eq_tol(e.o[i], o[i], 1e-15);
    ck_assert(e.lse[i] == lse[i] || fabs(e.lse[i] - lse[i]) < 1e-15);
    if (i < 2) ck_assert_double_eq(e.dq[i], 0);
  }
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* NaN reaches what may see it, and nothing else; infinite logits have their limits. */
START_TEST(special_values) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 2,
                    .heads_kv = 1,
                    .seq_q = 5,
                    .seq_k = 5,
                    .head_dim = 2,
                    .head_dim_v = 2,
                    .causal = true,
                    .scale = 1};
  fa_tensors_t t;
  fa_expected_t e;
  host_tensors(&t, &p, true, FA_BHND);
  store_at(&t.host, FA_K, 0, 0, 3, 1, NAN);
  expect_values(&e, &t.host, true);
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < 5; i++) {
      int at = h * 5 + i;
      ck_assert_int_eq(isnan(e.lse[at]) != 0, i >= 3);
      for (int c = 0; c < 2; c++) {
        ck_assert_int_eq(isnan(e.o[at * 2 + c]) != 0, i >= 3);
        ck_assert_int_eq(isnan(e.dq[at * 2 + c]) != 0, i >= 3);
      }
    }
  fa_expected_free(&e);
  store_at(&t.host, FA_K, 0, 0, 3, 1, 0);
  store_at(&t.host, FA_V, 0, 0, 2, 0, NAN);
  expect_values(&e, &t.host, true);
  for (int h = 0; h < 2; h++)
    for (int i = 0; i < 5; i++) {
      ck_assert(isfinite(e.lse[h * 5 + i]));
      ck_assert_int_eq(isnan(e.o[(h * 5 + i) * 2]) != 0, i >= 2);
      ck_assert(isfinite(e.o[(h * 5 + i) * 2 + 1]));
    }
  fa_expected_free(&e);
  fa_tensors_free(&t);

  p.causal = false, p.heads_q = 1;
  host_tensors(&t, &p, false, FA_BHND);
  for (int i = 0; i < 5; i++) {
    store_at(&t.host, FA_Q, 0, 0, i, 0, i < 4 ? 1 : -1);
    store_at(&t.host, FA_K, 0, 0, i, 0, -INFINITY);
    store_at(&t.host, FA_Q, 0, 0, i, 1, 1);
    store_at(&t.host, FA_K, 0, 0, i, 1, 0);
  }
  expect_values(&e, &t.host, false);
  ck_assert_double_eq(e.lse[0], -INFINITY); /* every logit is -inf: as if there were no key */
  ck_assert_double_eq(e.o[0], 0);
  ck_assert(isnan(e.lse[4])); /* every logit is +inf */
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

/* What is announced is what the process grows by: never more, and not much less (of a thread's row some is not used). Its peak is
 * never forgotten, so that each pass needs a process of its own. Under ASan memory that was freed is kept back. */
static void expect_growth(bool backward, int64_t keys) {
  fa_problem_t p = {.batch = 1, .heads_q = 1, .heads_kv = 1, .head_dim = 16, .head_dim_v = 16, .scale = 1};
  p.seq_q = 32, p.seq_k = keys;
  fa_tensors_t t;
  fa_expected_t e;
  struct rusage before, after;
  host_tensors(&t, &p, backward, FA_BHND);
  ck_assert_int_eq(getrusage(RUSAGE_SELF, &before), 0);
  expect_values(&e, &t.host, backward);
  ck_assert_int_eq(getrusage(RUSAGE_SELF, &after), 0);
  const double grown = 1024.0 * (double)(after.ru_maxrss - before.ru_maxrss),
               bytes = fa_expected_bytes(&p, backward);
  ck_assert(!e.sampled);
  fa_expected_free(&e);
  fa_tensors_free(&t);
#if UNDER_ASAN
  (void)grown, (void)bytes;
#else
  ck_assert_msg(grown > 0.4 * bytes && grown < 1.05 * bytes + 4e6, "grew by %.0f, announced %.0f", grown,
                bytes);
#endif
}

START_TEST(memory_forward) {
  expect_growth(false, 200000);
}
END_TEST

START_TEST(memory_backward) {
  expect_growth(true, 20000);
}
END_TEST

/* Nothing is tried that cannot fit, and the sizes themselves may pass 64 bits. */
START_TEST(oracle_too_large) {
  fa_problem_t p = {.batch = 1, .heads_q = 1, .heads_kv = 1, .head_dim = 64, .head_dim_v = 64, .scale = 1};
  fa_expected_t e;
  fa_reason_t why = {""};
  p.seq_q = 1, p.seq_k = (int64_t)1 << 50;
  ck_assert_double_gt(fa_expected_bytes(&p, false), 0x1p50 * 128 * 24);
  ck_assert_int_eq(fa_expected_new(&e, &p, false, &why), FA_REFUSED);
  ck_assert_msg(strstr(why.text, "wanted for the oracle") && strstr(why.text, "available"), "%s", why.text);
  static const int32_t few[1] = {10};
  p.kv_len = few;
  ck_assert_double_lt(fa_expected_bytes(&p, false), 1e6); /* only keys that are valid are looked at */
}
END_TEST

Suite *unit_oracle(void) {
  const TTest *const tests[] = {forward_by_definition, gradients_by_central_differences,
                                hand_worked_values,    special_values,
                                memory_forward,        memory_backward,
                                oracle_too_large,      NULL};
  return suite_of("the oracle", tests);
}
