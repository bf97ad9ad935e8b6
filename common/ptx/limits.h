/* limits.h - what the machine has, asked by the kernel at compile time and by its launcher at run time. */
#ifndef FA_PTX_LIMITS_H
#define FA_PTX_LIMITS_H

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

typedef struct device_limits {
  int sm;              /* 90 for sm_90 */
  size_t shared_bytes; /* the most shared memory that one block can have */
} device_limits_t;

/* Of the device that is current. Asks, and launches nothing. */
static inline fa_status_t ask_limits(device_limits_t *l, fa_reason_t *why) {
#ifdef __CUDACC__
  int device = 0, major = 0, minor = 0, bytes = 0;
  *l = {0, 0};
  FA_CUDA(cudaGetDevice(&device));
  FA_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  FA_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  FA_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  *l = {10 * major + minor, (size_t)bytes};
#else
  (void)why;
  *l = {fa_emu_arch(), fa_emu_shared_limit()};
#endif
  return FA_OK;
}

#endif
