/* gpu.h - what stage.c, the GPU steps of this stage and their tests share. */
#ifndef NAIVE_GPU_H
#define NAIVE_GPU_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parts of the workspace begin at multiples of this. */
#define NAIVE_ALIGNMENT ((size_t)256)
static inline size_t naive_aligned(size_t bytes) {
  return (bytes + NAIVE_ALIGNMENT - 1) / NAIVE_ALIGNMENT * NAIVE_ALIGNMENT;
}

/* FA_OK, or FA_REFUSED: what the steps `cuda` and `cublas` cannot do beyond what the whole stage cannot. */
fa_status_t naive_gpu_supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass,
                               fa_reason_t *why);

#ifdef __cplusplus
}
#endif
#endif
