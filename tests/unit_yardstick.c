/* unit_yardstick.c - how wrong a plain implementation may be; and the oracle on E4M3, threads and samples. */
#include "dtype.h"
#include "unit.h"

#include <math.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

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

/* dS is rounded to the type before it is multiplied. Two queries see both keys alike (P = 1/2), and in key 0 their
 * dS are 1/4 + 2^-14, which fp16 does not have, and 1/4: with q = 1 and -1 the difference is lost. */
START_TEST(dS_is_rounded) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = 2,
                    .seq_k = 2,
                    .head_dim = 1,
                    .head_dim_v = 2,
                    .dtype = FA_FP16,
                    .dtype_out = FA_FP16,
                    .scale = 1};
  static const double d_o[2][2] = {{1, 1}, {1, 0}}, v[2][2] = {{1, 0x1p-12}, {0, 0}};
  fa_tensors_t t;
  fa_expected_t e;
  host_tensors(&t, &p, true, FA_BHND);
  for (int64_t r = 0; r < 2; r++) {
    store_at(&t.host, FA_Q, 0, 0, r, 0, r ? -1 : 1);
    store_at(&t.host, FA_K, 0, 0, r, 0, 0);
    for (int64_t c = 0; c < 2; c++) {
      store_at(&t.host, FA_V, 0, 0, r, c, v[r][c]);
      store_at(&t.host, FA_DO, 0, 0, r, c, d_o[r][c]);
    }
  }
  expect_values(&e, &t.host, true);
  ck_assert_double_eq(e.dk[0], 0x1p-14);
  ck_assert_float_eq(e.dk_yard[0], 0);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

static void same(const void *a, const void *b, size_t bytes) {
  ck_assert_int_eq(memcmp(a, b, bytes), 0);
}

START_TEST(threads_change_nothing) {
#ifdef _OPENMP
  fa_problem_t p = {.batch = 2,
                    .heads_q = 4,
                    .heads_kv = 2,
                    .seq_q = 90,
                    .seq_k = 110,
                    .head_dim = 5,
                    .head_dim_v = 3,
                    .causal = true,
                    .scale = 0.45f};
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

Suite *unit_yardstick(void) {
  const TTest *const tests[] = {descale_factors,        yardstick, dS_is_rounded,
                                threads_change_nothing, sampling,  NULL};
  return suite_of("the yardstick, threads and samples", tests);
}
