/* fa.h - the attention problem and the C interface, the same for every stage.
 *
 * One struct says what is to be computed; four functions compute it. This header is all that a
 * program needs to use build/libNAME.so, and it compiles as C11, C++17 and CUDA.
 *
 *   S = scale Q K^T     P = softmax(S)     O = P V     LSE = log sum_j exp(S_ij)   (natural log)
 *
 * Papers: FlashAttention 2205.14135, -2 2307.08691, -3 2407.08608, -4 2603.05451.
 */
#ifndef FA_H
#define FA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "do not build with -ffast-math: it lets the compiler drop the tests for infinity and NaN"
#endif

#ifdef __CUDACC__
#define FA_HD __host__ __device__
#else
#define FA_HD
#endif
#define FA_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

#define FA_VERSION "0.1.0"

/* 16- and 8-bit numbers are distinct types, so that no overload and no cast confuses them. */
typedef struct {
  uint16_t bits;
} fp16_t;
typedef struct {
  uint16_t bits;
} bf16_t;
typedef struct {
  uint8_t bits;
} e4m3_t;

typedef enum fa_dtype { FA_FP32, FA_FP16, FA_BF16, FA_E4M3, FA_DTYPES } fa_dtype_t;
typedef enum fa_device { FA_CPU, FA_GPU, FA_EMU, FA_DEVICES } fa_device_t;
typedef enum fa_pass { FA_FORWARD, FA_BACKWARD, FA_PASSES } fa_pass_t;

/* A status is also the exit status of every program of this project. */
typedef enum fa_status {
  FA_OK = 0,
  FA_FAILED = 1,  /* a check failed, or the machine failed while it ran */
  FA_INVALID = 2, /* wrong usage or input: no stage could do this */
  FA_REFUSED = 3  /* not offered here: feature, shape, memory or hardware; outputs untouched */
} fa_status_t;

/* One line that says why; filled whenever the status is not FA_OK. */
typedef struct fa_reason {
  char text[256];
} fa_reason_t;

/* A tensor [batch][heads][rows][dim]. Strides count elements; the last dimension is contiguous.
 * An input's stride may be 0 (broadcast); an output's elements must not overlap, and no output may share
 * an element with another tensor: where one certainly does, the call is FA_INVALID; tensors may lie in one another's
 * gaps. data begins at a multiple of an element's size. */
typedef struct fa_tensor {
  void *data;
  int64_t stride_batch, stride_head, stride_row;
} fa_tensor_t;

/* E4M3 only: value = stored number * descale. The factor of row r of head h in batch b is
 *
 *     data[b * stride_batch + h * stride_head + r / block_rows]      (block_rows 0: one per head)
 *
 *     head h:  | rows 0 .. block_rows-1 | rows block_rows .. | ...     each block has one factor
 *
 * data NULL means a factor of 1 everywhere. h counts the tensor's own heads. */
typedef struct fa_descale {
  const float *data;
  int64_t stride_batch, stride_head, block_rows;
} fa_descale_t;

typedef struct fa_problem {
  int64_t batch;
  int64_t heads_q; /* a multiple of heads_kv; query head h reads kv head h / (heads_q / heads_kv) */
  int64_t heads_kv;
  int64_t seq_q, seq_k;
  int64_t head_dim, head_dim_v;
  fa_dtype_t dtype;     /* of Q, K, V, dQ, dK, dV */
  fa_dtype_t dtype_out; /* of O and dO: fp32, fp16 or bf16 */

  /* Causal is aligned to the last key: query i sees keys j <= i + (kv - seq_q), where kv is kv_len[b]
   * if given and seq_k otherwise. With seq_q = 2 and kv = 5, and with seq_q = 4 and kv = 2:
   *
   *            keys 0 1 2 3 4                    keys 0 1
   *   query 0       x x x x .           query 0       . .    sees no key: O = 0, LSE = -inf,
   *   query 1       x x x x x           query 1       . .    and all its gradients are 0
   *                                     query 2       x .
   *                                     query 3       x x                                        */
  bool causal;
  float scale; /* multiplies Q K^T; 0 and negative values mean what they say */

  const int32_t *kv_len; /* NULL, or [batch]: valid rows of K and V, taken within 0 .. seq_k.
                            What lies beyond may hold anything, NaN too, and never leaks. */

  fa_tensor_t q;   /* [batch][heads_q ][seq_q][head_dim  ] */
  fa_tensor_t k;   /* [batch][heads_kv][seq_k][head_dim  ] */
  fa_tensor_t v;   /* [batch][heads_kv][seq_k][head_dim_v] */
  fa_tensor_t o;   /* [batch][heads_q ][seq_q][head_dim_v]  written by forward, read by backward */
  float *lse;      /* [batch][heads_q ][seq_q] contiguous    written by forward, read by backward */
  fa_tensor_t d_o; /* like o; the gradient that comes in */
  fa_tensor_t dq;  /* like q */
  fa_tensor_t dk;  /* like k; rows beyond kv_len get 0 */
  fa_tensor_t dv;  /* like v; rows beyond kv_len get 0 */
  fa_descale_t descale_q, descale_k, descale_v;

  bool deterministic;    /* ask for bit-equal results from run to run */
  int splits;            /* key splits for decoding; 0: the stage chooses */
  void *workspace;       /* fa_workspace_size() bytes, aligned to 256; contents need not be kept */
  size_t workspace_size; /* between forward and backward */
  void *stream;          /* a cudaStream_t on the GPU, otherwise unused */
} fa_problem_t;

/* Pointers are device pointers for FA_GPU, and host pointers for FA_CPU and FA_EMU.
 * `step` names a step of the stage; NULL takes the last one marked main that supports the problem.
 * FA_EMU works on a copy of them, and takes one call at a time.
 * All four are safe to call with anything: what is not offered is refused before any work starts. Several
 * threads may call them at once, each with its own outputs and workspace.
 * fa_workspace_size gives 0 for what is refused or invalid, too: fa_supports tells the two apart. */
FA_API fa_status_t fa_supports(const fa_problem_t *p, const char *step, fa_pass_t pass, fa_device_t device,
                               fa_reason_t *why);
FA_API size_t fa_workspace_size(const fa_problem_t *p, const char *step, fa_pass_t pass, fa_device_t device);
FA_API fa_status_t fa_forward(const fa_problem_t *p, const char *step, fa_device_t device, fa_reason_t *why);
FA_API fa_status_t fa_backward(const fa_problem_t *p, const char *step, fa_device_t device, fa_reason_t *why);

/* sizeof(fa_problem_t), so that a caller in another language can check its own copy of the struct. */
FA_API size_t fa_problem_size(void);

/* 1/sqrt(head_dim), the usual scale. */
FA_API float fa_default_scale(int64_t head_dim);

/* Keys of batch item b that exist: kv_len[b] within 0 .. seq_k, or seq_k. */
FA_HD static inline int64_t fa_keys(const fa_problem_t *p, int64_t b) {
  int64_t n = p->kv_len ? p->kv_len[b] : p->seq_k;
  return n < 0 ? 0 : n > p->seq_k ? p->seq_k : n;
}

/* How many keys query i sees (keys 0 .. result-1), given keys = fa_keys(p, b). */
FA_HD static inline int64_t fa_visible(const fa_problem_t *p, int64_t keys, int64_t i) {
  if (!p->causal) return keys;
  int64_t n = i + (keys - p->seq_q) + 1;
  return n < 0 ? 0 : n > keys ? keys : n;
}

/* The first query that sees key j (seq_q if none does), given keys = fa_keys(p, b) and j < keys. */
FA_HD static inline int64_t fa_first_query(const fa_problem_t *p, int64_t keys, int64_t j) {
  if (!p->causal) return 0;
  int64_t i = j - (keys - p->seq_q);
  return i < 0 ? 0 : i > p->seq_q ? p->seq_q : i;
}

/* The kv head that query head h reads. */
FA_HD static inline int64_t fa_kv_head(const fa_problem_t *p, int64_t h) {
  return h / (p->heads_q / p->heads_kv);
}

/* Element offset of row (b, h, r). */
FA_HD static inline int64_t fa_row(const fa_tensor_t *t, int64_t b, int64_t h, int64_t r) {
  return b * t->stride_batch + h * t->stride_head + r * t->stride_row;
}

#ifdef __cplusplus
}
#endif
#endif
