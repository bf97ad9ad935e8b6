/* suite_forward.c - forward against the oracle, over shapes, layouts, types and distributions. */
#include "run_case.h"

static bool oracle_only(const instance_t *i) {
  return !i->row->expect;
}

static void forward(const subject_t *s, const instance_t *i, report_t *r) {
  fa_tensors_t t;
  if (!make_instance(s, i, false, &t, r)) return;
  run_right(s, &t, i->name, r);
  fa_tensors_free(&t);
}

static const property_t properties[] = {
    {.name = "forward", .each = forward, .wants = oracle_only, .sanitized = true}, {.name = NULL}};
const suite_t suite_forward = {"forward against the oracle", properties};
