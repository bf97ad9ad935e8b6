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

#ifdef __cplusplus
}
#endif
#endif
