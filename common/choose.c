/* choose.c - which step runs, on which device, with which type where none was given. */
#include "driver.h"

#include <string.h>

/* Where several candidates refuse, the user is told the reason that came nearest to running. */
typedef enum near { NO_CODE, NO_DEVICE, REFUSED } near_t;

typedef struct miss {
  near_t near;
  bool any;
  fa_reason_t reason;
} miss_t;

static void remember(miss_t *miss, near_t near, const fa_reason_t *reason) {
  if (miss->any && near < miss->near) return;
  miss->any = true;
  miss->near = near;
  miss->reason = *reason;
}

static fa_status_t supports(const fa_run_t *run, const fa_step_t *step, fa_device_t device,
                            fa_reason_t *why) {
  fa_status_t status = fa_stage_supports(run->stage, step, &run->shape, FA_FORWARD, device, why);
  if (!status && run->options->backward)
    status = fa_stage_supports(run->stage, step, &run->shape, FA_BACKWARD, device, why);
  return status;
}

static bool has_code(const fa_run_t *run, const fa_step_t *only, fa_device_t device) {
  for (const fa_step_t *s = run->stage->steps; s->name; s++)
    if (s->on[device] && (!only || s == only)) return true;
  return false;
}

/* The last candidate that supports the problem on this device, which is open. */
static const fa_step_t *last_fit(const fa_run_t *run, const fa_step_t *only, fa_device_t device,
                                 miss_t *miss) {
  const fa_step_t *found = NULL;
  for (const fa_step_t *s = run->stage->steps; s->name; s++) {
    if (only ? s != only : !s->main) continue;
    fa_reason_t reason = {""};
    if (!supports(run, s, device, &reason))
      found = s;
    else
      remember(miss, s->on[device] ? REFUSED : NO_CODE, &reason);
  }
  return found;
}

static void set_types(fa_run_t *run, fa_dtype_t dtype) {
  run->shape.dtype = dtype;
  run->shape.dtype_out = run->options->dtype_out != FA_UNSET ? (fa_dtype_t)run->options->dtype_out
                         : dtype == FA_E4M3                  ? FA_BF16
                                                             : dtype;
}

/* Does a candidate compute in this type at all, whatever keeps it from this problem? */
static bool has_type(const fa_run_t *run, const fa_step_t *only, fa_device_t device, fa_dtype_t dtype) {
  fa_problem_t plain = {.batch = 1, .heads_q = 1, .heads_kv = 1, .seq_q = 256, .seq_k = 256};
  plain.head_dim = plain.head_dim_v = 64;
  plain.scale = fa_default_scale(plain.head_dim);
  plain.dtype = dtype;
  plain.dtype_out = dtype == FA_E4M3 ? FA_BF16 : dtype;
  for (const fa_step_t *s = run->stage->steps; s->name; s++)
    if ((only ? s == only : s->main) && !fa_stage_supports(run->stage, s, &plain, FA_FORWARD, device, NULL))
      return true;
  return false;
}

/* Tries one device with the type asked for, or with each type in turn. Of several refusals of one device the
 * one to tell is that of the first type which the candidates have: nobody asked for the others. */
static bool try_device(fa_run_t *run, const fa_step_t *only, fa_device_t device, miss_t *miss) {
  const fa_options_t *o = run->options;
  fa_reason_t closed = {""};
  bool code = has_code(run, only, device);
  bool open = code && fa_machine(device)->open(run->machine_name, &closed) == FA_OK;
  if (code && !open) {
    remember(miss, NO_DEVICE, &closed);
    return false;
  }
  int first = o->dtype == FA_UNSET ? FA_FP32 : o->dtype, last = o->dtype == FA_UNSET ? FA_E4M3 : o->dtype;
  miss_t here = {0};
  bool told = false;
  for (int t = first; t <= last; t++) {
    miss_t of_type = {0};
    set_types(run, (fa_dtype_t)t);
    run->step = last_fit(run, only, device, &of_type);
    if (run->step) return true;
    bool has = has_type(run, only, device, (fa_dtype_t)t);
    if (t == first || (has && !told)) here = of_type;
    told = told || has;
  }
  if (here.any) remember(miss, here.near, &here.reason);
  return false;
}

static fa_status_t no_such_step(const fa_run_t *run, fa_reason_t *why) {
  char names[128] = "";
  size_t n = 0;
  for (const fa_step_t *s = run->stage->steps; s->name && n < sizeof names; s++)
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", s->name);
  return fa_say(why, FA_INVALID, "%s has no step \"%.40s\"; its steps are %s", run->stage->name,
                run->options->step, names);
}

void fa_types_asked(fa_run_t *run) {
  set_types(run, run->options->dtype == FA_UNSET ? FA_DTYPES : (fa_dtype_t)run->options->dtype);
}

fa_status_t fa_choose(fa_run_t *run, fa_reason_t *why) {
  const fa_options_t *o = run->options;
  const fa_step_t *only = o->step ? fa_find_step(run->stage, o->step) : NULL;
  if (o->step && !only) return no_such_step(run, why);
  static const fa_device_t order[] = {FA_GPU, FA_CPU, FA_EMU};
  miss_t miss = {0};
  for (int i = 0; i < 3; i++) {
    if (o->device != FA_UNSET && o->device != (int)order[i]) continue;
    if (!try_device(run, only, order[i], &miss)) continue;
    run->machine = fa_machine(order[i]);
    return FA_OK;
  }
  fa_types_asked(run);
  return fa_say(why, FA_REFUSED, "%s",
                miss.any ? miss.reason.text : "no step of this stage runs by itself: name one with --step");
}
