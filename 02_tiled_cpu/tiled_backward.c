/* tiled_backward.c - step `tiled`, backward: P is computed again, not stored (FlashAttention, Algorithm 4).
 *
 *   for each block of keys K_j, V_j                              (dK_j, dV_j kept in the buffers)
 *     for each block of queries Q_i, O_i, dO_i, dQ_i, LSE_i      (streamed)
 *       D_i   = rowsum(dO_i o O_i)
 *       S_ij  = scale Q_i K_j^T       P_ij  = exp(S_ij - LSE_i)      one number per row was kept
 *       dV_j += P_ij^T dO_i
 *       dP_ij = dO_i V_j^T            dS_ij = P_ij o (dP_ij - D_i)
 *       dQ_i += scale dS_ij K_j       through main memory: i is the inner loop
 *       dK_j += scale dS_ij^T Q_i
 *
 * D_i stands for rowsum(P_i o dP_i) = P_i . (V dO_i) = dO_i . O_i, which needs no row of P. As in the paper it is
 * computed for every pair of blocks again, and O_i is read for it each time; `fast` computes it once, before the loops.
 * A kv head is one unit of work: its blocks of keys come in order, so dQ is summed in the same order every
 * time, and the result is the same for any number of threads. */
#include "tiled.h"

#include <math.h>

#include "count.h"
#include "tiled_products.h"

/* out[c] += sum_r S[r][c] x[r] over the visible part: S^T X. */
static void multiply_columns(const float *S, const float *x, int64_t rows, int64_t dim,
                             const int64_t *visible, int64_t ld, float *out) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < visible[r]; c++)
      for (int64_t k = 0; k < dim; k++) out[c * dim + k] += S[r * ld + c] * x[r * dim + k];
}

/* D_i of one row: dO_i . O_i. */
static float row_D(const fa_problem_t *p, int64_t b, int64_t h, int64_t i) {
  const float *O = (const float *)p->o.data + fa_row(&p->o, b, h, i);
  const float *dO = (const float *)p->d_o.data + fa_row(&p->d_o, b, h, i);
  float D = 0;
  for (int64_t k = 0; k < p->head_dim_v; k++) D += dO[k] * O[k];
  return D;
}

/* P_ij from S_ij and LSE_i, and dS_ij from dP_ij, both in place. A row whose LSE is -inf saw no key, or only
 * logits of -inf: it takes part in no product that follows, for 0 times an infinite Q would be NaN. */
static void probabilities_and_gradient(fa_tiles_t *t, int64_t rows, int64_t Bc) {
  for (int64_t r = 0; r < rows; r++) {
    if (t->lse[r] == -INFINITY) t->visible[r] = 0;
    float *P = t->S + r * Bc, *dS = t->dP + r * Bc;
    /* BEGIN SOLUTION */
    /* STUB: (void)P, (void)dS; */
    for (int64_t c = 0; c < t->visible[r]; c++) {
      P[c] = expf(P[c] - t->lse[r]);
      dS[c] = P[c] * (dS[c] - t->D[r]);
    }
    /* END SOLUTION */
  }
}

/* One pair of blocks: queries [first, first + rows) of head h against the keys in t->K, t->V. */
static void pair(const fa_problem_t *p, int64_t b, int64_t h, int64_t first, int64_t rows, int64_t begin,
                 int64_t cols, int64_t Bc, fa_tiles_t *t, fa_count_t *count) {
  int64_t d = p->head_dim, dv = p->head_dim_v, keys = fa_keys(p, b);
  double pairs = (double)fa_tile_visible(p, keys, first, rows, begin, cols, t->visible);
  fa_load_block(&p->q, b, h, first, rows, d, t->Q, &count->hbm_read);
  fa_load_block(&p->d_o, b, h, first, rows, dv, t->dO, &count->hbm_read);
  fa_load_block(&p->dq, b, h, first, rows, d, t->dQ, &count->hbm_read);
  for (int64_t r = 0; r < rows; r++) {
    t->lse[r] = p->lse[(b * p->heads_q + h) * p->seq_q + first + r];
    t->D[r] = row_D(p, b, h, first + r);
  }
  count->hbm_read += (double)rows * sizeof(float) * (double)(1 + dv); /* LSE, and O for D (dO is counted) */
  fa_tile_multiply_transposed(t->Q, t->K, rows, d, p->scale, t->visible, Bc, t->S);
  fa_tile_multiply_transposed(t->dO, t->V, rows, dv, 1, t->visible, Bc, t->dP);
  probabilities_and_gradient(t, rows, Bc);
  multiply_columns(t->S, t->dO, rows, dv, t->visible, Bc, t->dV);
  for (int64_t r = 0; r < rows; r++) /* the scale goes into dS once, for both dQ and dK */
    for (int64_t c = 0; c < t->visible[r]; c++) t->dP[r * Bc + c] *= p->scale;
  fa_tile_multiply(t->dP, t->K, rows, d, t->visible, Bc, t->dQ);
  multiply_columns(t->dP, t->Q, rows, d, t->visible, Bc, t->dK);
  fa_store_block(&p->dq, b, h, first, rows, d, t->dQ, &count->hbm_written);
  count->matmul_flop += 2 * pairs * (double)(3 * d + 2 * dv);
  /* S and dP times their factors, subtract twice, multiply, scale; D */
  count->other_flop += 6 * pairs + 2 * (double)(rows * dv);
  count->exp += pairs;
}

static void key_block(const fa_problem_t *p, int64_t b, int64_t kvh, int64_t begin, int64_t cols, int64_t Br,
                      int64_t Bc, fa_tiles_t *t, fa_count_t *count) {
  int64_t d = p->head_dim, dv = p->head_dim_v, group = p->heads_q / p->heads_kv;
  fa_load_block(&p->k, b, kvh, begin, cols, d, t->K, &count->hbm_read);
  fa_load_block(&p->v, b, kvh, begin, cols, dv, t->V, &count->hbm_read);
  for (int64_t x = 0; x < cols * d; x++) t->dK[x] = 0;
  for (int64_t x = 0; x < cols * dv; x++) t->dV[x] = 0;
  int64_t first_query = fa_first_query(p, fa_keys(p, b), begin); /* earlier queries see none of these keys */
  for (int64_t h = kvh * group; h < (kvh + 1) * group; h++)
    for (int64_t first = first_query / Br * Br; first < p->seq_q; first += Br) {
      int64_t rows = first + Br < p->seq_q ? Br : p->seq_q - first;
      pair(p, b, h, first, rows, begin, cols, Bc, t, count);
    }
  fa_store_block(&p->dk, b, kvh, begin, cols, d, t->dK, &count->hbm_written);
  fa_store_block(&p->dv, b, kvh, begin, cols, dv, t->dV, &count->hbm_written);
}

/* Rows [begin, end) of a head become 0. */
static void clear_rows(const fa_tensor_t *t, int64_t b, int64_t h, int64_t begin, int64_t end, int64_t dim,
                       double *bytes) {
  for (int64_t r = begin; r < end; r++)
    for (int64_t k = 0; k < dim; k++) ((float *)t->data)[fa_row(t, b, h, r) + k] = 0;
  *bytes += (double)((end - begin) * dim) * sizeof(float);
}

void fa_tiled_backward(const fa_problem_t *p, int64_t Br, int64_t Bc, void *workspace) {
  int64_t group = p->heads_q / p->heads_kv;
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t kvh = 0; kvh < p->heads_kv; kvh++) {
      fa_tiles_t t = fa_tiles_at(p, Br, Bc, FA_BACKWARD, workspace, fa_thread_index());
      fa_count_t count = {0};
      int64_t keys = fa_keys(p, b);
      for (int64_t h = kvh * group; h < (kvh + 1) * group; h++)
        clear_rows(&p->dq, b, h, 0, p->seq_q, p->head_dim, &count.hbm_written);
      for (int64_t begin = 0; begin < keys; begin += Bc)
        key_block(p, b, kvh, begin, begin + Bc < keys ? Bc : keys - begin, Br, Bc, &t, &count);
      clear_rows(&p->dk, b, kvh, keys, p->seq_k, p->head_dim, &count.hbm_written);
      clear_rows(&p->dv, b, kvh, keys, p->seq_k, p->head_dim_v, &count.hbm_written);
      fa_count_add(&count);
    }
}
