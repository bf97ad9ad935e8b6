/* stage.c - the table of 01_naive: standard attention, three kernels with S and P in memory. */
#include "gpu.h"

extern const fa_kernels_t fa_kernels_naive_cpu;
FA_KERNELS(naive_cuda)
FA_KERNELS(naive_cublas)

static fa_status_t supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass, fa_device_t device,
                            fa_reason_t *why) {
  if (device == FA_CPU && (p->dtype != FA_FP32 || p->dtype_out != FA_FP32))
    return fa_say(why, FA_REFUSED, "01_naive, step %s computes in fp32 only; %s was asked for", step->name,
                  fa_dtype_name(p->dtype != FA_FP32 ? p->dtype : p->dtype_out));
  if (p->dtype == FA_E4M3) return fa_say(why, FA_REFUSED, "01_naive has no e4m3; stages 05 and 06 do");
  if (p->splits > 1)
    return fa_say(why, FA_REFUSED, "01_naive, step %s does not split keys (splits is %d)", step->name,
                  p->splits);
  return device == FA_CPU ? FA_OK : naive_gpu_supports(step, p, pass, why);
}

static const fa_step_t steps[] = {
    {.name = "cpu",
     .idea = "three loops over stored S and P, fp32",
     .main = true,
     .on = {[FA_CPU] = &fa_kernels_naive_cpu}},
    {.name = "cuda",
     .idea = "three kernels, S and P in global memory",
     .main = true,
     .scalar = true,
     .on = {[FA_GPU] = FA_ON_GPU(naive_cuda), [FA_EMU] = FA_ON_EMU(naive_cuda)}},
    {.name = "cublas",
     .idea = "GEMMs of cuBLAS on tensor cores around a softmax kernel",
     .main = true,
     .on = {[FA_GPU] = FA_ON_GPU(naive_cublas)}},
    {.name = NULL},
};

const fa_stage_t fa_stage_01_naive = {"01_naive", "standard attention: S and P go to memory and back", steps,
                                      supports};
