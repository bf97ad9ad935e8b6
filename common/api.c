/* api.c - finding a step and running it: every call of a stage goes through here, so that validation,
 * refusal and the empty problem are the same in all of them. */
#include "stage.h"

#include <string.h>

const fa_step_t *fa_find_step(const fa_stage_t *stage, const char *name) {
  for (const fa_step_t *s = stage->steps; s->name; s++)
    if (!strcmp(s->name, name)) return s;
  return NULL;
}

fa_status_t fa_stage_supports(const fa_stage_t *stage, const fa_step_t *step, const fa_problem_t *p,
                              fa_pass_t pass, fa_device_t device, fa_reason_t *why) {
  fa_status_t status = fa_problem_check(p, pass, false, why);
  if (status) return status;
  if ((unsigned)pass >= FA_PASSES || (unsigned)device >= FA_DEVICES)
    return fa_say(why, FA_INVALID, "unknown pass or device");
  const fa_kernels_t *kernels = step->on[device];
  if (!kernels) {
    bool has_gpu_code = FA_HAVE_GPU && step->on[FA_GPU];
    if (device == FA_GPU && !has_gpu_code && !step->on[FA_CPU])
      return fa_say(why, FA_REFUSED, "%s, step %s: this build has no GPU code (it was made without nvcc)",
                    stage->name, step->name);
    return fa_say(why, FA_REFUSED, "%s, step %s does not run on device %s", stage->name, step->name,
                  fa_device_name(device));
  }
  if (pass == FA_BACKWARD && !kernels->backward)
    return fa_say(why, FA_REFUSED, "%s, step %s has no backward pass", stage->name, step->name);
  return stage->supports(step, p, pass, device, why);
}

size_t fa_stage_workspace(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass, fa_device_t device) {
  const fa_kernels_t *kernels = step->on[device];
  return kernels && kernels->workspace_size ? kernels->workspace_size(p, pass) : 0;
}

fa_status_t fa_stage_run(const fa_stage_t *stage, const fa_step_t *step, const fa_problem_t *p,
                         fa_pass_t pass, fa_device_t device, fa_reason_t *why) {
  fa_status_t status = fa_stage_supports(stage, step, p, pass, device, why);
  if (status) return status;
  status = fa_problem_check(p, pass, true, why);
  if (status) return status;
  if (p->batch == 0 || (p->seq_q == 0 && (pass == FA_FORWARD || p->seq_k == 0)))
    return FA_OK; /* no output element exists */
  size_t need = fa_stage_workspace(step, p, pass, device);
  if (need && (!p->workspace || p->workspace_size < need))
    return fa_say(why, FA_REFUSED, "%s, step %s needs a workspace of %zu bytes; %zu were given", stage->name,
                  step->name, need, p->workspace ? p->workspace_size : 0);
  if (need && (uintptr_t)p->workspace % FA_WORKSPACE_ALIGNMENT)
    return fa_say(why, FA_INVALID, "the workspace must begin at a multiple of %d bytes",
                  FA_WORKSPACE_ALIGNMENT);
  if (device == FA_EMU) return fa_emu_run(step->on[device], p, pass, why);
  return pass == FA_FORWARD ? step->on[device]->forward(p, why) : step->on[device]->backward(p, why);
}

const fa_step_t *fa_main_step(const fa_stage_t *stage, const fa_problem_t *p, fa_pass_t pass,
                              fa_device_t device, fa_reason_t *why) {
  const fa_step_t *found = NULL;
  fa_reason_t reason = {""}, nearest = {""}; /* what a step says that has code for this device comes first */
  bool near = false;
  for (const fa_step_t *s = stage->steps; s->name; s++) {
    if (!s->main) continue;
    if (fa_stage_supports(stage, s, p, pass, device, &reason) == FA_OK) {
      found = s;
    } else if (s->on[device] || !near) {
      nearest = reason;
      near = s->on[device] != NULL;
    }
  }
  if (!found) fa_say(why, FA_REFUSED, "%s", nearest.text);
  return found;
}

/* The C interface of libNAME.so: the one stage that is linked in. */
static fa_status_t pick(const fa_problem_t *p, const char *name, fa_pass_t pass, fa_device_t device,
                        const fa_step_t **step, fa_reason_t *why) {
  fa_reason_t unused;
  if (!why) why = &unused;
  fa_status_t status = fa_problem_check(p, pass, false, why);
  if (status) return status;
  if ((unsigned)pass >= FA_PASSES || (unsigned)device >= FA_DEVICES)
    return fa_say(why, FA_INVALID, "unknown pass or device");
  *step = name ? fa_find_step(fa_stages[0], name) : fa_main_step(fa_stages[0], p, pass, device, why);
  if (*step) return FA_OK;
  return name ? fa_say(why, FA_INVALID, "%s has no step named %s", fa_stages[0]->name, name) : FA_REFUSED;
}

size_t fa_problem_size(void) {
  return sizeof(fa_problem_t);
}

fa_status_t fa_supports(const fa_problem_t *p, const char *step, fa_pass_t pass, fa_device_t device,
                        fa_reason_t *why) {
  const fa_step_t *s;
  fa_status_t status = pick(p, step, pass, device, &s, why);
  return status ? status : fa_stage_supports(fa_stages[0], s, p, pass, device, why);
}

size_t fa_workspace_size(const fa_problem_t *p, const char *step, fa_pass_t pass, fa_device_t device) {
  const fa_step_t *s;
  fa_reason_t unused;
  if (pick(p, step, pass, device, &s, NULL)) return 0;
  /* Steps compute sizes without looking for overflow: `supports` refuses what would. */
  if (fa_stage_supports(fa_stages[0], s, p, pass, device, &unused)) return 0;
  return fa_stage_workspace(s, p, pass, device);
}

fa_status_t fa_forward(const fa_problem_t *p, const char *step, fa_device_t device, fa_reason_t *why) {
  const fa_step_t *s;
  fa_status_t status = pick(p, step, FA_FORWARD, device, &s, why);
  return status ? status : fa_stage_run(fa_stages[0], s, p, FA_FORWARD, device, why);
}

fa_status_t fa_backward(const fa_problem_t *p, const char *step, fa_device_t device, fa_reason_t *why) {
  const fa_step_t *s;
  fa_status_t status = pick(p, step, FA_BACKWARD, device, &s, why);
  return status ? status : fa_stage_run(fa_stages[0], s, p, FA_BACKWARD, device, why);
}
