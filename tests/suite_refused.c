/* suite_refused.c - what a step does not support it must refuse: a status, a reason, outputs untouched.
 * A refusal never counts as a pass of the property; the program's last line counts refusals apart. */
#include "run_case.h"
#include "runner.h"

#include <string.h>

/* Larger problems are refused without memory behind them: fa_stage_run asks `supports` first. */
#define LARGEST_WITH_DATA (1 << 22)

static double elements(const fa_problem_t *p) {
  return (double)p->batch * ((double)p->heads_q * (double)p->seq_q + (double)p->heads_kv * (double)p->seq_k) *
         (double)(p->head_dim + p->head_dim_v);
}

static bool readable(fa_status_t status, const fa_reason_t *why, const subject_t *s, const char *what,
                     report_t *r) {
  if ((status == FA_REFUSED || status == FA_INVALID) && strlen(why->text) >= 12 && !strchr(why->text, '\n'))
    return true;
  wrong(r, "%s, step %s, case %s: must be refused in one readable line; status %d, reason \"%s\"",
        s->stage->name, s->step->name, what, (int)status, why->text);
  return false;
}

static void refused(const subject_t *s, const instance_t *i, fa_pass_t pass, report_t *r) {
  fa_problem_t p = instance_problem(i);
  fa_reason_t why = {""};
  if (elements(&p) > LARGEST_WITH_DATA) {
    fa_status_t status = fa_stage_run(s->stage, s->step, &p, pass, s->device, &why);
    if (readable(status, &why, s, i->name, r)) count_refused(1);
    return;
  }
  fa_tensors_t t;
  if (!make_tensors(s, &p, i->row->layout, pass == FA_BACKWARD, i->name, &t, r)) return;
  fa_status_t status = fa_tensors_upload(&t, &why);
  if (!status) {
    status = fa_stage_run(s->stage, s->step, &t.dev, pass, s->device, &why);
    fa_reason_t other = {""};
    if (s->machine->sync(&other) || fa_tensors_download(&t, &other))
      wrong(r, "case %s: %s", i->name, other.text);
    else if (!outputs_untouched(&t))
      wrong(r, "%s, step %s, case %s: outputs were written although the call was refused", s->stage->name,
            s->step->name, i->name);
    else if (readable(status, &why, s, i->name, r))
      count_refused(1);
  } else
    wrong(r, "case %s: %s", i->name, why.text);
  fa_tensors_free(&t);
}

static void refused_forward(const subject_t *s, const instance_t *i, report_t *r) {
  refused(s, i, FA_FORWARD, r);
}

static void refused_backward(const subject_t *s, const instance_t *i, report_t *r) {
  refused(s, i, FA_BACKWARD, r);
}

static const property_t properties[] = {
    {.name = "refused_forward", .each = refused_forward, .unsupported = true, .one_test = true},
    {.name = "refused_backward",
     .pass = FA_BACKWARD,
     .each = refused_backward,
     .unsupported = true,
     .one_test = true},
    {.name = NULL}};
const suite_t suite_refused = {"refusals of what is not supported", properties};
