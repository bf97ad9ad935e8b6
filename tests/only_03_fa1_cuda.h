/* only_03_fa1_cuda.h - common/ptx/shape.h, compiled by the emulator's compiler, for tests in C. */
#ifndef ONLY_03_FA1_CUDA_H
#define ONLY_03_FA1_CUDA_H

#include "fa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the kernels compute for batch item b. */
typedef struct fa1_shape {
  int queries, keys, blind;
} fa1_shape_t;
fa1_shape_t fa1_shape(const fa_problem_t *p, int64_t b);
int fa1_visible(const fa_problem_t *p, int64_t b, int i);
int fa1_first_query(const fa_problem_t *p, int64_t b, int j);
int fa1_last_key(const fa_problem_t *p, int64_t b, int i0, int rows);

#ifdef __cplusplus
}
#endif
#endif
