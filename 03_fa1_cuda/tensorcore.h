/* tensorcore.h - step `tensorcore`: what its files and their launchers share on the host's side. */
#ifndef FA1_TENSORCORE_H
#define FA1_TENSORCORE_H

#include "fa1.h"
#include "ptx/limits.h"

namespace FA_KERNEL_NAMESPACE {

/* Bc = 0: the largest block of keys for which shared memory is made (config.h). */
fa_status_t tensorcore_forward(const fa_problem_t *p, int Bc, fa_reason_t *why);
fa_status_t tensorcore_backward(const fa_problem_t *p, int Bc, fa_reason_t *why);

size_t tensorcore_workspace(const fa_problem_t *p, fa_pass_t pass);
size_t backward_workspace(const fa_problem_t *p);

/* Rows of a head rounded up to whole blocks: what the workspace holds in registers' order has no partial blocks. */
FA_HD static inline int64_t whole_rows(int64_t rows, int block) {
  return (rows + block - 1) / block * block;
}

/* Do all rows of a tensor of 16-bit elements begin at multiples of `bytes`? */
static inline bool rows_aligned(const fa_tensor_t *t, int64_t bytes) {
  return ((int64_t)(uintptr_t)t->data | t->stride_batch * 2 | t->stride_head * 2 | t->stride_row * 2) %
             bytes ==
         0;
}

} // namespace FA_KERNEL_NAMESPACE
#endif
