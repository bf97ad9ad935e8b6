/* limits.h - what the machine has, asked by the kernel at compile time and by its launcher at run time. */
#ifndef FA_PTX_LIMITS_H
#define FA_PTX_LIMITS_H

#include "../device_limits.h"
#include "launch.h"

/* The architecture that the running code was compiled for: 80 for sm_80. nvcc knows it, so that
 * `if (target_sm() >= 80)` leaves one branch; the emulator plays the one that EMU_ARCH names. */
FA_DEVICE int target_sm(void) {
#ifdef __CUDA_ARCH__
  return __CUDA_ARCH__ / 10;
#elif defined(__CUDACC__)
  return 0; /* nvcc's pass over host code, which calls no device function */
#else
  return fa_emu_arch();
#endif
}

/* Of the device that is current: what its launchers ask. */
static inline fa_status_t ask_limits(fa_limits_t *l, fa_reason_t *why) {
  return FA_KERNEL_TABLE(fa_limits)(l, why);
}

#endif
