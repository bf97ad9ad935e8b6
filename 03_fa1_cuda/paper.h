/* paper.h - step `paper`: its two kernels' launchers, and what they keep in the workspace. */
#ifndef FA1_PAPER_H
#define FA1_PAPER_H

#include "config.h"
#include "stage.h"
#include "ptx/launch.h"

namespace FA_KERNEL_NAMESPACE {

fa_status_t paper_forward(const fa_problem_t *p, fa_reason_t *why);
fa_status_t paper_backward(const fa_problem_t *p, fa_reason_t *why);

/* Forward: O [batch][heads_q][seq_q][d], l and m [batch][heads_q][seq_q]. Backward: dQ, like O. All fp32. */
static inline size_t paper_workspace(const fa_problem_t *p, fa_pass_t pass) {
  const size_t rows = (size_t)(p->batch * p->heads_q * p->seq_q);
  return rows * sizeof(float) * ((size_t)p->head_dim + (pass == FA_FORWARD ? 2 : 0));
}

} // namespace FA_KERNEL_NAMESPACE
#endif
