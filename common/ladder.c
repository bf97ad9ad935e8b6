/* ladder.c - see ladder.h. */
#include "ladder.h"
#include "driver.h"
#include "input.h"

#include <string.h>

/* A pass that took longer is not repeated: the ladder is to end within a minute. */
#define REPEAT_BELOW 0.7
#define BENCH_SECONDS 0.4

/* The first type that the step offers on this device; FA_OK fills rung->shape. */
static fa_status_t pick_type(const fa_stage_t *stage, const fa_step_t *step, fa_device_t device,
                             fa_rung_t *rung, fa_reason_t *why) {
  static const fa_dtype_t on_cpu[] = {FA_FP32, FA_FP16, FA_BF16, FA_E4M3};
  static const fa_dtype_t on_gpu[] = {FA_FP16, FA_BF16, FA_FP32, FA_E4M3};
  fa_reason_t first = {""};
  for (int i = 0; i < 4; i++) {
    rung->shape.dtype = device == FA_CPU ? on_cpu[i] : on_gpu[i];
    rung->shape.dtype_out = rung->shape.dtype == FA_E4M3 ? FA_BF16 : rung->shape.dtype;
    if (!fa_stage_supports(stage, step, &rung->shape, FA_FORWARD, device, why)) return FA_OK;
    if (i == 0) first = *why;
  }
  *why = first;
  return FA_REFUSED;
}

/* The best device: GPU, CPU, emulator. NULL with the reason in the report. */
static const fa_machine_t *pick_device(const fa_stage_t *stage, const fa_step_t *step, fa_rung_t *rung) {
  static const fa_device_t order[] = {FA_GPU, FA_CPU, FA_EMU};
  fa_reason_t *why = &rung->report.reason;
  rung->no_device = true;
  fa_say(why, FA_REFUSED, "this build has no GPU code: nvcc was not on PATH when it was made");
  for (int i = 0; i < 3; i++) {
    const fa_machine_t *machine = fa_machine(order[i]);
    if (!step->on[order[i]] || machine->open(rung->machine, why)) continue;
    rung->no_device = false;
    if (!pick_type(stage, step, order[i], rung, why)) return machine;
  }
  rung->machine[0] = 0;
  return NULL;
}

static fa_status_t one_pass(fa_tensors_t *t, fa_report_t *r, fa_pass_t pass, fa_reason_t *why) {
  double seconds = 0;
  fa_count_reset();
  bool timed = r->device != FA_EMU; /* the emulator's time says nothing about a GPU */
  fa_status_t status = timed ? t->machine->timer_start(why) : FA_OK;
  if (!status) status = fa_stage_run(r->stage, r->step, &t->dev, pass, r->device, why);
  if (!status && timed) status = t->machine->timer_stop(&seconds, why);
  if (!status) status = t->machine->sync(why);
  r->timing[pass] = (fa_timing_t){seconds, seconds, seconds, 1, 0};
  r->timed[pass] = timed && !status;
  fa_report_take_count(r, pass);
  return status;
}

/* All tensors are made for both passes, so that every step of one type sees the same input. */
static fa_status_t run(fa_ladder_t *ladder, fa_rung_t *rung, const fa_machine_t *machine, fa_reason_t *why) {
  fa_report_t *r = &rung->report;
  fa_tensors_t t;
  const bool new_oracle = rung->emulated || !ladder->known[rung->shape.dtype];
  fa_status_t status = fa_setup_memory(&rung->shape, r->backward, r->step, machine,
                                       new_oracle ? fa_expected_bytes(&rung->shape, true) : 0, why);
  if (!status) status = fa_tensors_new(&t, &rung->shape, true, FA_BHND, machine, why);
  if (status) return status;
  fa_expected_t own = {0}; /* of an emulated step: its problem is another */
  fa_dtype_t type = rung->shape.dtype;
  status = fa_fill(&t, fa_dists[0].name, 1, why);
  if (!status && rung->emulated) status = fa_expected_new(&own, &t.host, true, why);
  if (!status && !rung->emulated && !ladder->known[type]) {
    fa_progress("computing the oracle");
    status = fa_expected_new(&ladder->expected[type], &t.host, true, why);
    ladder->known[type] = !status;
  }
  fa_progress(r->step->name);
  if (!status) status = fa_tensors_workspace(&t, r->step, why);
  r->workspace_bytes = (double)t.workspace_size;
  if (!status) status = fa_tensors_upload(&t, why);
  if (!status) status = one_pass(&t, r, FA_FORWARD, why);
  if (!status && r->backward) status = one_pass(&t, r, FA_BACKWARD, why);
  if (!status) status = fa_tensors_download(&t, why);
  if (!status) status = fa_tensors_guards(&t, why);
  if (!status) {
    fa_expected_t expected = rung->emulated ? own : ladder->expected[type];
    expected.backward = r->backward;
    fa_compare(&t.host, &expected, &r->comparison);
    r->compared = true;
    if (!r->comparison.ok) status = fa_say(why, FA_FAILED, "the result is wrong");
  }
  for (int pass = 0; pass < FA_PASSES && !status; pass++)
    if (r->timed[pass] && r->timing[pass].median < REPEAT_BELOW)
      status = fa_bench(&t, r->stage, r->step, (fa_pass_t)pass, BENCH_SECONDS, &r->timing[pass], why);
  fa_progress(NULL);
  fa_expected_free(&own);
  fa_tensors_free(&t);
  return status;
}

void fa_ladder_step(fa_ladder_t *ladder, const fa_stage_t *stage, const fa_step_t *step,
                    const fa_problem_t *shape, fa_rung_t *rung) {
  memset(rung, 0, sizeof *rung);
  rung->shape = *shape;
  fa_report_t *r = &rung->report;
  r->stage = stage;
  r->step = step;
  r->shape = &rung->shape;
  r->machine = rung->machine;
  rung->state = FA_NOT_RUN;
  const fa_machine_t *machine = pick_device(stage, step, rung);
  if (!machine) return;
  fa_reason_t unused;
  r->device = machine->kind;
  rung->emulated = r->device == FA_EMU;
  if (rung->emulated) {
    rung->shape.batch = rung->shape.heads_q = rung->shape.heads_kv = 1;
    if (rung->shape.seq_q > FA_EMULATED_SEQ) rung->shape.seq_q = FA_EMULATED_SEQ;
    if (rung->shape.seq_k > FA_EMULATED_SEQ) rung->shape.seq_k = FA_EMULATED_SEQ;
  }
  r->backward = fa_stage_supports(stage, step, &rung->shape, FA_BACKWARD, r->device, &unused) == FA_OK;
  r->status = run(ladder, rung, machine, &r->reason);
  rung->state = r->status == FA_OK ? FA_RIGHT : r->status == FA_FAILED ? FA_WRONG : FA_NOT_RUN;
}

void fa_ladder_free(fa_ladder_t *ladder) {
  for (int t = 0; t < FA_DTYPES; t++)
    if (ladder->known[t]) fa_expected_free(&ladder->expected[t]);
}
