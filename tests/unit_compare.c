/* unit_compare.c - tests of the tests: right results pass, and results that are wrong in one place fail. */
#include "compare.h"
#include "dtype.h"
#include "unit.h"

#include <math.h>
#include <string.h>

static const int arrays[5] = {FA_O, FA_LSE, FA_DQ, FA_DK, FA_DV};

/* A right result to spoil: causal with more queries than keys, so that some rows see nothing. */
static void right_result(fa_tensors_t *t, fa_expected_t *e, fa_dtype_t dtype) {
  fa_problem_t p = {.batch = 2,
                    .heads_q = 4,
                    .heads_kv = 2,
                    .seq_q = 70,
                    .seq_k = 60,
                    .head_dim = 16,
                    .head_dim_v = 8,
                    .dtype = dtype,
                    .dtype_out = dtype,
                    .causal = true,
                    .scale = fa_default_scale(16)};
  host_tensors(t, &p, true, FA_PADDED);
  expect_values(e, &t->host, true);
  write_right_result(t, e);
}

static fa_comparison_t compare(const fa_tensors_t *t, const fa_expected_t *e) {
  fa_comparison_t c;
  fa_compare(&t->host, e, &c);
  bool all = true;
  for (int n = 0; n < c.count; n++) all = all && c.tensor[n].ok;
  ck_assert_int_eq(c.ok, all);
  return c;
}

/* Only array `n` is wrong, and the place is named. */
static void fails_at(const fa_tensors_t *t, const fa_expected_t *e, int n, const int64_t where[4],
                     const char *what) {
  fa_comparison_t c = compare(t, e);
  ck_assert_msg(!c.ok, "%s in %s passed", what, fa_array_name(arrays[n]));
  for (int k = 0; k < 5; k++)
    ck_assert_msg(c.tensor[k].ok == (k != n), "%s: %s", what, fa_array_name(arrays[k]));
  ck_assert_int_eq(c.tensor[n].array, arrays[n]);
  ck_assert_msg(!memcmp(c.tensor[n].worst, where, sizeof c.tensor[n].worst),
                "%s: %s is said to be worst at %d %d %d %d", what, fa_array_name(arrays[n]),
                (int)c.tensor[n].worst[0], (int)c.tensor[n].worst[1], (int)c.tensor[n].worst[2],
                (int)c.tensor[n].worst[3]);
  char line[400];
  fa_verdict_line(&c.tensor[n], line, sizeof line);
  ck_assert(!strncmp(line, fa_array_name(arrays[n]), strlen(fa_array_name(arrays[n]))));
}

START_TEST(right_results_pass) {
  for (fa_dtype_t dtype = FA_FP32; dtype <= FA_BF16; dtype++) {
    fa_tensors_t t;
    fa_expected_t e;
    right_result(&t, &e, dtype);
    fa_comparison_t c = compare(&t, &e);
    for (int n = 0; n < 5; n++) {
      char line[400];
      fa_verdict_line(&c.tensor[n], line, sizeof line);
      ck_assert_msg(c.tensor[n].ok, "%s", line);
      ck_assert(c.tensor[n].error <= c.tensor[n].limit && c.tensor[n].how[0] == 0);
    }
    ck_assert_int_eq(c.count, 5);
    ck_assert_int_eq(c.row_count, 70);
    ck_assert_int_eq(c.key_count, 60);
    fa_expected_free(&e);
    fa_tensors_free(&t);
  }
}
END_TEST

/* The rule itself: 2 yardstick + 1e-5 max(1, largest); LSE 2e-4 + 1e-6 |LSE|. */
START_TEST(the_limit_is_the_rule) {
  fa_tensors_t t;
  fa_expected_t e;
  right_result(&t, &e, FA_FP16);
  fa_comparison_t c = compare(&t, &e);
  double largest = 1, yardstick = 0;
  for (int k = 0; k < 2 * 4 * 70 * 16; k++) {
    largest = fmax(largest, fabs(e.dq[k]));
    yardstick = fmax(yardstick, fabs(e.dq[k] - e.dq_yard[k]));
  }
  ck_assert_double_eq(c.tensor[2].yardstick, yardstick);
  ck_assert_double_eq_tol(c.tensor[2].limit, 2 * yardstick + 1e-5 * largest, 1e-12);
  double lse = fabs(c.tensor[1].right);
  ck_assert_double_eq_tol(c.tensor[1].limit, 2e-4 + 1e-6 * lse, 1e-12);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* One element just inside the limit passes, just outside it fails, up and down. */
START_TEST(just_inside_and_just_outside) {
  fa_tensors_t t;
  fa_expected_t e;
  right_result(&t, &e, FA_FP32);
  const double *right[5] = {e.o, e.lse, e.dq, e.dk, e.dv};
  fa_comparison_t clean = compare(&t, &e);
  for (int n = 0; n < 5; n++)
    for (int sign = -1; sign <= 1; sign += 2) {
      int64_t size[4];
      fa_array_size(&t.host, arrays[n], size);
      int64_t where[4] = {1, size[1] - 1, size[2] - 2, size[3] - 1};
      double x = right[n][((where[0] * size[1] + where[1]) * size[2] + where[2]) * size[3] + where[3]];
      double limit = arrays[n] == FA_LSE ? 2e-4 + 1e-6 * fabs(x) : clean.tensor[n].limit;
      double kept = load_at(&t.host, arrays[n], where[0], where[1], where[2], where[3]);
      store_at(&t.host, arrays[n], where[0], where[1], where[2], where[3], x + sign * 0.95 * limit);
      ck_assert_msg(compare(&t, &e).ok, "%s: 0.95 of the limit failed", fa_array_name(arrays[n]));
      store_at(&t.host, arrays[n], where[0], where[1], where[2], where[3], x + sign * 1.05 * limit);
      fails_at(&t, &e, n, where, "1.05 of the limit");
      store_at(&t.host, arrays[n], where[0], where[1], where[2], where[3], kept);
    }
  ck_assert(compare(&t, &e).ok);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* LSE 1000 may be off by 1.2e-3, LSE 0 by 2e-4: the worst element is the one that uses up more of what it may. Errors
 * are multiples of 2^-14, the distance of neighbouring fp32 numbers at 1000. */
START_TEST(worst_lse_is_relative_to_its_limit) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = 2,
                    .seq_k = 1,
                    .head_dim = 1,
                    .head_dim_v = 1,
                    .scale = 1};
  fa_tensors_t t;
  fa_expected_t e;
  host_tensors(&t, &p, false, FA_BHND);
  store_at(&t.host, FA_Q, 0, 0, 0, 0, 1000);
  store_at(&t.host, FA_Q, 0, 0, 1, 0, 0);
  store_at(&t.host, FA_K, 0, 0, 0, 0, 1);
  expect_values(&e, &t.host, false);
  write_right_result(&t, &e);
  ck_assert_double_eq(e.lse[0], 1000);
  ck_assert_double_eq(e.lse[1], 0);
  static const struct {
    int steps[2], worst;
    bool ok;
  } errors[] = {{{4, 2}, 1, true},   /* 2.4e-4 of 1.2e-3 is 20%, 1.2e-4 of 2e-4 is 61% */
                {{12, 1}, 0, true},  /* 61% and 31% */
                {{14, 4}, 1, false}, /* 71% and 122%: the error that fails is not the largest */
                {{24, 2}, 0, false}};
  for (size_t n = 0; n < sizeof errors / sizeof *errors; n++) {
    const int worst = errors[n].worst;
    for (int i = 0; i < 2; i++) t.host.lse[i] = (float)(e.lse[i] + errors[n].steps[i] * 0x1p-14);
    const fa_verdict_t v = compare(&t, &e).tensor[1];
    ck_assert_int_eq(v.ok, errors[n].ok);
    ck_assert_int_eq(v.worst[2], worst);
    ck_assert_double_eq(v.error, errors[n].steps[worst] * 0x1p-14);
    ck_assert_double_eq_tol(v.limit, worst ? 2e-4 : 1.2e-3, 1e-12);
  }
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* NaN, infinities, and the sentinel of a missing write, in the first, a middle and the last element. */
START_TEST(wrong_classes_fail) {
  static const double bad[] = {NAN, INFINITY, -INFINITY, FA_SENTINEL};
  fa_tensors_t t;
  fa_expected_t e;
  right_result(&t, &e, FA_FP32);
  for (int n = 0; n < 5; n++) {
    int64_t size[4];
    fa_array_size(&t.host, arrays[n], size);
    const int64_t places[3][4] = {{0, 0, size[2] / 2, 0},
                                  {0, size[1] - 1, size[2] - 1, 0},
                                  {size[0] - 1, size[1] - 1, size[2] - 1, size[3] - 1}};
    for (int place = 0; place < 3; place++)
      for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const int64_t *w = places[place];
        double kept = load_at(&t.host, arrays[n], w[0], w[1], w[2], w[3]);
        store_at(&t.host, arrays[n], w[0], w[1], w[2], w[3], bad[k]);
        fails_at(&t, &e, n, w, "a wrong class");
        store_at(&t.host, arrays[n], w[0], w[1], w[2], w[3], kept);
      }
  }
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* Row 0 sees no key: LSE must be -inf; neither +inf nor a very negative number will do, nor a mean for O. */
START_TEST(rows_without_keys) {
  fa_tensors_t t;
  fa_expected_t e;
  right_result(&t, &e, FA_FP32);
  static const int64_t lse_at[4] = {1, 2, 0, 0}, o_at[4] = {1, 2, 0, 3};
  static const double bad[] = {INFINITY, NAN, -1e30, -3.4e38, 0};
  ck_assert(isinf(e.lse[0]) && e.lse[0] < 0);
  for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
    store_at(&t.host, FA_LSE, 1, 2, 0, 0, bad[k]);
    fails_at(&t, &e, 1, lse_at, "not -inf");
  }
  store_at(&t.host, FA_LSE, 1, 2, 0, 0, -INFINITY);
  store_at(&t.host, FA_O, 1, 2, 0, 3, NAN);
  fails_at(&t, &e, 0, o_at, "NaN in an empty row");
  store_at(&t.host, FA_O, 1, 2, 0, 3, 0.25);
  fails_at(&t, &e, 0, o_at, "a number in an empty row");
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* Where NaN is right, a finite number is wrong. */
START_TEST(missing_nan_fails) {
  fa_tensors_t t;
  fa_expected_t e;
  right_result(&t, &e, FA_FP32);
  fa_expected_free(&e);
  store_at(&t.host, FA_Q, 1, 3, 69, 5, NAN);
  expect_values(&e, &t.host, true);
  ck_assert(!compare(&t, &e).tensor[0].ok); /* the old, finite row */
  write_right_result(&t, &e);
  ck_assert(compare(&t, &e).ok);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

static void swap_rows(const fa_problem_t *p, int array, int64_t b, int64_t h, int64_t r, int64_t h2,
                      int64_t r2) {
  int64_t size[4];
  fa_array_size(p, array, size);
  for (int64_t c = 0; c < size[3]; c++) {
    double x = load_at(p, array, b, h, r, c), y = load_at(p, array, b, h2, r2, c);
    store_at(p, array, b, h, r, c, y);
    store_at(p, array, b, h2, r2, c, x);
  }
}

START_TEST(swapped_rows_and_heads_fail) {
  fa_tensors_t t;
  fa_expected_t e;
  right_result(&t, &e, FA_BF16);
  for (int n = 0; n < 5; n++) {
    swap_rows(&t.host, arrays[n], 1, 0, 40, 0, 41);
    ck_assert_msg(!compare(&t, &e).tensor[n].ok, "%s: swapped rows pass", fa_array_name(arrays[n]));
    swap_rows(&t.host, arrays[n], 1, 0, 40, 0, 41);
    swap_rows(&t.host, arrays[n], 0, 0, 50, 1, 50);
    ck_assert_msg(!compare(&t, &e).tensor[n].ok, "%s: swapped heads pass", fa_array_name(arrays[n]));
    swap_rows(&t.host, arrays[n], 0, 0, 50, 1, 50);
  }
  ck_assert(compare(&t, &e).ok);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* Where the yardstick itself overflows fp32, the fixed tolerance holds: nothing is waved through. */
START_TEST(yardstick_that_is_not_finite) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = 1,
                    .seq_k = 1,
                    .head_dim = 4,
                    .head_dim_v = 4,
                    .scale = 1};
  fa_tensors_t t;
  fa_expected_t e;
  host_tensors(&t, &p, false, FA_BHND);
  for (int c = 0; c < 4; c++) {
    store_at(&t.host, FA_Q, 0, 0, 0, c, 1e20);
    store_at(&t.host, FA_K, 0, 0, 0, c, 1e20);
    store_at(&t.host, FA_V, 0, 0, 0, c, 1 + c);
  }
  expect_values(&e, &t.host, false);
  ck_assert(!isfinite(e.o_yard[0]) && e.o[3] == 4);
  write_right_result(&t, &e);
  t.host.lse[0] = 1e38f; /* 4e40 has no fp32; only O is looked at here */
  fa_comparison_t c = compare(&t, &e);
  ck_assert(c.tensor[0].ok);
  ck_assert_double_eq_tol(c.tensor[0].limit, 4e-5, 1e-9);
  store_at(&t.host, FA_O, 0, 0, 0, 3, 4.0001);
  ck_assert(!compare(&t, &e).tensor[0].ok);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

/* A sampled comparison says so, and sees a fault in a sampled row. */
START_TEST(sampled_comparison) {
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = 6000,
                    .seq_k = 6000,
                    .head_dim = 32,
                    .head_dim_v = 32,
                    .scale = fa_default_scale(32)};
  fa_tensors_t t;
  fa_expected_t e;
  host_tensors(&t, &p, false, FA_BHND);
  expect_values(&e, &t.host, false);
  write_right_result(&t, &e);
  fa_comparison_t c = compare(&t, &e);
  ck_assert(c.ok && c.sampled);
  ck_assert_int_eq(c.count, 2);
  ck_assert_int_eq(c.row_count, e.row_count);
  int64_t row = e.rows[e.row_count / 2];
  store_at(&t.host, FA_O, 0, 0, row, 7, load_at(&t.host, FA_O, 0, 0, row, 7) + 0.01);
  c = compare(&t, &e);
  ck_assert(!c.ok);
  ck_assert_int_eq(c.tensor[0].worst[2], row);
  fa_expected_free(&e);
  fa_tensors_free(&t);
}
END_TEST

Suite *unit_compare(void) {
  const TTest *const tests[] = {right_results_pass,
                                the_limit_is_the_rule,
                                just_inside_and_just_outside,
                                worst_lse_is_relative_to_its_limit,
                                wrong_classes_fail,
                                rows_without_keys,
                                missing_nan_fails,
                                swapped_rows_and_heads_fail,
                                yardstick_that_is_not_finite,
                                sampled_comparison,
                                NULL};
  return suite_of("the comparison", tests);
}
