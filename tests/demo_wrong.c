/* demo_wrong.c - the demo's stages for a test of it: one that is right, and one whose steps are not. */
#include "stage.h"

static fa_status_t nothing(const fa_problem_t *p, fa_reason_t *why) {
  (void)p, (void)why;
  return FA_OK;
}
static const fa_kernels_t kernels = {NULL, nothing, NULL};

static fa_status_t supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass, fa_device_t device,
                            fa_reason_t *why) {
  (void)step, (void)pass, (void)device;
  return p->dtype == FA_FP32 ? FA_OK : fa_say(why, FA_REFUSED, "99_wrong has fp32 only");
}

static const fa_step_t steps[] = {{.name = "lazy", .on = {[FA_CPU] = &kernels}},
                                  {.name = "idle", .on = {[FA_CPU] = &kernels}},
                                  {.name = NULL}};
static const fa_stage_t wrong = {"99_wrong", "computes nothing", steps, supports};

extern const fa_stage_t fa_stage_01_naive;
const fa_stage_t *const fa_stages[] = {&fa_stage_01_naive, &wrong, NULL};
