/* tiled.c - step `tiled`, forward: blocks of queries against blocks of keys.
 *
 *   for each block of queries Q_i [Br][d]            (kept in the buffers, as are O_i, m_i, l_i)
 *     for each block of keys K_j, V_j [Bc][d]        (streamed)
 *       S_ij = scale Q_i K_j^T        [Br][Bc]
 *       m'   = max(m_i, rowmax S_ij)
 *       P_ij = exp(S_ij - m')
 *       l_i  = exp(m_i - m') l_i + rowsum P_ij
 *       O_i  = exp(m_i - m') O_i + P_ij V_j
 *     O_i = O_i / l_i,  LSE_i = m_i + ln l_i
 *
 * One read of K_j, V_j now serves Br queries, so main memory is read seq_q / Br times less than in `online`
 * (the order of loops is FlashAttention-2's; FlashAttention-1 has keys outside: see 03). Only blocks that a
 * causal query can see are visited; in the block at the diagonal each row stops at its own last key. */
#include "tiled.h"

#include <math.h>

#include "count.h"
#include "tiled_products.h"

/* The online softmax of one block: S_ij becomes P_ij; m, l and O of every row move to the new maximum. */
static void softmax_block(fa_tiles_t *t, int64_t rows, int64_t dv, int64_t Bc, fa_count_t *count) {
  for (int64_t r = 0; r < rows; r++) {
    float *S = t->S + r * Bc, *O = t->O + r * dv;
    /* BEGIN SOLUTION */
    /* STUB: (void)S, (void)O, (void)count; */
    float m = t->m[r];
    for (int64_t c = 0; c < t->visible[r]; c++) m = S[c] > m ? S[c] : m;
    float shift = m == -INFINITY ? 0 : m; /* nothing but -inf so far: exp(-inf - 0) is 0, not NaN */
    if (m > t->m[r]) {
      float kept = expf(t->m[r] - m); /* 0 for the first block: O and l are 0 then */
      t->l[r] *= kept;
      for (int64_t k = 0; k < dv; k++) O[k] *= kept;
      count->rescales += t->m[r] > -INFINITY;
      count->exp++;
      count->other_flop += (double)dv + 2; /* O, l and the difference */
      t->m[r] = m;
    }
    count->exp += (double)t->visible[r];
    for (int64_t c = 0; c < t->visible[r]; c++) t->l[r] += S[c] = expf(S[c] - shift);
    /* END SOLUTION */
  }
}

/* O_i / l_i and LSE_i. */
static void finish_rows(const fa_problem_t *p, fa_tiles_t *t, int64_t rows, float *lse, fa_count_t *count) {
  for (int64_t r = 0; r < rows; r++) {
    float l = t->l[r];
    bool empty = l == 0; /* no key, or nothing but -inf */
    for (int64_t k = 0; k < p->head_dim_v; k++)
      t->O[r * p->head_dim_v + k] = empty ? 0 : t->O[r * p->head_dim_v + k] / l;
    lse[r] = empty ? -INFINITY : t->m[r] + logf(l);
    count->exp += empty ? 0 : 1;
    count->other_flop += empty ? 0 : (double)p->head_dim_v + 1;
  }
}

static void query_block(const fa_problem_t *p, int64_t b, int64_t h, int64_t first, int64_t Br, int64_t Bc,
                        fa_tiles_t *t, fa_count_t *count) {
  int64_t d = p->head_dim, dv = p->head_dim_v, keys = fa_keys(p, b), kvh = fa_kv_head(p, h);
  int64_t rows = first + Br < p->seq_q ? Br : p->seq_q - first; /* the last block may be partial */
  fa_load_block(&p->q, b, h, first, rows, d, t->Q, &count->hbm_read);
  for (int64_t r = 0; r < rows; r++) t->m[r] = -INFINITY, t->l[r] = 0;
  for (int64_t x = 0; x < rows * dv; x++) t->O[x] = 0;
  int64_t end = fa_visible(p, keys, first + rows - 1); /* the block's last row sees most */
  for (int64_t begin = 0; begin < end; begin += Bc) {
    int64_t cols = begin + Bc < end ? Bc : end - begin;
    double pairs = (double)fa_tile_visible(p, keys, first, rows, begin, cols, t->visible);
    fa_load_block(&p->k, b, kvh, begin, cols, d, t->K, &count->hbm_read);
    fa_load_block(&p->v, b, kvh, begin, cols, dv, t->V, &count->hbm_read);
    fa_tile_multiply_transposed(t->Q, t->K, rows, d, p->scale, t->visible, Bc, t->S);
    softmax_block(t, rows, dv, Bc, count);
    fa_tile_multiply(t->S, t->V, rows, dv, t->visible, Bc, t->O);
    count->matmul_flop += 2 * pairs * (double)(d + dv);
    count->other_flop += 4 * pairs; /* scale, maximum, subtract, add */
  }
  finish_rows(p, t, rows, &p->lse[(b * p->heads_q + h) * p->seq_q + first], count);
  fa_store_block(&p->o, b, h, first, rows, dv, t->O, &count->hbm_written);
  count->hbm_written += (double)rows * sizeof(float); /* LSE */
}

void fa_tiled_forward(const fa_problem_t *p, int64_t Br, int64_t Bc, void *workspace) {
  int64_t blocks = (p->seq_q + Br - 1) / Br;
#pragma omp parallel for collapse(3) schedule(dynamic, 1)
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->heads_q; h++)
      for (int64_t block = 0; block < blocks; block++) {
        fa_tiles_t t = fa_tiles_at(p, Br, Bc, FA_FORWARD, workspace, fa_thread_index());
        fa_count_t count = {0};
        query_block(p, b, h, block * Br, Br, Bc, &t, &count);
        fa_count_add(&count);
      }
}

static size_t workspace_size(const fa_problem_t *p, fa_pass_t pass) {
  int64_t Br, Bc;
  fa_tiled_sizes(p, &Br, &Bc);
  return fa_tiled_workspace(p, pass, Br, Bc);
}

static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  int64_t Br, Bc;
  fa_tiled_sizes(p, &Br, &Bc);
  fa_tiled_forward(p, Br, Bc, p->workspace);
  return FA_OK;
}

static fa_status_t backward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  int64_t Br, Bc;
  fa_tiled_sizes(p, &Br, &Bc);
  fa_tiled_backward(p, Br, Bc, p->workspace);
  return FA_OK;
}

const fa_kernels_t fa_kernels_tiled = {workspace_size, forward, backward};
