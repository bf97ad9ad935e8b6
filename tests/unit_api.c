/* unit_api.c - what stands between a caller and a kernel: refusal, workspace, empty problems, the main step. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* A stage that only counts calls. Its step `big` wants 1000 bytes, for 100 heads at most; `half` has no backward pass and takes
 * seq_q <= 10 only. */
static int forwards, backwards;

static size_t thousand(const fa_problem_t *p, fa_pass_t pass) {
  (void)p;
  return pass == FA_FORWARD ? 1000 : 2000;
}
static fa_status_t count_forward(const fa_problem_t *p, fa_reason_t *why) {
  (void)p, (void)why;
  forwards++;
  return FA_OK;
}
static fa_status_t count_backward(const fa_problem_t *p, fa_reason_t *why) {
  (void)p, (void)why;
  backwards++;
  return FA_OK;
}
static const fa_kernels_t half_kernels = {NULL, count_forward, NULL};
static const fa_kernels_t big_kernels = {thousand, count_forward, count_backward};
static const fa_kernels_t plain_kernels = {NULL, count_forward, count_backward};

static fa_status_t supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass, fa_device_t device,
                            fa_reason_t *why) {
  (void)pass, (void)device;
  if (!strcmp(step->name, "half") && p->seq_q > 10)
    return fa_say(why, FA_REFUSED, "half takes 10 rows at most");
  if (!strcmp(step->name, "plain") && p->heads_q > 1000)
    return fa_say(why, FA_REFUSED, "plain takes 1000 heads at most");
  if (!strcmp(step->name, "big") && p->heads_q > 100)
    return fa_say(why, FA_REFUSED, "big takes 100 heads at most");
  return FA_OK;
}

static const fa_step_t steps[] = {{.name = "plain", .main = true, .on = {[FA_CPU] = &plain_kernels}},
                                  {.name = "big", .on = {[FA_CPU] = &big_kernels}},
                                  {.name = "half", .main = true, .on = {[FA_CPU] = &half_kernels}},
                                  {.name = "far", .main = true, .on = {[FA_GPU] = &plain_kernels}},
                                  {.name = NULL}};
const fa_stage_t fake_stage = {"00_fake", "counts calls", steps, supports};

static const fa_step_t *step(const char *name) {
  return fa_find_step(&fake_stage, name);
}

static void small(fa_tensors_t *t, int64_t batch, int64_t seq_q) {
  fa_problem_t p = {.batch = batch,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = seq_q,
                    .seq_k = 4,
                    .head_dim = 4,
                    .head_dim_v = 4,
                    .scale = 1};
  host_tensors(t, &p, true, FA_BHND);
  forwards = backwards = 0;
}

START_TEST(finds_steps) {
  ck_assert_ptr_eq(step("big"), &steps[1]);
  ck_assert_ptr_null(step("bi"));
  ck_assert_ptr_null(step(""));
}
END_TEST

START_TEST(runs_once) {
  fa_tensors_t t;
  fa_reason_t why = {""};
  small(&t, 1, 3);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, FA_FORWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, FA_BACKWARD, FA_CPU, NULL), FA_OK);
  ck_assert_int_eq(forwards, 1);
  ck_assert_int_eq(backwards, 1);
  fa_tensors_free(&t);
}
END_TEST

START_TEST(refuses) {
  fa_tensors_t t;
  fa_reason_t why = {""};
  small(&t, 1, 11);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("half"), &t.dev, FA_FORWARD, FA_CPU, &why), FA_REFUSED);
  ck_assert_str_eq(why.text, "half takes 10 rows at most");
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("half"), &t.dev, FA_BACKWARD, FA_CPU, &why), FA_REFUSED);
  ck_assert_ptr_nonnull(strstr(why.text, "no backward pass"));
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, FA_FORWARD, FA_EMU, &why), FA_REFUSED);
  ck_assert_ptr_nonnull(strstr(why.text, "emu"));
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, FA_FORWARD, FA_GPU, &why), FA_REFUSED);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, FA_FORWARD, (fa_device_t)9, &why),
                   FA_INVALID);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, (fa_pass_t)2, FA_CPU, &why), FA_INVALID);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), NULL, FA_FORWARD, FA_CPU, &why), FA_INVALID);
  ck_assert_int_eq(forwards + backwards, 0);
  fa_tensors_free(&t);
}
END_TEST

START_TEST(workspace_is_enforced) {
  fa_tensors_t t;
  fa_reason_t why = {""};
  small(&t, 1, 3);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("big"), &t.dev, FA_FORWARD, FA_CPU, &why), FA_REFUSED);
  ck_assert_ptr_nonnull(strstr(why.text, "1000 bytes; 0 were given"));
  ck_assert_int_eq(fa_tensors_workspace(&t, step("big"), &why), FA_OK);
  ck_assert_uint_eq(t.workspace_size, 2000); /* both passes */
  fa_problem_t p = t.dev;
  p.workspace_size = 999;
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("big"), &p, FA_FORWARD, FA_CPU, &why), FA_REFUSED);
  p.workspace_size = 1000;
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("big"), &p, FA_FORWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("big"), &p, FA_BACKWARD, FA_CPU, &why), FA_REFUSED);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("big"), &t.dev, FA_BACKWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(forwards, 1);
  ck_assert_int_eq(backwards, 1);
  fa_tensors_free(&t);
}
END_TEST

/* bl30: nothing is launched where no output element exists; dK and dV exist without queries. */
START_TEST(empty_problems_launch_nothing) {
  fa_tensors_t t;
  fa_reason_t why = {""};
  small(&t, 0, 3);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("big"), &t.dev, FA_FORWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("big"), &t.dev, FA_BACKWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(forwards + backwards, 0);
  fa_tensors_free(&t);
  small(&t, 1, 0);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, FA_FORWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(forwards, 0);
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &t.dev, FA_BACKWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(backwards, 1);
  fa_problem_t nothing = t.dev;
  nothing.seq_k = 0;
  ck_assert_int_eq(fa_stage_run(&fake_stage, step("plain"), &nothing, FA_BACKWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(backwards, 1);
  fa_tensors_free(&t);
}
END_TEST

START_TEST(main_step_is_the_last_that_supports) {
  fa_problem_t p = {
      .batch = 1, .heads_q = 1, .heads_kv = 1, .seq_q = 10, .seq_k = 4, .head_dim = 4, .head_dim_v = 4};
  fa_reason_t why = {""};
  ck_assert_str_eq(fa_main_step(&fake_stage, &p, FA_FORWARD, FA_CPU, &why)->name, "half");
  ck_assert_str_eq(fa_main_step(&fake_stage, &p, FA_BACKWARD, FA_CPU, &why)->name, "plain");
  p.seq_q = 11;
  ck_assert_str_eq(fa_main_step(&fake_stage, &p, FA_FORWARD, FA_CPU, &why)->name, "plain");
  p.heads_q = p.heads_kv = 2000; /* the reason is one of a step that this device has */
  ck_assert_ptr_null(fa_main_step(&fake_stage, &p, FA_FORWARD, FA_CPU, &why));
  ck_assert_str_eq(why.text, "half takes 10 rows at most");
  ck_assert_ptr_null(fa_main_step(&fake_stage, &p, FA_FORWARD, FA_EMU, &why));
  ck_assert_uint_gt(strlen(why.text), 10);
}
END_TEST

START_TEST(c_interface) {
  fa_tensors_t t;
  fa_reason_t why = {""};
  small(&t, 1, 3);
  ck_assert_int_eq(fa_supports(&t.dev, "big", FA_BACKWARD, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(fa_supports(&t.dev, "nothing", FA_FORWARD, FA_CPU, &why), FA_INVALID);
  ck_assert_ptr_nonnull(strstr(why.text, "no step named nothing"));
  ck_assert_uint_eq(fa_workspace_size(&t.dev, "big", FA_BACKWARD, FA_CPU), 2000);
  ck_assert_uint_eq(fa_workspace_size(&t.dev, NULL, FA_FORWARD, FA_CPU), 0);
  fa_problem_t p = {
      .batch = 1, .heads_q = 100, .heads_kv = 100, .seq_q = 3, .seq_k = 4, .head_dim = 4, .head_dim_v = 4};
  ck_assert_uint_eq(fa_workspace_size(&p, "big", FA_FORWARD, FA_CPU), 1000);
  p.heads_q = p.heads_kv = 1 << 30; /* refused by the stage */
  ck_assert_uint_eq(fa_workspace_size(&p, "big", FA_FORWARD, FA_CPU), 0);
  ck_assert_uint_eq(fa_workspace_size(&t.dev, "big", FA_FORWARD, FA_EMU), 0); /* no such code */
  ck_assert_uint_eq(fa_workspace_size(&t.dev, "nothing", FA_FORWARD, FA_CPU), 0);
  p.heads_kv = 3; /* invalid */
  ck_assert_uint_eq(fa_workspace_size(&p, "big", FA_FORWARD, FA_CPU), 0);
  ck_assert_uint_eq(fa_workspace_size(NULL, "big", FA_FORWARD, FA_CPU), 0);
  ck_assert_int_eq(fa_forward(&t.dev, NULL, FA_CPU, NULL), FA_OK);
  ck_assert_int_eq(fa_backward(&t.dev, NULL, FA_CPU, &why), FA_OK);
  ck_assert_int_eq(fa_forward(&t.dev, "big", FA_CPU, &why), FA_REFUSED);
  ck_assert_int_eq(fa_forward(NULL, NULL, FA_CPU, &why), FA_INVALID);
  ck_assert_int_eq(forwards, 1);
  ck_assert_int_eq(backwards, 1);
  fa_tensors_free(&t);
}
END_TEST

Suite *unit_api(void) {
  const TTest *const tests[] = {finds_steps,
                                runs_once,
                                refuses,
                                workspace_is_enforced,
                                empty_problems_launch_nothing,
                                main_step_is_the_last_that_supports,
                                c_interface,
                                NULL};
  return suite_of("the interface to stages", tests);
}
