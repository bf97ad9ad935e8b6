/* device_gpu.cu - an NVIDIA GPU as a device: the current one (CUDA_VISIBLE_DEVICES chooses).
 *
 * No CUDA call is made before the first of these functions is called, so that a program may fork before. The
 * CUDA runtime is linked statically and loads the driver itself: a machine with the toolkit and without a
 * driver starts every program, and open() says what is missing. */
#include "cuda_check.h"
#include "device.h"

#include <cuda_runtime.h>
#include <string.h>

/* --- opening --------------------------------------------------------------------------------------- */

/* Tells whether this build has code for the GPU: the only use of this kernel, which is never launched. */
__global__ void has_code(void) {}

/* "580.65.06" from the kernel module; the CUDA version that the driver supports where that file is hidden. */
static void driver_version(char *text, size_t size, int cuda) {
  snprintf(text, size, "for CUDA %d.%d", cuda / 1000, cuda % 1000 / 10);
  FILE *f = fopen("/sys/module/nvidia/version", "r");
  if (!f) return;
  char line[32];
  if (fgets(line, sizeof line, f)) snprintf(text, size, "%.*s", (int)strcspn(line, "\n"), line);
  fclose(f);
}

static fa_status_t gpu_open(char name[128], fa_reason_t *why) {
  int driver = 0, runtime = 0, count = 0, device = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return fa_say(why, FA_REFUSED, "no GPU: this machine has no NVIDIA driver");
  FA_CUDA(cudaRuntimeGetVersion(&runtime));
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorInsufficientDriver)
    return fa_say(why, FA_REFUSED, "no GPU: the driver is for CUDA %d.%d, this build needs %d.%d",
                  driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  if (error != cudaSuccess || count == 0)
    return fa_say(why, FA_REFUSED, "no GPU: %s",
                  error == cudaSuccess ? "the driver finds none" : cudaGetErrorString(error));
  cudaDeviceProp p;
  FA_CUDA(cudaGetDevice(&device));
  FA_CUDA(cudaGetDeviceProperties(&p, device));
  cudaFuncAttributes attributes;
  error = cudaFuncGetAttributes(&attributes, has_code);
  if (error != cudaSuccess)
    return fa_say(why, FA_REFUSED, "%.80s (sm_%d%d): %s; build with ARCHS=%d%d", p.name, p.major, p.minor,
                  error == cudaErrorNoKernelImageForDevice ? "this build has no code for it"
                                                           : cudaGetErrorString(error),
                  p.major, p.minor);
  char version[32];
  driver_version(version, sizeof version, driver);
  snprintf(name, 128, "%.64s (sm_%d%d, %d SMs, driver %s)", p.name, p.major, p.minor, p.multiProcessorCount,
           version);
  return FA_OK;
}

/* --- memory ---------------------------------------------------------------------------------------- */

/* release() cannot report; the next sync() does. */
static cudaError_t release_error = cudaSuccess;

static size_t gpu_memory_free(void) {
  size_t available = 0, total = 0;
  return cudaMemGetInfo(&available, &total) == cudaSuccess ? available : 0;
}

static fa_status_t gpu_alloc(void **p, size_t bytes, fa_reason_t *why) {
  *p = NULL;
  size_t available = 0, total = 0;
  FA_CUDA(cudaMemGetInfo(&available, &total));
  cudaError_t error = bytes > available ? cudaErrorMemoryAllocation : cudaMalloc(p, bytes ? bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError(); /* it is told here, not by the next check */
    return fa_say(why, FA_REFUSED, "%.3f GB of GPU memory are wanted (%zu bytes), %.3f GB are available",
                  (double)bytes / 1e9, bytes, (double)available / 1e9);
  }
  FA_CUDA(error);
  return FA_OK;
}

static void gpu_release(void *p) {
  cudaError_t error = cudaFree(p);
  if (error != cudaSuccess) release_error = error;
}

static fa_status_t gpu_upload(void *device, const void *host, size_t bytes, fa_reason_t *why) {
  FA_CUDA(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  return FA_OK;
}

static fa_status_t gpu_download(void *host, const void *device, size_t bytes, fa_reason_t *why) {
  FA_CUDA(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  return FA_OK;
}

static fa_status_t gpu_sync(fa_reason_t *why) {
  FA_CUDA(cudaDeviceSynchronize());
  cudaError_t error = release_error;
  release_error = cudaSuccess;
  if (error != cudaSuccess)
    return fa_say(why, FA_FAILED, "freeing GPU memory: %s", cudaGetErrorString(error));
  return FA_OK;
}

/* --- time ------------------------------------------------------------------------------------------ */

static cudaEvent_t start_event, stop_event;

static fa_status_t gpu_timer_start(fa_reason_t *why) {
  if (!start_event) FA_CUDA(cudaEventCreate(&start_event));
  if (!stop_event) FA_CUDA(cudaEventCreate(&stop_event));
  FA_CUDA(cudaEventRecord(start_event));
  return FA_OK;
}

static fa_status_t gpu_timer_stop(double *seconds, fa_reason_t *why) {
  float milliseconds = 0;
  FA_CUDA(cudaEventRecord(stop_event));
  FA_CUDA(cudaEventSynchronize(stop_event));
  FA_CUDA(cudaEventElapsedTime(&milliseconds, start_event, stop_event));
  *seconds = 1e-3 * milliseconds;
  return FA_OK;
}

/* Twice the L2 cache is written, so that nothing of the last repeat is left in it. */
static fa_status_t gpu_flush_cache(fa_reason_t *why) {
  static void *buffer;
  static size_t bytes;
  if (!buffer) {
    int device = 0, l2 = 0;
    FA_CUDA(cudaGetDevice(&device));
    FA_CUDA(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device));
    bytes = l2 > 0 ? 2 * (size_t)l2 : (size_t)64 << 20;
    fa_status_t status = gpu_alloc(&buffer, bytes, why);
    if (status) return status;
  }
  FA_CUDA(cudaMemsetAsync(buffer, 0, bytes));
  return FA_OK;
}

extern "C" const fa_machine_t fa_machine_gpu = {FA_GPU,          gpu_open,       gpu_memory_free, gpu_alloc,
                                                gpu_release,     gpu_upload,     gpu_download,    gpu_sync,
                                                gpu_timer_start, gpu_timer_stop, gpu_flush_cache};
