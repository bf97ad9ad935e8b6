/* only_03_fa1_cuda.c - what only this stage has: blocks of keys that do not fit the shared memory of every GPU. */
#include "run_case.h"

#include <string.h>

/* --- what is accepted fits ------------------------------------------------------------------------------ */

/* Every architecture that the emulator knows. */
static const int architectures[] = {75, 80, 86, 89, 90, 100, 120};

static fa_status_t launch(const subject_t *s, fa_tensors_t *t, fa_pass_t pass, fa_reason_t *why) {
  const fa_kernels_t *kernels = s->step->on[s->device];
  return (pass == FA_FORWARD ? kernels->forward : kernels->backward)(&t->dev, why);
}

/* The shared memory that a refused launch wanted and had: "NAME: 9 bytes of shared memory; sm_75 has 8 for a block". */
static bool same_bytes(const char *launch, const char *refusal) {
  unsigned long long wanted[2], most[2];
  const char *colon = strrchr(launch, ':'), *needs = strstr(refusal, " needs "),
             *has = strstr(refusal, " has ");
  return colon && needs && has &&
         sscanf(colon, ": %llu bytes of shared memory; sm_%*d has %llu", &wanted[0], &most[0]) == 2 &&
         sscanf(needs, " needs %llu bytes", &wanted[1]) == 1 && sscanf(has, " has %llu", &most[1]) == 1 &&
         wanted[0] == wanted[1] && most[0] == most[1];
}

/* A step's `supports` must refuse, with the same two numbers, exactly what the launch refuses. */
static void as_launched(const subject_t *s, int sm, fa_tensors_t *t, fa_pass_t pass, report_t *r) {
  fa_reason_t refusal = {""}, failure = {""};
  fa_status_t said = fa_stage_supports(s->stage, s->step, &t->dev, pass, s->device, &refusal);
  fa_status_t done = launch(s, t, pass, &failure);
  bool agree = said ? said == FA_REFUSED && done && same_bytes(failure.text, refusal.text) : !done;
  if (!agree)
    wrong(r, "%s, step %s, sm_%d, head dim %d, %s: supports says %d \"%s\", the launch %d \"%s\"",
          s->stage->name, s->step->name, sm, (int)t->host.head_dim,
          pass == FA_FORWARD ? "forward" : "backward", (int)said, refusal.text, (int)done, failure.text);
}

static void shared_memory(const subject_t *s, report_t *r) {
  for (int d = 32; d <= 128; d += 32) {
    fa_problem_t p = {.batch = 1,
                      .heads_q = 1,
                      .heads_kv = 1,
                      .seq_q = 1,
                      .seq_k = 1,
                      .head_dim = d,
                      .head_dim_v = d,
                      .dtype = FA_FP16,
                      .dtype_out = FA_FP16,
                      .scale = 1};
    fa_tensors_t t;
    if (!make_tensors(s, &p, FA_BHND, true, "shared_memory", &t, r)) return;
    /* The right result, and the workspace, from the architecture that fits every step. */
    fa_emu_gpu(90, 4);
    bool ok = fill_random(&t, "normal", 3, r) && run(s, &t, "shared_memory", r);
    for (size_t n = 0; n < sizeof architectures / sizeof *architectures && ok; n++) {
      fa_emu_gpu(architectures[n], 4);
      as_launched(s, architectures[n], &t, FA_FORWARD, r);
      as_launched(s, architectures[n], &t, FA_BACKWARD, r);
    }
    fa_tensors_free(&t);
  }
}

static const property_t properties[] = {
    {.name = "shared_memory", .pass = FA_BACKWARD, .once = shared_memory, .devices = BIT(FA_EMU)},
    {.name = NULL}};
const suite_t suite_only = {"blocks and shared memory", properties};
