/* device_limits.cu - see device_limits.h; compiled once for each device. */
#include "device_limits.h"
#include "ptx/launch.h"

extern "C" fa_status_t FA_KERNEL_TABLE(fa_limits)(fa_limits_t *l, fa_reason_t *why) {
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
