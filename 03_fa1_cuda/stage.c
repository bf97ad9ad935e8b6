/* stage.c - the table of 03_fa1_cuda: FlashAttention on a GPU, in the order of its first paper. */
#include "fa1.h"

FA_KERNELS(fa1_paper)
FA_KERNELS(fa1_tensorcore)
FA_KERNELS(fa1_keys_64)
FA_KERNELS(fa1_keys_128)
FA_KERNELS(fa1_keys_256)

/* What the device has; NULL where this build has no code for it. */
static fa1_limits_t *limits_of(fa_device_t device) {
#if FA_HAVE_GPU
  if (device == FA_GPU) return fa1_limits_gpu;
#endif
#if FA_HAVE_EMU
  if (device == FA_EMU) return fa1_limits_emu;
#endif
  (void)device;
  return NULL;
}

static fa_status_t supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass, fa_device_t device,
                            fa_reason_t *why) {
  (void)pass;
  if (p->dtype != FA_FP16 && p->dtype != FA_BF16)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s computes in fp16 and bf16, not in %s", step->name,
                  fa_dtype_name(p->dtype));
  if (p->dtype_out != p->dtype)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s writes O in the type of Q, not in %s", step->name,
                  fa_dtype_name(p->dtype_out));
  int64_t d = p->head_dim;
  if (d != p->head_dim_v || (d != 32 && d != 64 && d != 96 && d != 128))
    return fa_say(why, FA_REFUSED,
                  "03_fa1_cuda, step %s has head dim 32, 64, 96 and 128, the same for V; not %lld, %lld",
                  step->name, (long long)d, (long long)p->head_dim_v);
  if (p->splits > 1)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s does not split keys (splits is %d)", step->name,
                  p->splits);
  if (p->seq_q > FA1_LONGEST || p->seq_k > FA1_LONGEST)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s counts rows of a head in 32 bits: at most 2^29",
                  step->name);
  int sm;
  size_t shared;
  fa1_limits_t *limits = limits_of(device);
  fa_status_t status = limits ? limits(&sm, &shared, why) : FA_OK;
  if (status) return status;
  if (limits && p->dtype == FA_BF16 && sm < 80)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda needs sm_80 or later for bf16; this is sm_%d", sm);
  return FA_OK;
}

#define STEP(step_name, kernels, what, candidate)                                                            \
  {                                                                                                          \
    .name = step_name, .idea = what, .main = candidate, .on = {                                              \
      [FA_GPU] = FA_ON_GPU(kernels),                                                                         \
      [FA_EMU] = FA_ON_EMU(kernels)                                                                          \
    }                                                                                                        \
  }

static const fa_step_t steps[] = {
    STEP("paper", fa1_paper, "Algorithms 1 and 4 as printed, on CUDA cores", true),
    STEP("keys_64", fa1_keys_64, "tensorcore with B_c = 64 keys: most passes over O", false),
    STEP("keys_128", fa1_keys_128, "tensorcore with B_c = 128 keys", false),
    STEP("keys_256", fa1_keys_256, "tensorcore with B_c = 256 keys: fewest passes over O", false),
    STEP("tensorcore", fa1_tensorcore, "the same algorithms with mma.sync, tiles in shared memory", true),
    {.name = NULL},
};

const fa_stage_t fa_stage_03_fa1_cuda = {"03_fa1_cuda", "FlashAttention-1: S and P never leave the SM", steps,
                                         supports};
