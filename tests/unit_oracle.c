/* unit_oracle.c - the judge itself: against loops written apart from it, hand-worked values and central
 * differences, all in double. */
#include "oracle.h"
#include "dtype.h"
#include "input.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

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

/* E4M3: stored number times the factor of its block of rows. */
START_TEST(descale_factors) {
  static const float factors[4] = {2, 0.5f, 4, 1};
  fa_problem_t p = {.batch = 1,
                    .heads_q = 2,
                    .heads_kv = 2,
                    .seq_q = 4,
                    .seq_k = 4,
                    .head_dim = 8,
                    .head_dim_v = 8,
                    .dtype = FA_E4M3,
                    .dtype_out = FA_FP32,
                    .scale = 0.25f};
  fa_tensors_t stored, plain;
  fa_expected_t with, without;
  host_tensors(&stored, &p, false, FA_BHND);
  stored.host.descale_k = (fa_descale_t){factors, 0, 2, 2}; /* two blocks of two rows in each head */
  stored.host.descale_v = (fa_descale_t){factors, 0, 1, 0}; /* one factor per head */
  p.dtype = FA_FP32;
  host_tensors(&plain, &p, false, FA_BHND);
  for (int64_t h = 0; h < 2; h++)
    for (int64_t r = 0; r < 4; r++)
      for (int64_t c = 0; c < 8; c++) {
        store_at(&plain.host, FA_Q, 0, h, r, c, load_at(&stored.host, FA_Q, 0, h, r, c));
        store_at(&plain.host, FA_K, 0, h, r, c,
                 factors[2 * h + r / 2] * load_at(&stored.host, FA_K, 0, h, r, c));
        store_at(&plain.host, FA_V, 0, h, r, c, factors[h] * load_at(&stored.host, FA_V, 0, h, r, c));
      }
  expect_values(&with, &stored.host, false);
  expect_values(&without, &plain.host, false);
  for (int k = 0; k < 64; k++) ck_assert_double_eq_tol(with.o[k], without.o[k], 1e-13);
  fa_expected_free(&with);
  fa_expected_free(&without);
  fa_tensors_free(&stored);
  fa_tensors_free(&plain);
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

/* The yardstick is off by rounding: more than nothing, less than a few units of the type, and representable. */
START_TEST(yardstick) {
  static const double most[4] = {2e-6, 4e-3, 3e-2, 0.3};
  double before = 0;
  for (fa_dtype_t dtype = FA_FP32; dtype < FA_DTYPES; dtype++) {
    bool backward = dtype != FA_E4M3;
    fa_problem_t p = {.batch = 1,
                      .heads_q = 2,
                      .heads_kv = 2,
                      .seq_q = 60,
                      .seq_k = 90,
                      .head_dim = 32,
                      .head_dim_v = 32,
                      .dtype = dtype,
                      .dtype_out = dtype == FA_E4M3 ? FA_BF16 : dtype,
                      .scale = fa_default_scale(32)};
    fa_tensors_t t;
    fa_expected_t e;
    host_tensors(&t, &p, backward, FA_BHND);
    expect_values(&e, &t.host, backward);
    double worst = 0;
    for (int k = 0; k < 2 * 60 * 32; k++) {
      worst = fmax(worst, fabs(e.o[k] - e.o_yard[k]));
      ck_assert_float_eq(e.o_yard[k], fa_round_to(p.dtype_out, e.o_yard[k]));
      if (backward) ck_assert_double_eq_tol(e.dq[k], e.dq_yard[k], 20 * most[dtype]);
    }
    for (int k = 0; k < 2 * 90 * 32 && backward; k++) {
      ck_assert_double_eq_tol(e.dk[k], e.dk_yard[k], 20 * most[dtype]);
      ck_assert_double_eq_tol(e.dv[k], e.dv_yard[k], 20 * most[dtype]);
    }
    ck_assert_double_gt(worst, 3 * before); /* each type is coarser than the one before */
    ck_assert_double_lt(worst, most[dtype]);
    before = worst;
    fa_expected_free(&e);
    fa_tensors_free(&t);
  }
}
END_TEST

static void same(const void *a, const void *b, size_t bytes) {
  ck_assert_int_eq(memcmp(a, b, bytes), 0);
}

START_TEST(threads_change_nothing) {
#ifdef _OPENMP
  fa_problem_t p = shape(10);
  p.seq_q = 90, p.seq_k = 110;
  fa_tensors_t t;
  fa_expected_t a, b;
  host_tensors(&t, &p, true, FA_BHND);
  omp_set_num_threads(1);
  expect_values(&a, &t.host, true);
  omp_set_num_threads(5);
  expect_values(&b, &t.host, true);
  same(a.o, b.o, 8 * 90 * 3 * 8);
  same(a.dq, b.dq, 8 * 90 * 5 * 8);
  same(a.dk, b.dk, 4 * 110 * 5 * 8);
  same(a.dv, b.dv, 4 * 110 * 3 * 8);
  same(a.dk_yard, b.dk_yard, 4 * 110 * 5 * 4);
  fa_expected_free(&a);
  fa_expected_free(&b);
  fa_tensors_free(&t);
#endif
}
END_TEST

/* Large problems: some rows of every head, with both ends among them, and the same values as all rows have. */
START_TEST(sampling) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = 6000,
                    .seq_k = 6000,
                    .head_dim = 32,
                    .head_dim_v = 32,
                    .causal = true,
                    .scale = fa_default_scale(32)};
  fa_tensors_t t;
  fa_expected_t e;
  host_tensors(&t, &p, false, FA_BHND);
  expect_values(&e, &t.host, false);
  ck_assert(e.sampled);
  ck_assert_int_le(e.row_count, FA_SAMPLE_ROWS);
  ck_assert_int_ge(e.row_count, FA_SAMPLE_ROWS / 2);
  ck_assert_int_eq(e.rows[0], 0);
  ck_assert_int_eq(e.rows[e.row_count - 1], 5999);
  ck_assert_int_eq(e.keys[0], 0);
  ck_assert_int_eq(e.keys[e.key_count - 1], 5999);
  int edges = 0;
  for (int64_t n = 0; n < e.row_count; n++) {
    double o[32], lse;
    if (n) ck_assert_int_gt(e.rows[n], e.rows[n - 1]);
    edges += e.rows[n] % 64 == 0 || e.rows[n] % 64 == 63;
    attention_row(&t.host, 0, 0, 0, e.rows[n], e.rows[n] + 1, 0, o, &lse);
    ck_assert_double_eq_tol(e.lse[n], lse, 1e-12);
    for (int c = 0; c < 32; c++) ck_assert_double_eq_tol(e.o[n * 32 + c], o[c], 1e-12);
  }
  ck_assert_int_ge(edges, 10); /* where tiles begin and end */
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

Suite *unit_oracle(void) {
  const TTest *const tests[] = {forward_by_definition,
                                gradients_by_central_differences,
                                hand_worked_values,
                                descale_factors,
                                special_values,
                                yardstick,
                                threads_change_nothing,
                                sampling,
                                NULL};
  return suite_of("the oracle", tests);
}
