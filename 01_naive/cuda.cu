/* cuda.cu - step `cuda`: standard attention as kernels that each do one thing (FlashAttention paper,
 * Algorithm 0; backward: Algorithm 3).
 *
 *   forward                                       backward
 *   kernel 1   S = Q K^T                          kernel 1   S  = Q K^T
 *   kernel 2   P = softmax(scale S), LSE          kernel 2   dP = dO V^T
 *   kernel 3   O = P V                            kernel 3   P  = softmax(scale S), dS = P o (dP - D)
 *                                                 kernel 4   dV = P^T dO
 *                                                 kernel 5   dQ = scale dS K
 *                                                 kernel 6   dK = scale dS^T Q
 *
 * Every arrow between two kernels is an N x N matrix per head in global memory:
 *
 *   S, dP    fp32            [batch][heads_q][seq_q][pitch]      pitch = seq_k rounded up to 8
 *   P, dS    the problem's   [batch][heads_q][seq_q][pitch]
 *
 * Sums are fp32. Run it beside `cublas` to see what tensor cores change, and what they do not. */
#include "products.h"
#include "softmax.h"
#include "gpu.h"

namespace FA_KERNEL_NAMESPACE {

/* The N x N matrices in the workspace, as tensors. */
typedef struct scores {
  matrix_t s, dp, p, ds;
  size_t bytes;
} scores_t;

static matrix_t next_matrix(const fa_problem_t *p, fa_dtype_t dtype, char *base, size_t *used) {
  const int64_t pitch = score_pitch(p->seq_k), head = p->seq_q * pitch;
  const matrix_t m = {{base ? base + *used : NULL, p->heads_q * head, head, pitch}, dtype};
  *used += naive_aligned((size_t)(p->batch * p->heads_q * head) * fa_dtype_size(dtype));
  return m;
}

static scores_t lay_out(const fa_problem_t *p, fa_pass_t pass, void *workspace) {
  scores_t x = {};
  x.s = next_matrix(p, FA_FP32, (char *)workspace, &x.bytes);
  x.p = next_matrix(p, p->dtype, (char *)workspace, &x.bytes);
  if (pass == FA_BACKWARD) {
    x.dp = next_matrix(p, FA_FP32, (char *)workspace, &x.bytes);
    x.ds = next_matrix(p, p->dtype, (char *)workspace, &x.bytes);
  }
  return x;
}

static size_t workspace_size(const fa_problem_t *p, fa_pass_t pass) {
  return lay_out(p, pass, NULL).bytes;
}

static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  const scores_t x = lay_out(p, FA_FORWARD, p->workspace);
  const matrix_t q = {p->q, p->dtype}, k = {p->k, p->dtype}, v = {p->v, p->dtype}, o = {p->o, p->dtype_out};
  const softmax_data_t rows = {(const float *)x.s.at.data, NULL, x.p.at.data, NULL, p->dtype, NULL};

  fa_status_t status = launch_product(p, ROWS_BY_ROWS, q, k, x.s, p->head_dim, 1, NULL, why);
  if (!status) status = launch_softmax(p, FA_FORWARD, &rows, why);
  if (!status) status = launch_product(p, SCORES_BY_ROWS, x.p, v, o, p->head_dim_v, 1, NULL, why);
  return status;
}

static fa_status_t backward(const fa_problem_t *p, fa_reason_t *why) {
  const scores_t x = lay_out(p, FA_BACKWARD, p->workspace);
  const matrix_t q = {p->q, p->dtype}, k = {p->k, p->dtype}, v = {p->v, p->dtype};
  const matrix_t d_o = {p->d_o, p->dtype_out}, dq = {p->dq, p->dtype}, dk = {p->dk, p->dtype},
                 dv = {p->dv, p->dtype};
  const softmax_data_t rows = {
      (const float *)x.s.at.data, (const float *)x.dp.at.data, x.p.at.data, x.ds.at.data, p->dtype, NULL};
  const int64_t d = p->head_dim, d_v = p->head_dim_v;

  fa_status_t status = launch_product(p, ROWS_BY_ROWS, q, k, x.s, d, 1, NULL, why);
  if (!status) status = launch_product(p, ROWS_BY_ROWS, d_o, v, x.dp, d_v, 1, NULL, why);
  if (!status) status = launch_softmax(p, FA_BACKWARD, &rows, why);
  if (!status) status = launch_product(p, SCORES_T_BY_ROWS, x.p, d_o, dv, d_v, 1, NULL, why);
  if (!status) status = launch_product(p, SCORES_BY_ROWS, x.ds, k, dq, d, p->scale, NULL, why);
  if (!status) status = launch_product(p, SCORES_T_BY_ROWS, x.ds, q, dk, d, p->scale, NULL, why);
  return status;
}

} // namespace FA_KERNEL_NAMESPACE

extern "C" {
extern const fa_kernels_t FA_KERNEL_TABLE(naive_cuda);
const fa_kernels_t FA_KERNEL_TABLE(naive_cuda) = {
    FA_KERNEL_NAMESPACE::workspace_size, FA_KERNEL_NAMESPACE::forward, FA_KERNEL_NAMESPACE::backward};
}
