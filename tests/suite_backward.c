/* suite_backward.c - gradients against the oracle, and against central differences of the step's own
 * forward pass, which know nothing of the oracle. */
#include "suite_values.h"

#include <math.h>

static bool worth_it(const instance_t *i) {
  return !(i->row->use & FORWARD_ONLY);
}

static void backward(const subject_t *s, const instance_t *i, report_t *r) {
  fa_tensors_t t;
  if (!make_instance(s, i, true, &t, r)) return;
  if (run(s, &t, i->name, r) && has_expected_values(s, i, &t, r) && !(i->row->use & ALL_BY_HAND))
    right(s, &t, i->name, r);
  fa_tensors_free(&t);
}

static bool small_fp32(const instance_t *i) {
  return (i->row->use & SMALL) && i->pair == IN_FP32;
}

/* L = sum of dO * O, whose gradients are dQ, dK, dV. */
static bool loss(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r, double *sum) {
  if (!run(s, t, what, r)) return false;
  *sum = 0;
  int64_t size[4];
  fa_array_size(&t->host, FA_O, size);
  const fa_view_t d_o = fa_array_view(&t->host, FA_DO), o = fa_array_view(&t->host, FA_O);
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++)
      for (int64_t i = 0; i < size[2]; i++)
        for (int64_t c = 0; c < size[3]; c++)
          *sum += fa_view_load(&d_o, b, h, i, c) * fa_view_load(&o, b, h, i, c);
  return true;
}

/* (L(x + step) - L(x - step)) / 2 step for one element; leaves the element as it was. */
static bool slope(const subject_t *s, fa_tensors_t *t, int array, const int64_t where[4], const char *what,
                  report_t *r, double *result) {
  const double step = 0x1p-6; /* an error of step^2 from the curve, and of 2^-24 / step from rounding */
  double x = get(t, array, where[0], where[1], where[2], where[3]), above = 0, below = 0;
  set(t, array, where[0], where[1], where[2], where[3], x + step);
  bool ok = loss(s, t, what, r, &above);
  set(t, array, where[0], where[1], where[2], where[3], x - step);
  ok = ok && loss(s, t, what, r, &below);
  set(t, array, where[0], where[1], where[2], where[3], x);
  *result = (above - below) / (2 * step);
  return ok;
}

/* About 24 elements of each gradient, spread over all dimensions. */
static void central_differences(const subject_t *s, const instance_t *i, report_t *r) {
  static const int inputs[3] = {FA_Q, FA_K, FA_V}, gradients[3] = {FA_DQ, FA_DK, FA_DV};
  fa_tensors_t t;
  if (!make_instance(s, i, true, &t, r)) return;
  bool ok = run(s, &t, i->name, r);
  for (int n = 0; n < 3 && ok; n++) {
    copy_t ours = copy_of(&t, gradients[n]);
    int64_t all = ours.size[0] * ours.size[1] * ours.size[2] * ours.size[3], stride = all / 24 + 1;
    for (int64_t k = 0; k < all && ok; k += stride * every(s, 5)) {
      int64_t where[4] = {k / ours.size[3] / ours.size[2] / ours.size[1],
                          k / ours.size[3] / ours.size[2] % ours.size[1], k / ours.size[3] % ours.size[2],
                          k % ours.size[3]};
      double numeric;
      ok = slope(s, &t, inputs[n], where, i->name, r, &numeric);
      if (!ok || fabs(ours.x[k] - numeric) <= 2e-3 * fmax(1, fabs(numeric))) continue;
      wrong(r, "%s, step %s, case %s: %s element %lld is %.6g, central differences give %.6g", s->stage->name,
            s->step->name, i->name, fa_array_name(gradients[n]), (long long)k, ours.x[k], numeric);
      ok = false;
    }
    free_copy(&ours);
    ok = ok && run(s, &t, i->name, r); /* the inputs are whole again, and so must be the gradients */
  }
  fa_tensors_free(&t);
}

static const property_t properties[] = {
    {.name = "backward", .pass = FA_BACKWARD, .each = backward, .wants = worth_it, .sanitized = true},
    {.name = "central_differences", .pass = FA_BACKWARD, .each = central_differences, .wants = small_fp32},
    {.name = NULL}};
const suite_t suite_backward = {"backward against the oracle and central differences", properties};
