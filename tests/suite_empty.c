/* suite_empty.c - lengths of 0: nothing is launched where nothing exists, and what exists is still written. */
#include "run_case.h"

#include <math.h>
#include <string.h>

/* A supported problem's shape with some of its sizes replaced. */
static bool shape(const subject_t *s, fa_pass_t pass, int64_t batch, int64_t seq_q, int64_t seq_k,
                  fa_problem_t *p, report_t *r) {
  const instance_t *i = supported_instance(s, pass, SMALL, r);
  if (!i) return false;
  *p = instance_problem(i);
  p->batch = batch;
  p->heads_q = 4;
  p->heads_kv = 2;
  p->seq_q = seq_q;
  p->seq_k = seq_k;
  return true;
}

/* Every element of an output is x. */
static void all_are(const subject_t *s, const fa_tensors_t *t, int array, double x, const char *what,
                    report_t *r) {
  copy_t c = copy_of(t, array);
  int64_t n = c.size[0] * c.size[1] * c.size[2] * c.size[3];
  for (int64_t k = 0; k < n; k++)
    if (c.x[k] != x) {
      wrong(r, "%s, step %s: %s: element %lld of %s is %g, must be %g", s->stage->name, s->step->name, what,
            (long long)k, fa_array_name(array), c.x[k], x);
      break;
    }
  free_copy(&c);
}

/* Runs a shape without scores: O and gradients are 0, LSE is -inf, each as far as it exists. */
static void no_scores(const subject_t *s, const fa_problem_t *p, bool backward, const char *what,
                      report_t *r) {
  fa_tensors_t t;
  if (!make_tensors(s, p, FA_BHND, backward, what, &t, r)) return;
  if (fill_random(&t, "normal", 3, r) && run(s, &t, what, r)) {
    int arrays[5], count = output_arrays(backward, arrays);
    for (int n = 0; n < count; n++) all_are(s, &t, arrays[n], arrays[n] == FA_LSE ? -INFINITY : 0, what, r);
  }
  fa_tensors_free(&t);
}

static void empty(const subject_t *s, fa_pass_t pass, report_t *r) {
  static const int32_t none[3] = {0, 0, 0}, negative[3] = {-1, -7, -100};
  bool back = pass == FA_BACKWARD;
  fa_problem_t p;
  if (!shape(s, pass, 2, 5, 0, &p, r)) {
    wrong(r, "%s, step %s supports none of the small cases", s->stage->name, s->step->name);
    return;
  }
  for (int causal = 0; causal < 2; causal++) {
    shape(s, pass, 2, 5, 0, &p, r);
    p.causal = causal;
    no_scores(s, &p, back, "seq_k = 0", r);
    shape(s, pass, 2, 0, 9, &p, r);
    p.causal = causal;
    no_scores(s, &p, back, "seq_q = 0", r);
    shape(s, pass, 2, 0, 0, &p, r);
    p.causal = causal;
    no_scores(s, &p, back, "seq_q = seq_k = 0", r);
    shape(s, pass, 0, 16, 16, &p, r);
    p.causal = causal;
    no_scores(s, &p, back, "bl30: batch = 0", r);
    shape(s, pass, 3, 70, 90, &p, r);
    p.causal = causal;
    p.kv_len = none;
    no_scores(s, &p, back, "kv_len = 0", r);
    p.kv_len = negative;
    no_scores(s, &p, back, "kv_len < 0", r);
  }
}

static void empty_forward(const subject_t *s, report_t *r) {
  empty(s, FA_FORWARD, r);
}

static void empty_backward(const subject_t *s, report_t *r) {
  empty(s, FA_BACKWARD, r);
}

/* bl30: without batch items no pointer is needed, and none is followed. */
static void no_batch_no_pointers(const subject_t *s, report_t *r) {
  fa_problem_t p;
  fa_reason_t why = {""};
  for (int pass = 0; pass < FA_PASSES; pass++) {
    if (pass == FA_BACKWARD && !s->step->on[s->device]->backward) continue;
    if (!shape(s, (fa_pass_t)pass, 0, 16, 16, &p, r)) continue;
    fa_status_t status = fa_stage_run(s->stage, s->step, &p, (fa_pass_t)pass, s->device, &why);
    if (status)
      wrong(r, "%s, step %s: batch = 0: status %d, %s", s->stage->name, s->step->name, (int)status, why.text);
  }
}

static const property_t properties[] = {
    {.name = "no_batch", .once = no_batch_no_pointers, .sanitized = true},
    {.name = "empty", .once = empty_forward, .sanitized = true},
    {.name = "empty_backward", .pass = FA_BACKWARD, .once = empty_backward, .sanitized = true},
    {.name = NULL}};
const suite_t suite_empty = {"lengths of 0", properties};
