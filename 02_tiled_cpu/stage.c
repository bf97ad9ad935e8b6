/* stage.c - the table of 02_tiled_cpu: FlashAttention's arithmetic on a CPU. */
#include "stage.h"

#include "fast.h"
#include "tiled.h"
#include "worked.h"

extern const fa_kernels_t fa_kernels_worked, fa_kernels_online, fa_kernels_tiled, fa_kernels_fast;

static fa_status_t supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass, fa_device_t device,
                            fa_reason_t *why) {
  (void)pass, (void)device;
  if (p->dtype != FA_FP32 || p->dtype_out != FA_FP32)
    return fa_say(why, FA_REFUSED, "02_tiled_cpu, step %s computes in fp32 only; %s was asked for",
                  step->name, fa_dtype_name(p->dtype != FA_FP32 ? p->dtype : p->dtype_out));
  if (p->splits > 1)
    return fa_say(why, FA_REFUSED, "02_tiled_cpu, step %s does not split keys (splits is %d)", step->name,
                  p->splits);
  return FA_OK;
}

/* Queries that one pass over K and V serves. */
static int64_t one_query(const fa_problem_t *p) {
  (void)p;
  return 1;
}

static int64_t tiled_queries(const fa_problem_t *p) {
  int64_t Br, Bc;
  fa_tiled_sizes(p, &Br, &Bc);
  return Br;
}

static const fa_step_t steps[] = {
    {.name = "worked",
     .idea = "the lecture's two-block example: a wrong denominator, corrected",
     .on = {[FA_CPU] = &fa_kernels_worked},
     .show = fa_worked_show,
     .block_q = one_query},
    {.name = "online",
     .idea = "softmax in one pass, one query row and one key at a time",
     .on = {[FA_CPU] = &fa_kernels_online},
     .block_q = one_query},
    {.name = "tiled",
     .idea = "Br x Bc blocks; backward recomputes P from LSE",
     .main = true,
     .on = {[FA_CPU] = &fa_kernels_tiled},
     .block_q = tiled_queries},
    {.name = "fast",
     .idea = "the same blocks with SIMD, packing and all cores",
     .main = true,
     .on = {[FA_CPU] = &fa_kernels_fast},
     .block_q = fa_fast_queries},
    {.name = NULL},
};

const fa_stage_t fa_stage_02_tiled_cpu = {"02_tiled_cpu", "FlashAttention's arithmetic on a CPU", steps,
                                          supports};
