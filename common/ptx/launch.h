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
 * is launched.
 *
 *   LAUNCH_TYPED(DIMS, launch, arguments...);
 *
 * ends a launcher, which has the parameter `p` too: returns launch<T, D>(arguments...) for the type and the head size of
 * problem p, one of the list DIMS (in a stage's config.h). */
#ifndef FA_PTX_LAUNCH_H
#define FA_PTX_LAUNCH_H

#ifdef __CUDACC__

#include <cuda_runtime.h>
#include "../cuda_check.h"

#define FA_KERNEL_NAMESPACE fa_gpu
#define FA_KERNEL_TABLE(name) name##_gpu
#define FA_DEVICE static __device__ __forceinline__
/* The place of a call in the kernel: the emulator's findings name it. */
#define FA_PLACE
#define FA_PLACE_ONLY

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
  if (shared_bytes > 48 * 1024) { /* what every GPU gives without being asked */
    cudaError_t e =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared_bytes);
    if (e) return e;
  }
  return cudaLaunchKernelEx(&c, kernel, P(arguments)...);
}

/* A 32-bit address in the block's shared memory. */
FA_DEVICE uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}

#else /* g++: the emulator */

#include "../emu/emu.h"

#define FA_KERNEL_NAMESPACE fa_emu
#define FA_KERNEL_TABLE(name) name##_emu
/* Inlined as on a GPU: findings then name the calls that led to their place. */
#define FA_DEVICE static inline __attribute__((always_inline))
#define FA_PLACE_ONLY EMU_HERE
#define FA_PLACE , EMU_HERE

#define SHARED_DYN(type, name) type &name = *(type *)fa_emu_shared(sizeof(type), {__FILE__, __LINE__})

#define LAUNCH(kernel, blocks, threads, shared_bytes, stream, ...)                                           \
  do {                                                                                                       \
    fa_status_t fa_launch_status_ =                                                                          \
        emu_launch(#kernel, why, kernel, blocks, threads, shared_bytes, stream, __VA_ARGS__);                \
    if (fa_launch_status_) return fa_launch_status_;                                                         \
  } while (0)

#endif

#define LAUNCH_TYPED(DIMS, launch, ...)                                                                      \
  DIMS(LAUNCH_HEAD_DIM, launch, __VA_ARGS__)                                                                 \
  return fa_say(why, FA_REFUSED, "no kernel has head dim %lld", (long long)p->head_dim)
#define LAUNCH_HEAD_DIM(D, launch, ...)                                                                      \
  if (p->head_dim == D)                                                                                      \
    return p->dtype == FA_FP16 ? launch<fp16_t, D>(__VA_ARGS__) : launch<bf16_t, D>(__VA_ARGS__);

#endif
