/* cublas.cu - step `cublas`: the same kernels as step `cuda`, with cuBLAS in the place of the products, which
 * so run at the speed of the tensor cores. What remains is the traffic: the honest standard attention.
 *
 * cuBLAS multiplies a batch of matrices that lie one constant stride apart. A batch here has one entry per kv
 * head, and the query heads of its group lie below one another in one tall matrix, so that dK and dV sum over
 * the group by themselves:
 *
 *     Q of kv head 0 = | head 0, seq_q rows |      S of kv head 0 = | head 0: seq_q x seq_k |
 *     (group of 2)     | head 1, seq_q rows |                       | head 1: seq_q x seq_k |
 *
 * A tensor that does not lie like this, or is not aligned to 16 bytes, is copied first and results are copied
 * back: N d elements. S and dP are fp32: rounded to 16 bits, they would cost more accuracy than the rounding
 * of P and dS that every implementation has.
 *
 * A product cannot leave out what the mask hides, it multiplies by P = 0, and 0 * NaN is NaN. Kv heads where
 * that matters are marked, and done again by the kernels of products.cu, which select. */
#include "copies.cuh"
#include "products.h"
#include "softmax.h"
#include "gpu.h"

#if FA_HAVE_CUBLAS
#include "cublas_library.h"

/* Entries of one batch: some of cuBLAS's kernels put them on grid.z, which ends at 65,535. */
#define MOST_BATCH ((int64_t)32768)

namespace FA_KERNEL_NAMESPACE {

/* Row-major matrices, one per kv head. */
typedef struct operand {
  matrix_t m;
  int64_t ld, stride; /* elements between rows, and between kv heads */
  bool copied;        /* a twin of the caller's tensor, in the workspace */
} operand_t;

typedef struct plan {
  fa_dtype_t type; /* of what is multiplied, P and dS among it */
  operand_t q, k, v, o, d_o, dq, dk, dv, s, dp, p, ds;
  int64_t kv_heads;
  int *marked;
  char *base; /* NULL: only the size is wanted */
  size_t bytes;
} plan_t;

/* --- where everything lies -------------------------------------------------------------------------- */

static void *take(plan_t *x, double elements, size_t size) {
  void *at = x->base ? x->base + x->bytes : NULL;
  x->bytes += naive_aligned((size_t)elements * size);
  return at;
}

/* Does the caller's tensor lie as cuBLAS needs it? */
static bool fits(const fa_problem_t *p, const fa_tensor_t *t, int64_t heads, int64_t rows, int64_t dim,
                 size_t size, int64_t *stride) {
  const int64_t group = heads / p->heads_kv;
  *stride = heads > 1 ? group * t->stride_head : t->stride_batch;
  if (heads > 1 && p->batch > 1 && t->stride_batch != heads * t->stride_head) return false;
  if (group > 1 && t->stride_head != rows * t->stride_row) return false;
  const uintptr_t odd =
      (uintptr_t)t->data | (uintptr_t)(t->stride_row * (int64_t)size) | (uintptr_t)(*stride * (int64_t)size);
  return t->data && odd % 16 == 0 && t->stride_row >= dim && t->stride_row <= INT32_MAX;
}

/* The tensor itself, or room for a twin of type `twin`. */
static operand_t place(plan_t *x, const fa_problem_t *p, const fa_tensor_t *t, fa_dtype_t type,
                       fa_dtype_t twin, const extent_t &size, bool in_place) {
  operand_t r = {{*t, type}, t->stride_row, 0, false};
  if (in_place && fits(p, t, size.heads, size.rows, size.cols, fa_dtype_size(type), &r.stride)) return r;
  const int64_t ld = (size.cols + 7) / 8 * 8, head = size.rows * ld;
  void *data = take(x, (double)p->batch * (double)size.heads * (double)head, fa_dtype_size(twin));
  return {{{data, size.heads * head, head, ld}, twin}, ld, size.heads / p->heads_kv * head, true};
}

static operand_t place_input(plan_t *x, const fa_problem_t *p, const fa_tensor_t *t, fa_dtype_t type,
                             const extent_t &size) {
  bool absent_rows = size.of_keys && p->kv_len; /* they may hold NaN: the twin has 0 there */
  return place(x, p, t, type, x->type, size, type == x->type && !absent_rows);
}

/* cuBLAS writes its inputs' type or fp32; a twin is fp32, so that results are rounded once. */
static operand_t place_output(plan_t *x, const fa_problem_t *p, const fa_tensor_t *t, fa_dtype_t type,
                              const extent_t &size) {
  return place(x, p, t, type, FA_FP32, size, type == x->type || type == FA_FP32);
}

static operand_t place_scores(plan_t *x, const fa_problem_t *p, fa_dtype_t type) {
  const int64_t pitch = score_pitch(p->seq_k), head = p->seq_q * pitch, group = p->heads_q / p->heads_kv;
  void *data = take(x, (double)x->kv_heads * (double)group * (double)head, fa_dtype_size(type));
  return {{{data, p->heads_q * head, head, pitch}, type}, pitch, group * head, false};
}

static extent_t of_queries(const fa_problem_t *p, int64_t dim) {
  return {p->heads_q, p->seq_q, dim, false};
}
static extent_t of_keys(const fa_problem_t *p, int64_t dim) {
  return {p->heads_kv, p->seq_k, dim, true};
}

static plan_t make_plan(const fa_problem_t *p, fa_pass_t pass, void *workspace) {
  plan_t x = {};
  x.base = (char *)workspace;
  x.kv_heads = p->batch * p->heads_kv;
  /* dO has the type of O. Where that is another than V's, dO V^T and all else backward is done in fp32. */
  x.type = pass == FA_BACKWARD && p->dtype_out != p->dtype ? FA_FP32 : p->dtype;
  const int64_t d = p->head_dim, d_v = p->head_dim_v;
  x.marked = (int *)take(&x, (double)x.kv_heads, sizeof(int));
  x.s = place_scores(&x, p, FA_FP32);
  x.p = place_scores(&x, p, x.type);
  x.q = place_input(&x, p, &p->q, p->dtype, of_queries(p, d));
  x.k = place_input(&x, p, &p->k, p->dtype, of_keys(p, d));
  x.v = place_input(&x, p, &p->v, p->dtype, of_keys(p, d_v));
  if (pass == FA_FORWARD) {
    x.o = place_output(&x, p, &p->o, p->dtype_out, of_queries(p, d_v));
    return x;
  }
  x.dp = place_scores(&x, p, FA_FP32);
  x.ds = place_scores(&x, p, x.type);
  x.d_o = place_input(&x, p, &p->d_o, p->dtype_out, of_queries(p, d_v));
  x.dq = place_output(&x, p, &p->dq, p->dtype, of_queries(p, d));
  x.dk = place_output(&x, p, &p->dk, p->dtype, of_keys(p, d));
  x.dv = place_output(&x, p, &p->dv, p->dtype, of_keys(p, d_v));
  return x;
}

static size_t workspace_size(const fa_problem_t *p, fa_pass_t pass) {
  return make_plan(p, pass, NULL).bytes;
}

static fa_status_t copy_in(const fa_problem_t *p, const operand_t &x, matrix_t from, extent_t size,
                           fa_reason_t *why) {
  return x.copied ? launch_copy(p, from, x.m, size, why) : FA_OK;
}

static fa_status_t copy_out(const fa_problem_t *p, const operand_t &x, matrix_t to, extent_t size,
                            fa_reason_t *why) {
  size.of_keys = false; /* products have already written 0 for absent keys */
  return x.copied ? launch_copy(p, x.m, to, size, why) : FA_OK;
}

/* --- cuBLAS ----------------------------------------------------------------------------------------- */

/* The library and a handle: one per host thread, made at the first use, and a new handle when the thread has
 * changed to another GPU. It ends with its thread: a handle has a workspace of some MB on the GPU. */
typedef struct blas {
  cublas_library_t functions;
  cublasHandle_t handle;
  bool loaded, made;
  int device;
  ~blas() {
    if (made) functions.cublasDestroy_v2(handle); /* nobody is left to be told if it fails */
  }
} blas_t;

static fa_status_t open_blas(const fa_problem_t *p, blas_t **blas, fa_reason_t *why) {
  static thread_local blas_t x;
  const cublas_library_t &library = x.functions;
  int device = 0, major = 0;
  FA_CUDA(cudaGetDevice(&device));
  FA_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  if (p->dtype == FA_BF16 && major < 8)
    return fa_say(why, FA_REFUSED,
                  "01_naive, step cublas: cuBLAS multiplies bf16 from sm_80 on, not on sm_%dx", major);
  fa_status_t status = x.loaded ? FA_OK : open_cublas(&x.functions, why);
  if (status) return status;
  x.loaded = true;
  if (x.made && x.device != device) {
    x.made = false;
    FA_CUBLAS(cublasDestroy_v2(x.handle));
  }
  if (!x.made) {
    FA_CUBLAS(cublasCreate_v2(&x.handle));
    x.made = true;
    x.device = device;
    /* Partial sums of a product that is split along its depth are added in fp32, not in 16 bits. */
    FA_CUBLAS(cublasSetMathMode(
        x.handle, (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)));
  }
  FA_CUBLAS(cublasSetStream_v2(x.handle, (cudaStream_t)p->stream));
  *blas = &x;
  return FA_OK;
}

static cudaDataType_t cuda_type(fa_dtype_t t) {
  return t == FA_FP16 ? CUDA_R_16F : t == FA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static operand_t from_head(operand_t x, int64_t kv_head) {
  x.m.at.data = (char *)x.m.at.data + kv_head * x.stride * (int64_t)fa_dtype_size(x.m.dtype);
  return x;
}

/* C = factor * A B for `count` kv heads from the operands' first on; kinds and sizes as in products.h.
 * cuBLAS stores matrices by columns. Our row-major C is its C^T = B^T A^T, so A and B change places. */
template <product_t KIND>
static fa_status_t gemm(const fa_problem_t *p, const blas_t *blas, operand_t a, operand_t b, operand_t c,
                        int64_t dim, float factor, int64_t count, fa_reason_t *why) {
  product_sizes_t size = sizes_of(p, KIND, dim);
  const int64_t group = p->heads_q / p->heads_kv;
  (KIND == SCORES_T_BY_ROWS ? size.depth : size.rows) *= group;
  if (size.rows == 0 || size.cols == 0 || size.depth == 0) return FA_OK;
  const cublasOperation_t of_b = KIND == ROWS_BY_ROWS ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t of_a = KIND == SCORES_T_BY_ROWS ? CUBLAS_OP_T : CUBLAS_OP_N;
  /* fp32 inputs are multiplied in fp32, not in TF32. */
  const cublasComputeType_t compute = a.m.dtype == FA_FP32 ? CUBLAS_COMPUTE_32F_PEDANTIC : CUBLAS_COMPUTE_32F;
  const cublas_library_t &library = blas->functions;
  const float beta = 0;
  for (int64_t first = 0; first < count; first += MOST_BATCH) {
    const int64_t n = count - first < MOST_BATCH ? count - first : MOST_BATCH;
    const operand_t a_n = from_head(a, first), b_n = from_head(b, first), c_n = from_head(c, first);
    FA_CUBLAS(cublasGemmStridedBatchedEx(blas->handle, of_b, of_a, (int)size.cols, (int)size.rows,
                                         (int)size.depth, &factor, b_n.m.at.data, cuda_type(b.m.dtype),
                                         (int)b.ld, b.stride, a_n.m.at.data, cuda_type(a.m.dtype), (int)a.ld,
                                         a.stride, &beta, c_n.m.at.data, cuda_type(c.m.dtype), (int)c.ld,
                                         c.stride, (int)n, compute, CUBLAS_GEMM_DEFAULT));
  }
  return FA_OK;
}

/* --- the passes ------------------------------------------------------------------------------------- */

/* cuBLAS leaves the columns between seq_k and the pitch as they were. The softmax kernel loads them with their
 * neighbours, and hides them; nothing should be loaded that was never written. */
static fa_status_t clear_padding(const fa_problem_t *p, const operand_t &scores, fa_reason_t *why) {
  const int64_t pitch = score_pitch(p->seq_k), rows = p->batch * p->heads_q * p->seq_q;
  if (pitch == p->seq_k || rows == 0) return FA_OK;
  float *first = (float *)scores.m.at.data + p->seq_k;
  FA_CUDA(cudaMemset2DAsync(first, (size_t)pitch * sizeof *first, 0,
                            (size_t)(pitch - p->seq_k) * sizeof *first, (size_t)rows,
                            (cudaStream_t)p->stream));
  return FA_OK;
}

/* S, in the backward pass dP, and softmax. */
static fa_status_t do_scores(const fa_problem_t *p, fa_pass_t pass, const blas_t *blas, const plan_t &x,
                             fa_reason_t *why) {
  const softmax_data_t rows = {(const float *)x.s.m.at.data,
                               (const float *)x.dp.m.at.data,
                               x.p.m.at.data,
                               x.ds.m.at.data,
                               x.type,
                               x.marked};
  const bool backward = pass == FA_BACKWARD;
  fa_status_t status = clear_padding(p, x.s, why);
  if (!status && backward) status = clear_padding(p, x.dp, why);
  if (!status) status = gemm<ROWS_BY_ROWS>(p, blas, x.q, x.k, x.s, p->head_dim, 1, x.kv_heads, why);
  if (!status && backward)
    status = gemm<ROWS_BY_ROWS>(p, blas, x.d_o, x.v, x.dp, p->head_dim_v, 1, x.kv_heads, why);
  return status ? status : launch_softmax(p, pass, &rows, why);
}

static bool is_masked(const fa_problem_t *p) {
  return p->causal || p->kv_len;
}

static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  const plan_t x = make_plan(p, FA_FORWARD, p->workspace);
  const matrix_t q = {p->q, p->dtype}, k = {p->k, p->dtype}, v = {p->v, p->dtype}, o = {p->o, p->dtype_out};
  const extent_t q_size = of_queries(p, p->head_dim), k_size = of_keys(p, p->head_dim),
                 v_size = of_keys(p, p->head_dim_v), o_size = of_queries(p, p->head_dim_v);
  blas_t *blas = NULL;
  fa_status_t status = open_blas(p, &blas, why);

  const bool all = p->seq_k == 0; /* nothing to multiply: the other kernels write the zeros */
  if (!status) status = launch_set_marks(p, x.marked, all, why);
  if (!status && is_masked(p)) status = launch_mark(p, v, v_size, x.marked, why);
  if (!status) status = copy_in(p, x.q, q, q_size, why);
  if (!status) status = copy_in(p, x.k, k, k_size, why);
  if (!status) status = copy_in(p, x.v, v, v_size, why);

  if (!status) status = do_scores(p, FA_FORWARD, blas, x, why);
  if (!status) status = gemm<SCORES_BY_ROWS>(p, blas, x.p, x.v, x.o, p->head_dim_v, 1, x.kv_heads, why);
  if (!status) status = copy_out(p, x.o, o, o_size, why);
  if (!status) status = launch_product(p, SCORES_BY_ROWS, x.p.m, v, o, p->head_dim_v, 1, x.marked, why);
  return status;
}

static fa_status_t backward(const fa_problem_t *p, fa_reason_t *why) {
  const plan_t x = make_plan(p, FA_BACKWARD, p->workspace);
  const matrix_t q = {p->q, p->dtype}, k = {p->k, p->dtype}, v = {p->v, p->dtype},
                 d_o = {p->d_o, p->dtype_out};
  const matrix_t dq = {p->dq, p->dtype}, dk = {p->dk, p->dtype}, dv = {p->dv, p->dtype};
  const int64_t d = p->head_dim, d_v = p->head_dim_v;
  const extent_t q_size = of_queries(p, d), k_size = of_keys(p, d), v_size = of_keys(p, d_v),
                 o_size = of_queries(p, d_v);
  blas_t *blas = NULL;
  fa_status_t status = open_blas(p, &blas, why);

  /* A factor of 0 makes cuBLAS skip the product, and with it every NaN. */
  const bool all = p->seq_k == 0 || p->seq_q == 0 || p->scale == 0;
  if (!status) status = launch_set_marks(p, x.marked, all, why);
  if (!status && is_masked(p)) status = launch_mark(p, q, q_size, x.marked, why);
  if (!status && is_masked(p)) status = launch_mark(p, k, k_size, x.marked, why);
  if (!status && is_masked(p)) status = launch_mark(p, d_o, o_size, x.marked, why);
  if (!status) status = copy_in(p, x.q, q, q_size, why);
  if (!status) status = copy_in(p, x.k, k, k_size, why);
  if (!status) status = copy_in(p, x.v, v, v_size, why);
  if (!status) status = copy_in(p, x.d_o, d_o, o_size, why);

  if (!status) status = do_scores(p, FA_BACKWARD, blas, x, why);
  if (!status) status = gemm<SCORES_T_BY_ROWS>(p, blas, x.p, x.d_o, x.dv, d_v, 1, x.kv_heads, why);
  if (!status) status = gemm<SCORES_BY_ROWS>(p, blas, x.ds, x.k, x.dq, d, p->scale, x.kv_heads, why);
  if (!status) status = gemm<SCORES_T_BY_ROWS>(p, blas, x.ds, x.q, x.dk, d, p->scale, x.kv_heads, why);
  if (!status) status = copy_out(p, x.dv, dv, v_size, why);
  if (!status) status = copy_out(p, x.dq, dq, q_size, why);
  if (!status) status = copy_out(p, x.dk, dk, k_size, why);

  if (!status) status = launch_product(p, SCORES_T_BY_ROWS, x.p.m, d_o, dv, d_v, 1, x.marked, why);
  if (!status) status = launch_product(p, SCORES_BY_ROWS, x.ds.m, k, dq, d, p->scale, x.marked, why);
  if (!status) status = launch_product(p, SCORES_T_BY_ROWS, x.ds.m, q, dk, d, p->scale, x.marked, why);
  return status;
}

} // namespace FA_KERNEL_NAMESPACE

#else

namespace FA_KERNEL_NAMESPACE {

static size_t workspace_size(const fa_problem_t *, fa_pass_t) {
  return 0;
}
static fa_status_t forward(const fa_problem_t *, fa_reason_t *why) {
  return fa_say(why, FA_REFUSED, "01_naive, step cublas: this build was made without cuBLAS");
}
static fa_status_t backward(const fa_problem_t *p, fa_reason_t *why) {
  return forward(p, why);
}

} // namespace FA_KERNEL_NAMESPACE
#endif

extern "C" {
extern const fa_kernels_t FA_KERNEL_TABLE(naive_cublas);
const fa_kernels_t FA_KERNEL_TABLE(naive_cublas) = {
    FA_KERNEL_NAMESPACE::workspace_size, FA_KERNEL_NAMESPACE::forward, FA_KERNEL_NAMESPACE::backward};
}
