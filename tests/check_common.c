/* check_common.c - unit tests of common/, and tests of the tests. */
#include "unit.h"

#include "dtype.h"
#include "input.h"

#include <math.h>
#include <stdlib.h>

const fa_stage_t *const fa_stages[] = {&fake_stage, NULL};

void host_tensors(fa_tensors_t *t, const fa_problem_t *p, bool backward, fa_layout_t layout) {
  fa_reason_t why = {""};
  ck_assert_msg(!fa_tensors_new(t, p, backward, layout, &fa_machine_cpu, &why), "%s", why.text);
  ck_assert_msg(!fa_fill(t, "normal", 1, &why), "%s", why.text);
  ck_assert_msg(!fa_tensors_upload(t, &why), "%s", why.text);
}

void expect_values(fa_expected_t *e, const fa_problem_t *p, bool backward) {
  fa_reason_t why = {""};
  ck_assert_msg(!fa_expected_new(e, p, backward, &why), "%s", why.text);
}

double load_at(const fa_problem_t *p, int array, int64_t b, int64_t h, int64_t r, int64_t c) {
  const fa_view_t view = fa_array_view(p, array);
  return fa_view_load(&view, b, h, r, c);
}

void store_at(const fa_problem_t *p, int array, int64_t b, int64_t h, int64_t r, int64_t c, double x) {
  const fa_view_t view = fa_array_view(p, array);
  fa_view_store(&view, b, h, r, c, x);
}

void write_right_result(fa_tensors_t *t, const fa_expected_t *e) {
  const fa_problem_t *p = &t->host;
  const struct {
    int array;
    const double *values;
    const int64_t *rows;
    int64_t count;
  } outputs[] = {{FA_O, e->o, e->rows, e->row_count},
                 {FA_LSE, e->lse, e->rows, e->row_count},
                 {FA_DQ, e->dq, e->rows, e->row_count},
                 {FA_DK, e->dk, e->keys, e->key_count},
                 {FA_DV, e->dv, e->keys, e->key_count}};
  for (int a = 0; a < (e->backward ? 5 : 2); a++) {
    int64_t size[4], n = 0;
    fa_array_size(p, outputs[a].array, size);
    for (int64_t b = 0; b < size[0]; b++)
      for (int64_t h = 0; h < size[1]; h++)
        for (int64_t r = 0; r < outputs[a].count; r++)
          for (int64_t c = 0; c < size[3]; c++)
            store_at(p, outputs[a].array, b, h, outputs[a].rows[r], c, outputs[a].values[n++]);
  }
}

void attention_row(const fa_problem_t *p, int64_t b, int64_t h, int64_t kvh, int64_t i, int64_t visible,
                   int64_t padding, double *o, double *lse) {
  double *s = calloc((size_t)(visible + padding) + 1, sizeof *s), m = -INFINITY, l = 0;
  ck_assert_ptr_nonnull(s);
  for (int64_t j = 0; j < visible; j++) {
    for (int64_t c = 0; c < p->head_dim; c++)
      s[j] += load_at(p, FA_Q, b, h, i, c) * load_at(p, FA_K, b, kvh, j, c);
    s[j] *= (double)p->scale;
  }
  for (int64_t j = 0; j < visible + padding; j++) m = s[j] > m ? s[j] : m;
  for (int64_t j = 0; j < visible + padding; j++) l += exp(s[j] - m);
  for (int64_t c = 0; c < p->head_dim_v; c++) {
    o[c] = 0;
    for (int64_t j = 0; j < visible; j++) o[c] += exp(s[j] - m) / l * load_at(p, FA_V, b, kvh, j, c);
  }
  *lse = visible + padding ? m + log(l) : -INFINITY;
  free(s);
}

int main(int argc, char **argv) {
  (void)argc;
  start_tests(argv);
  Suite *suites[] = {unit_dtype(),    unit_problem(), unit_api(),    unit_tensors(),
                     unit_formulas(), unit_input(),   unit_oracle(), unit_yardstick(),
                     unit_compare(),  unit_explain(), unit_npy(),    unit_measure()};
  return run_suites("check_common", suites, sizeof suites / sizeof *suites, NULL);
}
