/* unit_input.c - seeded inputs are pure functions of seed and place, and have the distribution they claim. */
#include "input.h"
#include "dtype.h"
#include "unit.h"

#include <math.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static fa_problem_t shape(int64_t batch, int64_t heads, int64_t n, int64_t d) {
  return (fa_problem_t){.batch = batch,
                        .heads_q = heads,
                        .heads_kv = heads,
                        .seq_q = n,
                        .seq_k = n,
                        .head_dim = d,
                        .head_dim_v = d,
                        .scale = 1};
}

static void filled(fa_tensors_t *t, const fa_problem_t *p, fa_layout_t layout, const char *dist,
                   uint64_t seed) {
  fa_reason_t why = {""};
  ck_assert_msg(!fa_tensors_new(t, p, true, layout, &fa_machine_cpu, &why), "%s", why.text);
  ck_assert_msg(!fa_fill(t, dist, seed, &why), "%s", why.text);
}

static const int inputs[4] = {FA_Q, FA_K, FA_V, FA_DO};

/* All elements that both problems have are the same. */
static void same_where_both_exist(const fa_tensors_t *a, const fa_tensors_t *b) {
  for (int n = 0; n < 4; n++) {
    int64_t x[4], y[4];
    fa_array_size(&a->host, inputs[n], x);
    fa_array_size(&b->host, inputs[n], y);
    for (int k = 0; k < 4; k++) x[k] = x[k] < y[k] ? x[k] : y[k];
    for (int64_t i = 0; i < x[0]; i++)
      for (int64_t h = 0; h < x[1]; h++)
        for (int64_t r = 0; r < x[2]; r++)
          for (int64_t c = 0; c < x[3]; c++)
            ck_assert_double_eq(load_at(&a->host, inputs[n], i, h, r, c),
                                load_at(&b->host, inputs[n], i, h, r, c));
  }
}

START_TEST(threads_layout_and_size_change_nothing) {
  for (const fa_dist_t *dist = fa_dists; dist->name; dist++) {
    fa_problem_t p = shape(2, 3, 17, 9), larger = shape(3, 4, 40, 12);
    fa_tensors_t one, other;
#ifdef _OPENMP
    omp_set_num_threads(1);
#endif
    filled(&one, &p, FA_BHND, dist->name, 7);
#ifdef _OPENMP
    omp_set_num_threads(5);
#endif
    filled(&other, &p, FA_PADDED, dist->name, 7);
    same_where_both_exist(&one, &other);
    fa_tensors_free(&other);
    filled(&other, &larger, FA_BNHD, dist->name, 7);
    same_where_both_exist(&one, &other);
    fa_tensors_free(&other);
    fa_tensors_free(&one);
  }
}
END_TEST

/* Another seed, tensor, batch item, head or row gives other numbers. */
START_TEST(everything_else_changes_them) {
  fa_problem_t p = shape(2, 2, 4, 64);
  fa_tensors_t a, b;
  filled(&a, &p, FA_BHND, "normal", 1);
  filled(&b, &p, FA_BHND, "normal", 2);
  int same = 0;
  for (int c = 0; c < 64; c++) {
    double x = load_at(&a.host, FA_Q, 0, 0, 0, c);
    same += x == load_at(&b.host, FA_Q, 0, 0, 0, c);
    same += x == load_at(&a.host, FA_K, 0, 0, 0, c);
    same += x == load_at(&a.host, FA_V, 0, 0, 0, c);
    same += x == load_at(&a.host, FA_DO, 0, 0, 0, c);
    same += x == load_at(&a.host, FA_Q, 1, 0, 0, c);
    same += x == load_at(&a.host, FA_Q, 0, 1, 0, c);
    same += x == load_at(&a.host, FA_Q, 0, 0, 1, c);
    same += c > 0 && x == load_at(&a.host, FA_Q, 0, 0, 0, c - 1);
    same += c > 0 && x == load_at(&b.host, FA_Q, 0, 0, 0, c - 1); /* the next seed is not this one, shifted */
  }
  ck_assert_int_le(same, 2);
  fa_tensors_free(&a);
  fa_tensors_free(&b);
}
END_TEST

typedef struct moments {
  double mean, variance, beyond; /* beyond: share with |x| > 5 */
  bool finite;
} moments_t;

/* A quarter of a million elements of one distribution. */
static void large_sample(fa_tensors_t *t, const char *dist) {
  fa_problem_t p = shape(1, 8, 250, 128);
  filled(t, &p, FA_BHND, dist, 3);
}

static moments_t moments(const fa_tensors_t *t, int array) {
  double sum = 0, squares = 0, beyond = 0, count = 8 * 250 * 128;
  bool finite = true;
  for (int64_t h = 0; h < 8; h++)
    for (int64_t r = 0; r < 250; r++)
      for (int64_t c = 0; c < 128; c++) {
        double x = load_at(&t->host, array, 0, h, r, c);
        finite = finite && isfinite(x);
        sum += x, squares += x * x, beyond += fabs(x) > 5;
      }
  double mean = sum / count;
  return (moments_t){mean, squares / count - mean * mean, beyond / count, finite};
}

/* Tolerances are five standard errors or more. */
START_TEST(distributions_have_their_moments) {
  static const struct {
    const char *dist;
    int array;
    double mean, variance;
  } known[] = {{"normal", FA_Q, 0.25, 1},  {"normal", FA_K, 0.25, 1},    {"normal", FA_V, 0.25, 1},
               {"normal", FA_DO, 0.25, 1}, {"large", FA_Q, 0, 144},      {"large", FA_K, 0, 144},
               {"large", FA_V, 0.25, 1},   {"tiny", FA_K, 0.0025, 1e-4}, {"uniform", FA_V, 0.25, 2.25 / 12},
               {"ones", FA_Q, 0.25, 1},    {"outliers", FA_Q, 0, 1.1},   {"outliers", FA_V, 0, 1.1}};
  for (size_t n = 0; n < sizeof known / sizeof *known; n++) {
    fa_tensors_t t;
    large_sample(&t, known[n].dist);
    moments_t m = moments(&t, known[n].array);
    double deviation = sqrt(known[n].variance);
    ck_assert_msg(fabs(m.mean - known[n].mean) <= 0.01 * deviation, "%s: mean %g", known[n].dist, m.mean);
    ck_assert_msg(fabs(m.variance / known[n].variance - 1) <=
                      (strcmp(known[n].dist, "outliers") ? 0.02 : 0.06),
                  "%s: variance %g", known[n].dist, m.variance);
    fa_tensors_free(&t);
  }
}
END_TEST

/* |x| > 5 for 0.062% of FA3's outliers: of the 0.1% whose variance is 101, 0.6188 lie beyond 5, and of normal
 * numbers one in 1.7 million. Over a million elements of four tensors. */
START_TEST(outliers_have_their_share) {
  fa_tensors_t t;
  large_sample(&t, "outliers");
  double share = 0;
  for (int n = 0; n < 4; n++) share += moments(&t, inputs[n]).beyond / 4;
  ck_assert_double_eq_tol(share, 0.6188e-3, 0.13e-3);
  fa_tensors_free(&t);
}
END_TEST

START_TEST(every_distribution_is_finite) {
  for (const fa_dist_t *dist = fa_dists; dist->name; dist++) {
    fa_tensors_t t;
    large_sample(&t, dist->name);
    for (int n = 0; n < 4; n++) ck_assert_msg(moments(&t, inputs[n]).finite, "%s", dist->name);
    fa_tensors_free(&t);
  }
}
END_TEST

START_TEST(structured_values) {
  fa_problem_t p = shape(1, 2, 100, 4);
  fa_tensors_t t;
  filled(&t, &p, FA_BHND, "ones", 5);
  ck_assert_double_eq(load_at(&t.host, FA_V, 0, 1, 99, 3), 1);
  fa_tensors_free(&t);
  filled(&t, &p, FA_BHND, "ramp", 5);
  ck_assert_double_eq(load_at(&t.host, FA_V, 0, 1, 99, 3), 35);
  ck_assert_double_eq(load_at(&t.host, FA_Q, 0, 1, 99, 3), 0);
  fa_tensors_free(&t);
}
END_TEST

/* Stored numbers are the fp32 ones rounded to the type. */
START_TEST(types_round_the_same_numbers) {
  fa_problem_t p = shape(1, 1, 50, 16);
  fa_tensors_t wide, narrow;
  filled(&wide, &p, FA_BHND, "normal", 9);
  for (fa_dtype_t dtype = FA_FP16; dtype < FA_DTYPES; dtype++) {
    p.dtype = dtype;
    p.dtype_out = FA_BF16;
    filled(&narrow, &p, FA_BHND, "normal", 9);
    for (int64_t r = 0; r < 50; r++)
      for (int64_t c = 0; c < 16; c++) {
        float x = (float)load_at(&wide.host, FA_K, 0, 0, r, c),
              y = (float)load_at(&wide.host, FA_DO, 0, 0, r, c);
        ck_assert_double_eq(load_at(&narrow.host, FA_K, 0, 0, r, c), fa_round_to(dtype, x));
        ck_assert_double_eq(load_at(&narrow.host, FA_DO, 0, 0, r, c), fa_round_to(FA_BF16, y));
      }
    fa_tensors_free(&narrow);
  }
  fa_tensors_free(&wide);
}
END_TEST

START_TEST(unknown_name) {
  fa_problem_t p = shape(1, 1, 2, 2);
  fa_tensors_t t;
  fa_reason_t why = {""};
  filled(&t, &p, FA_BHND, fa_dists[0].name, 1);
  ck_assert_int_eq(fa_fill(&t, "gaussian", 1, &why), FA_INVALID);
  ck_assert_ptr_nonnull(strstr(why.text, "gaussian"));
  ck_assert_int_eq(fa_fill(&t, "", 1, &why), FA_INVALID);
  fa_tensors_free(&t);
}
END_TEST

Suite *unit_input(void) {
  const TTest *const tests[] = {threads_layout_and_size_change_nothing,
                                everything_else_changes_them,
                                distributions_have_their_moments,
                                outliers_have_their_share,
                                every_distribution_is_finite,
                                structured_values,
                                types_round_the_same_numbers,
                                unknown_name,
                                NULL};
  return suite_of("inputs", tests);
}
