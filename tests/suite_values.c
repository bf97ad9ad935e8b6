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

bool has_expected_values(const subject_t *s, const instance_t *i, const fa_tensors_t *t, report_t *r) {
  const fa_case_t *row = i->row;
  if (!row->expect) return true;
  bool exact = !row->exact || (row->exact & BIT(i->pair));
  int arrays[5], count = output_arrays(t->backward, arrays);
  for (int n = 0; n < count; n++) {
    if (arrays[n] == FA_LSE && !exact) continue;
    int64_t size[4];
    fa_array_size(&t->host, arrays[n], size);
    for (int64_t b = 0; b < size[0]; b++)
      for (int64_t h = 0; h < size[1]; h++)
        for (int64_t x = 0; x < size[2]; x++)
          for (int64_t c = 0; c < size[3]; c++) {
            double value = row->expect(&t->host, arrays[n], b, h, x, c);
            double ours = get(t, arrays[n], b, h, x, c);
            if (isnan(value) || same(i, arrays[n], ours, value)) continue;
            wrong(r,
                  "%s, step %s, case %s: %s at batch %lld, head %lld, row %lld, column %lld is %.9g, must be "
                  "%.9g",
                  s->stage->name, s->step->name, i->name, fa_array_name(arrays[n]), (long long)b,
                  (long long)h, (long long)x, (long long)c, ours, value);
            return false;
          }
  }
  return true;
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
