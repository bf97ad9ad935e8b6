/* cpu.c - step `cpu`: standard attention as three loops over stored matrices (FlashAttention paper,
 * Algorithm 0; backward: Algorithm 3).
 *
 *   kernel 1   S = scale Q K^T      reads Q, K       writes S  [batch][heads_q][seq_q][seq_k]
 *   kernel 2   P = softmax(S)       reads S          writes P  [batch][heads_q][seq_q][seq_k]
 *   kernel 3   O = P V              reads P, V       writes O
 *
 * S and P are the point of this stage: they are seq_q x seq_k for every head, they go to main memory and
 * come back, and for long sequences they do not fit at all.
 *
 * Keys that a query may not see are left out of every loop rather than multiplied by 0, so that a NaN in a
 * hidden key stays hidden. */
#include "stage.h"
#include "count.h"

#include <math.h>

/* Which matrix of the workspace, and its row (b, h, i). */
enum { S_OR_DP = 0, P_MATRIX = 1, MATRICES = 2 };

static float *matrix_row(const fa_problem_t *p, int matrix, int64_t b, int64_t h, int64_t i) {
  int64_t row = ((matrix * p->batch + b) * p->heads_q + h) * p->seq_q + i;
  return (float *)p->workspace + row * p->seq_k;
}

static size_t workspace_size(const fa_problem_t *p, fa_pass_t pass) {
  (void)pass; /* forward: S and P; backward: P, and dP which becomes dS in place */
  return sizeof(float) * MATRICES * (size_t)p->batch * (size_t)p->heads_q * (size_t)p->seq_q *
         (size_t)p->seq_k;
}

static const float *row_of(const fa_tensor_t *t, int64_t b, int64_t h, int64_t r) {
  return (const float *)t->data + fa_row(t, b, h, r);
}

static float *out_row(const fa_tensor_t *t, int64_t b, int64_t h, int64_t r) {
  return (float *)t->data + fa_row(t, b, h, r);
}

static float dot(const float *x, const float *y, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < n; c++) sum += x[c] * y[c];
  return sum;
}

/* y += a x */
static void add_scaled(float *y, float a, const float *x, int64_t n) {
  for (int64_t c = 0; c < n; c++) y[c] += a * x[c];
}

static void clear(float *y, int64_t n) {
  for (int64_t c = 0; c < n; c++) y[c] = 0;
}

/* All loops over query rows look alike: rows of all heads of all batch items, dealt to the threads. Causal
 * rows differ in length, so they are dealt a few at a time. */
#define FOR_EACH_QUERY_ROW                                                                                   \
  _Pragma("omp parallel for collapse(3) schedule(dynamic, 16)") for (int64_t b = 0; b < p->batch;            \
                                                                     b++) for (int64_t h = 0;                \
                                                                               h < p->heads_q;               \
                                                                               h++) for (int64_t i = 0;      \
                                                                                         i < p->seq_q; i++)

/* out_ij = factor * x_i . y_j for the keys j that i sees: S from (Q, K), and dP from (dO, V). */
static void multiply_transposed(const fa_problem_t *p, const fa_tensor_t *x, const fa_tensor_t *y,
                                int64_t dim, float factor, int matrix) {
  FOR_EACH_QUERY_ROW {
    const float *x_i = row_of(x, b, h, i);
    float *out = matrix_row(p, matrix, b, h, i);
    int64_t n = fa_visible(p, fa_keys(p, b), i);
    for (int64_t j = 0; j < n; j++) out[j] = factor * dot(x_i, row_of(y, b, fa_kv_head(p, h), j), dim);
  }
}

/* P_i = softmax(S_i), LSE_i = m + ln l. The maximum keeps exp from overflowing. */
static void softmax(const fa_problem_t *p) {
  FOR_EACH_QUERY_ROW {
    const float *S = matrix_row(p, S_OR_DP, b, h, i);
    float *P = matrix_row(p, P_MATRIX, b, h, i);
    int64_t n = fa_visible(p, fa_keys(p, b), i);
    /* BEGIN SOLUTION */
    /* STUB: (void)S, (void)P, (void)n; */
    float m = -INFINITY, l = 0;
    for (int64_t j = 0; j < n; j++) m = S[j] > m ? S[j] : m;
    float shift = m == -INFINITY ? 0 : m; /* no key, or only -inf: exp(-inf - 0) is 0, not NaN */
    for (int64_t j = 0; j < n; j++) l += P[j] = expf(S[j] - shift);
    bool empty = l == 0;
    for (int64_t j = 0; j < n; j++) P[j] = empty ? 0 : P[j] / l;
    p->lse[(b * p->heads_q + h) * p->seq_q + i] = empty ? -INFINITY : m + logf(l);
    /* END SOLUTION */
  }
}

/* P again, from S and the LSE that the forward pass kept. LSE was rounded to fp32: for logits of several
 * hundred all of a row is off by 3e-5, and dP - D below would no longer cancel, so the sum is made 1. */
static void probabilities_from_lse(const fa_problem_t *p) {
  FOR_EACH_QUERY_ROW {
    const float *S = matrix_row(p, S_OR_DP, b, h, i);
    float *P = matrix_row(p, P_MATRIX, b, h, i);
    float lse = p->lse[(b * p->heads_q + h) * p->seq_q + i];
    int64_t n = fa_visible(p, fa_keys(p, b), i);
    float sum = 0;
    for (int64_t j = 0; j < n; j++) sum += P[j] = lse == -INFINITY ? 0 : expf(S[j] - lse);
    for (int64_t j = 0; j < n; j++) P[j] = lse == -INFINITY ? 0 : P[j] / sum;
  }
}

/* dS_ij = P_ij (dP_ij - D_i) with D_i = sum_j P_ij dP_ij, in the place of dP. */
static void softmax_gradient(const fa_problem_t *p) {
  FOR_EACH_QUERY_ROW {
    float *dP = matrix_row(p, S_OR_DP, b, h, i);
    const float *P = matrix_row(p, P_MATRIX, b, h, i);
    int64_t n = fa_visible(p, fa_keys(p, b), i);
    bool empty = p->lse[(b * p->heads_q + h) * p->seq_q + i] == -INFINITY;
    /* BEGIN SOLUTION */
    /* STUB: (void)dP, (void)P, (void)n, (void)empty; */
    float D = dot(P, dP, n);
    for (int64_t j = 0; j < n; j++) dP[j] = empty ? 0 : P[j] * (dP[j] - D);
    /* END SOLUTION */
  }
}

/* out_i = factor * sum_j M_ij y_j: O from (P, V), and dQ from (dS, K). */
static void multiply(const fa_problem_t *p, int matrix, const fa_tensor_t *y, int64_t dim, float factor,
                     const fa_tensor_t *out) {
  FOR_EACH_QUERY_ROW {
    const float *M = matrix_row(p, matrix, b, h, i);
    float *out_i = out_row(out, b, h, i);
    int64_t n = fa_visible(p, fa_keys(p, b), i);
    clear(out_i, dim);
    bool empty = p->lse[(b * p->heads_q + h) * p->seq_q + i] == -INFINITY;
    for (int64_t j = 0; j < n && !empty; j++)
      add_scaled(out_i, factor * M[j], row_of(y, b, fa_kv_head(p, h), j), dim);
  }
}

/* out_j = factor * sum over the group's heads and rows i of M_ij x_i: dV from (P, dO), dK from (dS, Q).
 * Keys are dealt in blocks, so that a row of M is read in runs and no two threads write one out_j. */
static void multiply_columns(const fa_problem_t *p, int matrix, const fa_tensor_t *x, int64_t dim,
                             float factor, const fa_tensor_t *out) {
  enum { BLOCK = 64 };
  int64_t blocks = (p->seq_k + BLOCK - 1) / BLOCK, group = p->heads_q / p->heads_kv;
#pragma omp parallel for collapse(3) schedule(dynamic, 1)
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t kvh = 0; kvh < p->heads_kv; kvh++)
      for (int64_t block = 0; block < blocks; block++) {
        int64_t begin = block * BLOCK, end = begin + BLOCK < p->seq_k ? begin + BLOCK : p->seq_k;
        for (int64_t j = begin; j < end; j++) clear(out_row(out, b, kvh, j), dim);
        for (int64_t h = kvh * group; h < (kvh + 1) * group; h++)
          for (int64_t i = 0; i < p->seq_q; i++) {
            const float *M = matrix_row(p, matrix, b, h, i), *x_i = row_of(x, b, h, i);
            int64_t n = fa_visible(p, fa_keys(p, b), i);
            if (p->lse[(b * p->heads_q + h) * p->seq_q + i] == -INFINITY) continue;
            for (int64_t j = begin; j < end && j < n; j++)
              add_scaled(out_row(out, b, kvh, j), factor * M[j], x_i, dim);
          }
      }
}

/* What the kernels above move if each reads its operands from main memory once and writes its result once,
 * as in the paper's Algorithms 0 and 3; products and exponentials over the pairs that were computed. A row of
 * nothing but logits of -inf counts as a usual one. Factors of 1 are multiplied by, too, and count. */
static void count(const fa_problem_t *p, fa_pass_t pass) {
  double q = 0, kv = 0, pairs = 0, seeing = 0,
         rows = (double)p->batch * (double)p->heads_q * (double)p->seq_q;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t i = 0; i < p->seq_q; i++) {
      int64_t n = fa_visible(p, fa_keys(p, b), i);
      pairs += (double)p->heads_q * (double)n;
      seeing += n > 0 ? (double)p->heads_q : 0;
    }
  q = rows;
  kv = (double)p->batch * (double)p->heads_kv * (double)p->seq_k;
  double d = (double)p->head_dim, dv = (double)p->head_dim_v, f = sizeof(float);
  fa_count_t c = {0};
  if (pass == FA_FORWARD) {
    c.hbm_read = f * (q * d + kv * d + pairs + pairs + kv * dv); /* Q K | S | P V */
    c.hbm_written = f * (pairs + pairs + q * dv + rows);         /* S | P | O, LSE */
    c.matmul_flop = 2 * pairs * (d + dv);
    c.other_flop = 6 * pairs + seeing; /* factor, maximum, subtract, add, divide, factor; LSE */
    c.exp = pairs + seeing;
  } else {
    c.hbm_read = f * (q * d + kv * d + pairs                         /* S = QK^T; P from S */
                      + pairs + q * dv + q * dv + kv * dv            /* dV from P, dO; dP from dO, V */
                      + 2 * pairs + pairs + kv * d + pairs + q * d); /* dS from P, dP; dQ; dK */
    c.hbm_written = f * (2 * pairs + kv * dv + pairs + pairs + q * d + kv * d); /* S, P, dV, dP, dS, dQ, dK */
    c.matmul_flop = 2 * pairs * (3 * d + 2 * dv);
    /* the factors of five products; P: subtract, add, divide; D (2); dS: subtract, multiply */
    c.other_flop = 12 * pairs;
    c.exp = pairs;
  }
  fa_count_add(&c);
}

static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  multiply_transposed(p, &p->q, &p->k, p->head_dim, p->scale, S_OR_DP);
  softmax(p);
  multiply(p, P_MATRIX, &p->v, p->head_dim_v, 1, &p->o);
  count(p, FA_FORWARD);
  return FA_OK;
}

static fa_status_t backward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  multiply_transposed(p, &p->q, &p->k, p->head_dim, p->scale, S_OR_DP); /* S */
  probabilities_from_lse(p);
  multiply_columns(p, P_MATRIX, &p->d_o, p->head_dim_v, 1, &p->dv);   /* dV = P^T dO */
  multiply_transposed(p, &p->d_o, &p->v, p->head_dim_v, 1, S_OR_DP);  /* dP = dO V^T */
  softmax_gradient(p);                                                /* dS */
  multiply(p, S_OR_DP, &p->k, p->head_dim, p->scale, &p->dq);         /* dQ = scale dS K */
  multiply_columns(p, S_OR_DP, &p->q, p->head_dim, p->scale, &p->dk); /* dK = scale dS^T Q */
  count(p, FA_BACKWARD);
  return FA_OK;
}

const fa_kernels_t fa_kernels_naive_cpu = {workspace_size, forward, backward};
