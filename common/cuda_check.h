/* cuda_check.h - every CUDA call goes through this.
 *
 * In a function that returns fa_status_t and has the parameter `fa_reason_t *why`: a call that fails ends
 * the function with FA_FAILED and one line that holds the error, the place and the expression. */
#ifndef FA_CUDA_CHECK_H
#define FA_CUDA_CHECK_H

#include "stage.h"

#define FA_CALL(type, success, text_of, call)                                                                \
  do {                                                                                                       \
    type fa_call_result_ = (call);                                                                           \
    if (fa_call_result_ != (success))                                                                        \
      return fa_say(why, FA_FAILED, "%s (%s:%d: %s)", text_of(fa_call_result_), __FILE__, __LINE__, #call);  \
  } while (0)

#define FA_CUDA(call) FA_CALL(cudaError_t, cudaSuccess, cudaGetErrorString, call)

#endif
