/* fa1.h - what the files of this stage share on the host's side. */
#ifndef FA1_H
#define FA1_H

#include "config.h"
#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The machine that a device's kernels would run on: limits.cu, once for each device. */
typedef fa_status_t fa1_limits_t(int *sm, size_t *shared_bytes, fa_reason_t *why);
fa1_limits_t fa1_limits_gpu, fa1_limits_emu;

/* The end of a launcher, which has the parameters p and why: returns launch<T, D>(...) for the type and the head size of
 * problem p. */
#define LAUNCH_TYPED(launch, ...)                                                                            \
  FA1_HEAD_DIMS(LAUNCH_HEAD_DIM, launch, __VA_ARGS__)                                                        \
  return fa_say(why, FA_REFUSED, "no kernel has head dim %lld", (long long)p->head_dim)
#define LAUNCH_HEAD_DIM(D, launch, ...)                                                                      \
  if (p->head_dim == D)                                                                                      \
    return p->dtype == FA_FP16 ? launch<fp16_t, D>(__VA_ARGS__) : launch<bf16_t, D>(__VA_ARGS__);

#ifdef __cplusplus
}
#endif
#endif
