/* device_limits.h - what a device offers a kernel: for the refusals of a stage's table, and for its launchers. */
#ifndef FA_DEVICE_LIMITS_H
#define FA_DEVICE_LIMITS_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_limits {
  int sm;              /* 90 for sm_90 */
  size_t shared_bytes; /* the most shared memory that one block can have */
} fa_limits_t;

/* Of the device that is current. Asks, and launches nothing. */
typedef fa_status_t fa_ask_limits_t(fa_limits_t *l, fa_reason_t *why);
fa_ask_limits_t fa_limits_gpu, fa_limits_emu;

/* The one for `device`; NULL where this build has no such device, or it is a CPU. */
static inline fa_ask_limits_t *fa_limits_of(fa_device_t device) {
#if FA_HAVE_GPU
  if (device == FA_GPU) return fa_limits_gpu;
#endif
  return device == FA_EMU ? fa_limits_emu : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
