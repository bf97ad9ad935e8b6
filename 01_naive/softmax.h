/* softmax.h - the kernels between the products (softmax.cu), which do almost no arithmetic and move almost all
 * bytes. */
#ifndef NAIVE_SOFTMAX_H
#define NAIVE_SOFTMAX_H

#include "ptx/launch.h"

namespace FA_KERNEL_NAMESPACE {

/* Rows of an N x N matrix are a multiple of 8 elements apart, so that 4 neighbours can be loaded at once. */
FA_HD static inline int64_t score_pitch(int64_t seq_k) {
  return (seq_k + 7) / 8 * 8;
}

/* N x N matrices [batch x heads_q][seq_q][score_pitch]. */
typedef struct softmax_data {
  const float *s, *dp; /* dp: backward */
  void *prob, *ds;     /* ds: backward */
  fa_dtype_t dtype;    /* of prob and ds */
  int *marked;         /* NULL, or a flag per kv head: set to 1 where a query sees keys, but nothing except
                          scores of -inf. It is treated like a query that sees none. */
} softmax_data_t;

/* Forward: P = softmax(scale S) and LSE. Backward: P = softmax(scale S) again, dS = P o (dP - D), with D the
 * row sums of P o dP. Hidden keys get 0, whatever S and dP hold there. */
fa_status_t launch_softmax(const fa_problem_t *p, fa_pass_t pass, const softmax_data_t *x, fa_reason_t *why);

} // namespace FA_KERNEL_NAMESPACE
#endif
