/* launch.h - what a kernel file needs beside its kernels: its namespace, the launch, dynamic shared memory.
 *
 * Kernels contain no <<<>>>, no __shared__ and no inline assembly: those stand here and in the other headers
 * of this folder alone, so that a kernel file can be compiled for another executor than a GPU by giving
 * these names another meaning.
 *
 *   namespace FA_KERNEL_NAMESPACE { ... }     around everything in a kernel file
 *   FA_KERNEL_TABLE(naive_cuda)               the name of its stage table: naive_cuda_gpu
 *   SHARED_DYN(type, name);                   in a kernel: `name` is the block's dynamic shared memory
 *   LAUNCH(kernel, blocks, threads, shared_bytes, stream, arguments...);
 *
 * LAUNCH is a statement of a function that returns fa_status_t and has the parameter `fa_reason_t *why`. A
 * grid is one-dimensional: 2^31 - 1 blocks, where the y and z directions end at 65,535. No blocks: nothing
 * is launched. */
#ifndef FA_PTX_LAUNCH_H
#define FA_PTX_LAUNCH_H

#ifndef __CUDACC__
#error "kernel files are compiled by nvcc"
#endif

#include <cuda_runtime.h>
#include "../cuda_check.h"

#define FA_KERNEL_NAMESPACE fa_gpu
#define FA_KERNEL_TABLE(name) name##_gpu
#define FA_DEVICE static __device__ __forceinline__

/* 1024 bytes: the alignment that the widest swizzle of shared memory asks for. */
#define SHARED_DYN(type, name)                                                                               \
  extern __shared__ __align__(1024) unsigned char fa_shared_memory[];                                        \
  type &name = *reinterpret_cast<type *>(fa_shared_memory)

#define LAUNCH(kernel, blocks, threads, shared_bytes, stream, ...)                                           \
  FA_CUDA(fa_launch(kernel, blocks, threads, shared_bytes, stream, __VA_ARGS__))

template <class... P, class... A>
static inline cudaError_t fa_launch(void (*kernel)(P...), int64_t blocks, int threads, size_t shared_bytes,
                                    void *stream, A... arguments) {
  if (blocks == 0) return cudaSuccess;
  if (blocks < 0 || blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  cudaLaunchConfig_t c = {};
  c.gridDim = dim3((unsigned)blocks);
  c.blockDim = dim3((unsigned)threads);
  c.dynamicSmemBytes = shared_bytes;
  c.stream = (cudaStream_t)stream;
  return cudaLaunchKernelEx(&c, kernel, P(arguments)...);
}

#endif
