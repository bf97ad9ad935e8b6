/* suite_values.c - what was worked out by hand must come out, and the oracle must agree. */
#include "suite_values.h"

#include <math.h>

static bool has_value(const instance_t *i) {
  return i->row->expect != NULL;
}

/* How far the output may be from the value that was worked out. */
static double allowed(const instance_t *i, int array, double value) {
  double relative = type_pairs[i->pair].tolerance * fmax(1, fabs(value));
  if (array == FA_O) return relative;
  bool fp32 = type_pairs[i->pair].in == FA_FP32;
  if (array == FA_LSE) {
    if (i->row->lse_tolerance > 0) return i->row->lse_tolerance;
    return fp32 ? relative : 2e-4 + 1e-6 * fabs(value);
  }
  return fp32 && value == 0 ? 0 : relative; /* a gradient of 0 is exact */
}

static bool same(const instance_t *i, int array, double ours, double value) {
  if (isinf(value)) return ours == value;
  return fabs(ours - value) <= allowed(i, array, value);
}

/* The first wrong element of one (batch, head), or false. */
static bool wrong_element(const instance_t *i, const fa_tensors_t *t, int array, int64_t w[4],
                          const int64_t size[4], double *ours, double *value) {
  const fa_view_t view = fa_array_view(&t->host, array);
  for (w[2] = 0; w[2] < size[2]; w[2]++)
    for (w[3] = 0; w[3] < size[3]; w[3]++) {
      *value = i->row->expect(&t->host, array, w[0], w[1], w[2], w[3]);
      *ours = fa_view_load(&view, w[0], w[1], w[2], w[3]);
      if (!isnan(*value) && !same(i, array, *ours, *value)) return true;
    }
  return false;
}

bool has_expected_values(const subject_t *s, const instance_t *i, const fa_tensors_t *t, report_t *r) {
  const fa_case_t *row = i->row;
  if (!row->expect) return true;
  bool exact = !row->exact || (row->exact & BIT(i->pair)), ok = true;
  int arrays[5], count = output_arrays(t->backward, arrays);
  for (int n = 0; n < count && ok; n++) {
    if (arrays[n] == FA_LSE && !exact) continue;
    int64_t size[4];
    fa_array_size(&t->host, arrays[n], size);
#pragma omp parallel for collapse(2) if (WORTH_THREADS(size))
    for (int64_t b = 0; b < size[0]; b++)
      for (int64_t h = 0; h < size[1]; h++) {
        int64_t w[4] = {b, h, 0, 0};
        double ours, value;
        if (!wrong_element(i, t, arrays[n], w, size, &ours, &value)) continue;
#pragma omp critical
        if (ok) {
          ok = false;
          wrong(r,
                "%s, step %s, case %s: %s at batch %lld, head %lld, row %lld, column %lld is %.9g, must be "
                "%.9g",
                s->stage->name, s->step->name, i->name, fa_array_name(arrays[n]), (long long)w[0],
                (long long)w[1], (long long)w[2], (long long)w[3], ours, value);
        }
      }
  }
  return ok;
}

static void values(const subject_t *s, const instance_t *i, report_t *r) {
  fa_tensors_t t;
  if (!make_instance(s, i, false, &t, r)) return;
  if (run(s, &t, i->name, r) && has_expected_values(s, i, &t, r) && !(i->row->use & ALL_BY_HAND))
    right(s, &t, i->name, r);
  fa_tensors_free(&t);
}

static const property_t properties[] = {
    {.name = "values", .each = values, .wants = has_value, .sanitized = true}, {.name = NULL}};
const suite_t suite_values = {"values worked out by hand", properties};
