/* cublas_library.h - cuBLAS, loaded when it is first needed.
 *
 * The library is some 700 MB, and mapping it takes longer than most runs of a CPU step: a program that does
 * not use it does not load it, and starts where it is not installed. */
#ifndef NAIVE_CUBLAS_LIBRARY_H
#define NAIVE_CUBLAS_LIBRARY_H

#include <cublas_v2.h>
#include <dlfcn.h>

#include "cuda_check.h"

/* Its C++ header has this name twice; the library has this one. */
typedef cublasStatus_t (*gemm_strided_batched_t)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
                                                 int, int, const void *, const void *, cudaDataType_t, int,
                                                 long long, const void *, cudaDataType_t, int, long long,
                                                 const void *, void *, cudaDataType_t, int, long long, int,
                                                 cublasComputeType_t, cublasGemmAlgo_t);

/* The functions that are used: type and name. */
#define CUBLAS_FUNCTIONS(X)                                                                                  \
  X(decltype(&::cublasCreate_v2), cublasCreate_v2)                                                           \
  X(decltype(&::cublasDestroy_v2), cublasDestroy_v2)                                                         \
  X(decltype(&::cublasSetStream_v2), cublasSetStream_v2)                                                     \
  X(decltype(&::cublasSetMathMode), cublasSetMathMode)                                                       \
  X(gemm_strided_batched_t, cublasGemmStridedBatchedEx)                                                      \
  X(decltype(&::cublasGetStatusString), cublasGetStatusString)

typedef struct cublas_library {
#define X(type, function) type function;
  CUBLAS_FUNCTIONS(X)
#undef X
} cublas_library_t;

/* A call through `library`, a cublas_library_t in scope; see cuda_check.h. */
#define FA_CUBLAS(call)                                                                                      \
  FA_CALL(cublasStatus_t, CUBLAS_STATUS_SUCCESS, library.cublasGetStatusString, library.call)

#define FA_TEXT_OF(x) #x
#define FA_TEXT(x) FA_TEXT_OF(x)

static inline fa_status_t open_cublas(cublas_library_t *library, fa_reason_t *why) {
  void *file = dlopen("libcublas.so." FA_TEXT(CUBLAS_VER_MAJOR), RTLD_NOW | RTLD_LOCAL);
  if (!file) return fa_say(why, FA_REFUSED, "01_naive, step cublas: cuBLAS cannot be loaded: %s", dlerror());
#define X(type, function)                                                                                    \
  library->function = (type)dlsym(file, #function);                                                          \
  if (!library->function)                                                                                    \
    return fa_say(why, FA_REFUSED, "01_naive, step cublas: cuBLAS has no function %s", #function);
  CUBLAS_FUNCTIONS(X)
#undef X
  return FA_OK;
}

#endif
