/* suite_interface.c - bad problems are refused and leave nothing behind; the C interface does what fa.h says. */
#include "run_case.h"
#include "runner.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FWD BIT(FA_FORWARD)
#define BWD BIT(FA_BACKWARD)
#define BOTH (FWD | BWD)
#define SPOIL(name, change)                                                                                  \
  static void name(fa_problem_t *p) {                                                                        \
    change;                                                                                                  \
  }
SPOIL(heads_3_2, p->heads_q = 3; p->heads_kv = 2)
SPOIL(heads_33_2, p->heads_q = 33; p->heads_kv = 2)
SPOIL(heads_2_4, p->heads_q = 2; p->heads_kv = 4)
SPOIL(heads_4_0, p->heads_q = 4; p->heads_kv = 0)
SPOIL(heads_0, p->heads_q = 0)
SPOIL(negative_batch, p->batch = -1)
SPOIL(negative_seq_q, p->seq_q = -1)
SPOIL(negative_seq_k, p->seq_k = -4)
SPOIL(no_head_dim, p->head_dim = 0)
SPOIL(no_head_dim_v, p->head_dim_v = 0)
SPOIL(too_large, p->seq_q = (int64_t)1 << 40; p->seq_k = (int64_t)1 << 40)
SPOIL(dtype_99, p->dtype = (fa_dtype_t)99)
SPOIL(dtype_minus_1, p->dtype = (fa_dtype_t)-1)
SPOIL(dtype_out_e4m3, p->dtype_out = FA_E4M3)
SPOIL(dtype_out_99, p->dtype_out = (fa_dtype_t)99)
SPOIL(scale_nan, p->scale = NAN)
SPOIL(scale_inf, p->scale = INFINITY)
SPOIL(negative_splits, p->splits = -1)
SPOIL(no_q, p->q.data = NULL)
SPOIL(no_k, p->k.data = NULL)
SPOIL(no_v, p->v.data = NULL)
SPOIL(no_o, p->o.data = NULL)
SPOIL(no_lse, p->lse = NULL)
SPOIL(no_do, p->d_o.data = NULL)
SPOIL(no_dq, p->dq.data = NULL)
SPOIL(no_dk, p->dk.data = NULL)
SPOIL(no_dv, p->dv.data = NULL)
SPOIL(negative_row_stride, p->q.stride_row = -p->q.stride_row)
SPOIL(negative_head_stride, p->k.stride_head = -1)
SPOIL(negative_batch_stride, p->v.stride_batch = -1)
SPOIL(negative_o_stride, p->o.stride_row = -p->o.stride_row)
SPOIL(stride_2_to_62, p->k.stride_row = (int64_t)1 << 62)
SPOIL(o_rows_overlap, p->o.stride_row = p->head_dim_v - 1)
SPOIL(o_rows_coincide, p->o.stride_row = 0)
SPOIL(o_heads_overlap, p->o.stride_head = p->head_dim_v)
SPOIL(dq_rows_overlap, p->dq.stride_row = p->head_dim / 2)
SPOIL(dk_heads_coincide, p->dk.stride_head = 0)
SPOIL(dv_rows_overlap, p->dv.stride_row = 1)

static const struct {
  const char *what;
  void (*spoil)(fa_problem_t *p);
  unsigned passes;
} bad[] = {{"bl42: 3 query heads on 2", heads_3_2, BOTH},
           {"bl42: 33 query heads on 2", heads_33_2, BOTH},
           {"bl42: 2 query heads on 4", heads_2_4, BOTH},
           {"bl42: 4 query heads on 0", heads_4_0, BOTH},
           {"no query heads", heads_0, BOTH},
           {"negative batch", negative_batch, BOTH},
           {"negative seq_q", negative_seq_q, BOTH},
           {"negative seq_k", negative_seq_k, BOTH},
           {"head_dim 0", no_head_dim, BOTH},
           {"head_dim_v 0", no_head_dim_v, BOTH},
           {"2^80 scores", too_large, BOTH},
           {"dtype 99", dtype_99, BOTH},
           {"dtype -1", dtype_minus_1, BOTH},
           {"dtype_out e4m3", dtype_out_e4m3, BOTH},
           {"dtype_out 99", dtype_out_99, BOTH},
           {"scale NaN", scale_nan, BOTH},
           {"scale infinite", scale_inf, BOTH},
           {"splits -1", negative_splits, BOTH},
           {"no q", no_q, BOTH},
           {"no k", no_k, BOTH},
           {"no v", no_v, BOTH},
           {"no o", no_o, BOTH},
           {"no lse", no_lse, BOTH},
           {"no do", no_do, BWD},
           {"no dq", no_dq, BWD},
           {"no dk", no_dk, BWD},
           {"no dv", no_dv, BWD},
           {"negative row stride of q", negative_row_stride, BOTH},
           {"negative head stride of k", negative_head_stride, BOTH},
           {"negative batch stride of v", negative_batch_stride, BOTH},
           {"negative row stride of o", negative_o_stride, BOTH},
           {"row stride 2^62 of k", stride_2_to_62, BOTH},
           {"rows of o overlap", o_rows_overlap, FWD},
           {"rows of o coincide", o_rows_coincide, FWD},
           {"heads of o overlap", o_heads_overlap, FWD},
           {"rows of dq overlap", dq_rows_overlap, BWD},
           {"heads of dk coincide", dk_heads_coincide, BWD},
           {"rows of dv overlap", dv_rows_overlap, BWD}};

/* Runs p, which must end with `expected` and leave the outputs of t alone. */
static void must_refuse(const subject_t *s, fa_tensors_t *t, const fa_problem_t *p, fa_pass_t pass,
                        fa_status_t expected, const char *what, report_t *r) {
  fa_reason_t why = {""}, other = {""};
  fa_status_t status = fa_stage_run(s->stage, s->step, p, pass, s->device, &why);
  if (status != expected || strlen(why.text) < 12)
    wrong(r, "%s, step %s: %s: status must be %d with a reason; it is %d, \"%s\"", s->stage->name,
          s->step->name, what, (int)expected, (int)status, why.text);
  else if (s->machine->sync(&other) || fa_tensors_download(t, &other))
    wrong(r, "%s, step %s: %s: %s", s->stage->name, s->step->name, what, other.text);
  else if (!outputs_untouched(t))
    wrong(r, "%s, step %s: %s: refused, but outputs were written", s->stage->name, s->step->name, what);
  else
    count_refused(1);
}

static void workspace_refused(const subject_t *s, fa_tensors_t *t, fa_pass_t pass, report_t *r) {
  size_t need = fa_stage_workspace(s->step, &t->dev, pass, s->device);
  if (!need) return;
  fa_problem_t p = t->dev;
  p.workspace_size = need - 1;
  must_refuse(s, t, &p, pass, FA_REFUSED, "a workspace one byte too small", r);
  p.workspace_size = need;
  p.workspace = NULL;
  must_refuse(s, t, &p, pass, FA_REFUSED, "no workspace", r);
  p.workspace = (char *)t->dev.workspace + 4; /* whatever lies behind it is never touched */
  must_refuse(s, t, &p, pass, FA_INVALID, "a workspace that is not aligned", r);
}

static void bad_problems(const subject_t *s, fa_pass_t pass, report_t *r) {
  const instance_t *i = supported_instance(s, pass, SMALL, r);
  fa_tensors_t t;
  fa_reason_t why = {""};
  if (!i) {
    wrong(r, "%s, step %s supports none of the small cases", s->stage->name, s->step->name);
    return;
  }
  if (!make_instance(s, i, pass == FA_BACKWARD, &t, r)) return;
  if (fa_tensors_workspace(&t, s->step, &why) || fa_tensors_upload(&t, &why)) {
    wrong(r, "%s", why.text);
    fa_tensors_free(&t);
    return;
  }
  for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {
    if (!(bad[n].passes & BIT(pass))) continue;
    fa_problem_t p = t.dev;
    bad[n].spoil(&p);
    must_refuse(s, &t, &p, pass, FA_INVALID, bad[n].what, r);
  }
  must_refuse(s, &t, NULL, pass, FA_INVALID, "no problem at all", r);
  workspace_refused(s, &t, pass, r);
  run_right(s, &t, "a valid call after refusals", r);
  fa_tensors_free(&t);
}

static void bad_forward(const subject_t *s, report_t *r) {
  bad_problems(s, FA_FORWARD, r);
}

static void bad_backward(const subject_t *s, report_t *r) {
  bad_problems(s, FA_BACKWARD, r);
}

#define MUST(condition)                                                                                      \
  if (!(condition))                                                                                          \
  wrong(r, "%s, step %s: not so: %s (\"%s\")", s->stage->name, s->step->name, #condition, why.text)

/* The four functions of fa.h on a good problem and on bad arguments. */
static void c_interface(const subject_t *s, report_t *r) {
  const instance_t *i = supported_instance(s, FA_FORWARD, SMALL, r);
  fa_tensors_t t;
  fa_reason_t why = {""};
  const char *step = s->step->name;
  if (!i || !make_instance(s, i, false, &t, r)) return;
  const fa_problem_t *p = &t.dev;
  MUST(fa_supports(p, step, FA_FORWARD, s->device, &why) == FA_OK);
  MUST(fa_supports(p, step, FA_FORWARD, s->device, NULL) == FA_OK);
  MUST(fa_supports(p, NULL, FA_FORWARD, s->device, &why) == FA_OK);
  MUST(fa_supports(NULL, step, FA_FORWARD, s->device, &why) == FA_INVALID);
  MUST(fa_supports(NULL, step, FA_FORWARD, s->device, NULL) == FA_INVALID);
  MUST(fa_supports(p, "no_such_step", FA_FORWARD, s->device, &why) == FA_INVALID);
  MUST(fa_forward(p, "no_such_step", s->device, &why) == FA_INVALID);
  MUST(fa_supports(p, step, FA_FORWARD, (fa_device_t)77, &why) == FA_INVALID);
  MUST(fa_supports(p, step, (fa_pass_t)5, s->device, &why) == FA_INVALID);
  MUST(fa_workspace_size(NULL, step, FA_FORWARD, s->device) == 0);
  MUST(fa_workspace_size(p, "no_such_step", FA_FORWARD, s->device) == 0);
  for (int d = 0; d < FA_DEVICES; d++)
    if (!s->step->on[d]) MUST(fa_supports(p, step, FA_FORWARD, (fa_device_t)d, &why) == FA_REFUSED);
  MUST(fa_workspace_size(p, step, FA_FORWARD, s->device) ==
       fa_stage_workspace(s->step, p, FA_FORWARD, s->device));
  MUST(fa_tensors_workspace(&t, s->step, &why) == FA_OK && fa_tensors_upload(&t, &why) == FA_OK);
  MUST(fa_forward(p, step, s->device, &why) == FA_OK && s->machine->sync(&why) == FA_OK);
  MUST(fa_tensors_download(&t, &why) == FA_OK && fa_tensors_guards(&t, &why) == FA_OK);
  right(s, &t, "fa_forward", r);
  fa_tensors_free(&t);
}

/* A library's user has the problem in memory of his own, which the emulator has never seen. */
static void own_memory(const subject_t *s, fa_pass_t pass, report_t *r) {
  const instance_t *i = supported_instance(s, pass, SMALL, r);
  const bool backward = pass == FA_BACKWARD;
  fa_tensors_t t;
  fa_reason_t why = {""};
  if (!i || !make_instance(s, i, backward, &t, r)) return;
  fa_problem_t *p = &t.host;
  size_t bytes = 256;
  for (int k = 0; k <= (int)pass; k++) {
    size_t need = fa_workspace_size(p, s->step->name, (fa_pass_t)k, FA_EMU);
    if (need > bytes) bytes = need;
  }
  MUST(fa_tensors_upload(&t, &why) == FA_OK); /* sets the sentinels */
  p->workspace = aligned_alloc(256, (bytes + 255) / 256 * 256);
  p->workspace_size = p->workspace ? bytes : 0;
  MUST(fa_forward(p, s->step->name, FA_EMU, &why) == FA_OK);
  if (backward) MUST(fa_backward(p, s->step->name, FA_EMU, &why) == FA_OK);
  free(p->workspace);
  p->workspace = NULL;
  MUST(fa_tensors_guards(&t, &why) == FA_OK);
  right(s, &t, "the caller's own memory", r);
  fa_tensors_free(&t);
}
static void own_memory_forward(const subject_t *s, report_t *r) {
  own_memory(s, FA_FORWARD, r);
}
static void own_memory_backward(const subject_t *s, report_t *r) {
  own_memory(s, FA_BACKWARD, r);
}

typedef struct call {
  const subject_t *s;
  fa_tensors_t t;
  fa_reason_t why;
  bool done;
} call_t;
static void *call(void *argument) {
  call_t *c = argument;
  c->done = true;
  for (int n = 0; n < 3; n++)
    if (fa_forward(&c->t.dev, c->s->step->name, c->s->device, &c->why) || c->s->machine->sync(&c->why))
      c->done = false;
  return NULL;
}

/* fa.h: several threads may call at once, each with its own outputs and workspace. */
static void two_threads(const subject_t *s, report_t *r) {
  const instance_t *i = supported_instance(s, FA_FORWARD, SMALL, r);
  call_t calls[2] = {{.s = s}, {.s = s}};
  pthread_t thread[2];
  fa_reason_t why = {""};
  for (int k = 0; k < 2; k++) {
    if (!i || !make_instance(s, i, false, &calls[k].t, r)) return;
    MUST(fa_tensors_workspace(&calls[k].t, s->step, &why) == FA_OK);
    MUST(fa_tensors_upload(&calls[k].t, &why) == FA_OK);
  }
  for (int k = 0; k < 2; k++) MUST(pthread_create(&thread[k], NULL, call, &calls[k]) == 0);
  for (int k = 0; k < 2; k++) MUST(pthread_join(thread[k], NULL) == 0);
  for (int k = 0; k < 2; k++) {
    if (!calls[k].done) wrong(r, "thread %d of two: %s", k, calls[k].why.text);
    MUST(fa_tensors_download(&calls[k].t, &why) == FA_OK && fa_tensors_guards(&calls[k].t, &why) == FA_OK);
    right(s, &calls[k].t, "one of two threads", r);
    fa_tensors_free(&calls[k].t);
  }
}

/* What a step does not offer it refuses; what it accepts it does: never accepted and ignored. Splits change
 * nothing but the order of sums, so an accepted number must still give the right result. */
static void splits(const subject_t *s, report_t *r) {
  const instance_t *i = supported_instance(s, FA_FORWARD, SMALL, r);
  for (int n = 1; n <= 8 && i; n++) {
    fa_problem_t p = instance_problem(i);
    fa_tensors_t t;
    fa_reason_t why = {""};
    char what[96];
    p.splits = n;
    snprintf(what, sizeof what, "%s, %d splits", i->name, n);
    if (fa_stage_supports(s->stage, s->step, &p, FA_FORWARD, s->device, &why)) {
      if (!strstr(why.text, "split"))
        wrong(r, "%s: the refusal does not name splits: \"%s\"", what, why.text);
      count_refused(1);
      continue;
    }
    if (!make_tensors(s, &p, i->row->layout, false, what, &t, r)) return;
    if (fill_instance(i, &t, r)) run_right(s, &t, what, r);
    fa_tensors_free(&t);
  }
}

/* Without a name, the last step marked main that supports the problem runs. */
static void main_step(const subject_t *s, report_t *r) {
  int count;
  const instance_t *all = all_instances(&count);
  for (int n = 0; n < count; n++) {
    fa_problem_t p = instance_problem(&all[n]);
    fa_reason_t why = {""};
    const fa_step_t *last = NULL;
    for (const fa_step_t *step = s->stage->steps; step->name; step++)
      if (step->main && !fa_stage_supports(s->stage, step, &p, FA_FORWARD, s->device, &why)) last = step;
    const fa_step_t *found = fa_main_step(s->stage, &p, FA_FORWARD, s->device, &why);
    if (found != last || (!found && strlen(why.text) < 12))
      wrong(r, "%s, case %s: the main step is %s, must be %s (\"%s\")", s->stage->name, all[n].name,
            found ? found->name : "none", last ? last->name : "none", why.text);
  }
}

/* Kernels run where they were asked to: in the emulator only for FA_EMU. On a GPU the outputs lie in memory that no code
 * of the host reaches, so that right ones come from there; and a build with nvcc runs FA_EMU without a driver, which no
 * CUDA call would survive. */
static void device(const subject_t *s, report_t *r) {
  const instance_t *i = supported_instance(s, FA_FORWARD, SMALL, r);
  fa_tensors_t t;
  fa_reason_t why = {""};
  if (!i || !make_instance(s, i, false, &t, r)) return;
  const int64_t before = fa_emu_launches();
  run_right(s, &t, i->name, r);
  MUST((fa_emu_launches() > before) == (s->device == FA_EMU));
  fa_tensors_free(&t);
}

static const property_t properties[] = {
    {.name = "device", .once = device},
    {.name = "c_interface", .once = c_interface},
    {.name = "own_memory", .once = own_memory_forward, .devices = BIT(FA_EMU)},
    {.name = "own_memory_backward", .pass = FA_BACKWARD, .once = own_memory_backward, .devices = BIT(FA_EMU)},
    {.name = "two_threads", .once = two_threads},
    {.name = "main_step", .once = main_step},
    {.name = "splits", .once = splits},
    {.name = "bad_forward", .once = bad_forward},
    {.name = "bad_backward", .pass = FA_BACKWARD, .once = bad_backward},
    {.name = NULL}};
const suite_t suite_interface = {"interface and bad problems", properties};
