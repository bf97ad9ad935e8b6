/* fast_backward_simd.c - one block of keys against all query rows that see it (FlashAttention-2,
 * Algorithm 2). P is not stored by the forward pass: it is computed again from S and LSE.
 *
 * As in the forward pass what stays lies across the lanes, and here that is the keys:
 *
 *      S    = Q_i K_j^T         [queries][keys]        A = Q_i as it lies,    B = K_j^T, transposed once
 *      dP   = dO_i V_j^T        [queries][keys]        A = dO_i as it lies,   B = V_j^T, transposed once
 *      P    = exp(S - LSE)      dS = P (dP - D)        LSE and D are one number per row
 *      dV_j^T += dO_i^T P       [head_dim_v][keys]     A = dO_i transposed,   B = P as it lies
 *      dK_j^T += Q_i^T dS       [head_dim][keys]       A = Q_i transposed,    B = dS as it lies
 *      dQ_i   += dS K_j         [queries][head_dim]    A = dS as it lies,     B = K_j as it lies
 *
 * Every operand is used as it lies in some buffer. scale is multiplied into the copies of Q_i (S and dK get
 * it from there) and of the untransposed K_j (for dQ). The same product of the same numbers in the same
 * order as in the forward pass gives the same S to the last bit, so that S - LSE <= 0. */
#define _GNU_SOURCE
#include "fast_blocks.h"

#include <sched.h>

typedef struct blocks {
  float *K, *V, *dK, *dV, *Ks, *Q, *dO, *P, *dS, *dQ, *lse, *D;
  int64_t *visible;
  int64_t d, dv, d_padded, dv_padded;
  int64_t begin, n; /* valid keys begin .. begin+n of this block */
  int64_t lanes;    /* n, rounded up to whole vectors */
  int64_t rows;     /* query rows of the current tile */
  int64_t least;    /* the fewest keys of the block that one of them sees */
  bool finite;      /* all of K_j is */
  bool exact;       /* the current tile must not multiply masked zeros: something in it is not finite */
} blocks_t;

static blocks_t carve(const fa_problem_t *p, const fa_fast_backward_map_t *at, float *x) {
  return (blocks_t){.K = x + at->K,
                    .V = x + at->V,
                    .dK = x + at->dK,
                    .dV = x + at->dV,
                    .Ks = x + at->Ks,
                    .Q = x + at->Q,
                    .dO = x + at->dO,
                    .P = x + at->P,
                    .dS = x + at->dS,
                    .dQ = x + at->dQ,
                    .lse = x + at->lse,
                    .D = x + at->D,
                    .visible = (int64_t *)(void *)(x + at->visible),
                    .d = p->head_dim,
                    .dv = p->head_dim_v,
                    .d_padded = fa_fast_up(p->head_dim, FA_FAST_PAD),
                    .dv_padded = fa_fast_up(p->head_dim_v, FA_FAST_PAD)};
}

/* D_i = sum_c dO_ic O_ic for rows begin .. begin+n of one head, and dQ = 0. A row is a lane, so that each sum
 * runs in the order of the products dP = dO V^T and is rounded as they are: a row that sees one key, whose O is
 * that V, gets dS = P (dP - D) = 0 exactly. (Of a loop over single numbers a compiler may make multiplications
 * and additions apart.) */
void FA_SIMD(fa_fast_row_sums)(const fa_problem_t *p, int64_t b, int64_t h, int64_t begin, int64_t n,
                               float *D, fa_count_t *count) {
  for (int64_t at = 0; at < n; at += LANES) {
    int64_t rows = n - at < LANES ? n - at : LANES, c = 0;
    const float *o[LANES], *d_o[LANES];
    for (int64_t r = 0; r < LANES; r++) {
      int64_t i = begin + (at + r < n ? at + r : at);
      o[r] = row_in(&p->o, b, h, i);
      d_o[r] = row_in(&p->d_o, b, h, i);
    }
    vec sum = splat(0);
    for (; c + LANES <= p->head_dim_v; c += LANES) {
      vec x[LANES], y[LANES];
      for (int r = 0; r < LANES; r++) x[r] = load_anywhere(o[r] + c), y[r] = load_anywhere(d_o[r] + c);
      transpose(x);
      transpose(y);
      for (int a = 0; a < LANES; a++) sum += y[a] * x[a];
    }
    for (; c < p->head_dim_v; c++) {
      vec x = {0}, y = {0};
      for (int r = 0; r < LANES; r++) x[r] = o[r][c], y[r] = d_o[r][c];
      sum += y * x;
    }
    for (int64_t r = 0; r < rows; r++) {
      D[at + r] = sum[r];
      float *dq = row_out(&p->dq, b, h, begin + at + r);
      for (c = 0; c < p->head_dim; c++) dq[c] = 0;
    }
  }
  count->hbm_read += 8 * (double)(n * p->head_dim_v);
  count->hbm_written += 4 * (double)(n * (p->head_dim + 1));
  count->other_flop += 2 * (double)(n * p->head_dim_v);
}

/* Rows of K or V become lanes; lanes without a key hold 0. */
static void load_lanes(const fa_tensor_t *t, const fa_fast_keys_t *w, int64_t n, int64_t dim, float *panels) {
  for (int64_t first = 0; first < n; first += LANES) {
    const float *row[LANES];
    for (int a = 0; a < LANES; a++)
      row[a] = row_in(t, w->b, w->kv_head, w->begin + (first + a < n ? first + a : n - 1));
    rows_to_lanes(row, n - first, dim, 1, lane(panels, first, dim));
  }
}

/* Lanes become rows of dK or dV; rows at or beyond the valid length become 0. */
static void store_lanes(const fa_tensor_t *t, const fa_fast_keys_t *w, int64_t n, int64_t dim,
                        float *panels) {
  for (int64_t first = 0; first < w->count; first += LANES) {
    int64_t count = w->count - first < LANES ? w->count - first : LANES;
    float *row[LANES];
    ivec beyond = {0};
    for (int a = 0; a < LANES; a++) {
      row[a] = row_out(t, w->b, w->kv_head, w->begin + (first + a < w->count ? first + a : w->count - 1));
      beyond[a] = first + a < n ? 0 : -1;
    }
    lanes_to_rows(lane(panels, first, fa_fast_up(dim, FA_FAST_PAD)), splat(1), beyond, row, count, dim);
  }
}

/* Query rows begin .. begin+rows of head h. A row whose LSE is -inf saw nothing, or nothing but -inf. */
static void load_tile(const fa_problem_t *p, const fa_fast_keys_t *w, int64_t h, int64_t begin, blocks_t *x) {
  int64_t keys = fa_keys(p, w->b), row = (w->b * p->heads_q + h) * p->seq_q + begin;
  bool finite_Q = copy_rows(&p->q, w->b, h, begin, x->rows, x->d, p->scale, x->Q);
  bool finite_dO = copy_rows(&p->d_o, w->b, h, begin, x->rows, x->dv, 1, x->dO);
  x->least = x->n;
  for (int64_t r = 0; r < fa_fast_up(x->rows, FA_FAST_PAD); r++) {
    bool empty = r >= x->rows || p->lse[row + r] == -INFINITY;
    int64_t sees = empty ? 0 : fa_visible(p, keys, begin + r) - x->begin;
    x->visible[r] = sees < 0 ? 0 : sees > x->n ? x->n : sees;
    if (r >= x->rows) continue;
    x->lse[r] = p->lse[row + r];
    x->D[r] = w->D[row + r];
    x->least = x->visible[r] < x->least ? x->visible[r] : x->least;
  }
  x->exact = x->least < x->n && !(finite_Q && finite_dO && x->finite);
}

/* P and dS of row r in `vectors` vectors of keys from lane `first`. Masked entries are chosen to be 0, so
 * that what S, dP or D holds there does not matter. */
static void softmax_row(const blocks_t *x, int vectors, int64_t r, int64_t first) {
  float *P = x->P + r * FA_FAST_BACK_KEYS + first, *dS = x->dS + r * FA_FAST_BACK_KEYS + first;
  vec lse = splat(x->lse[r]), D = splat(x->D[r]);
  bool masked = x->visible[r] < x->n && x->visible[r] < first + vectors * LANES;
  for (int v = 0; v < vectors; v++, P += LANES, dS += LANES) {
    vec prob = vexp(load(P) - lse), grad = prob * (load(dS) - D);
    if (masked) {
      ivec index = {0};
      for (int a = 0; a < LANES; a++) index[a] = (int32_t)first + v * LANES + a;
      ivec sees = index < isplat((int32_t)x->visible[r]);
      prob = choose(sees, prob, splat(0));
      grad = choose(sees, grad, splat(0));
    }
    store(P, prob);
    store(dS, grad);
  }
}

/* dV_j^T += dO_i^T P, or dK_j^T += Q_i^T dS, entry by entry over what is seen. */
static void add_seen(const blocks_t *x, const float *A, int64_t dim, const float *B, float *C) {
  for (int64_t r = 0; r < x->rows; r++)
    for (int64_t j = 0; j < x->visible[r]; j++)
      for (int64_t c = 0; c < dim; c++)
        lane(C, j, fa_fast_up(dim, FA_FAST_PAD))[c * PANEL] +=
            A[r * fa_fast_stride(dim) + c] * B[r * FA_FAST_BACK_KEYS + j];
}

/* One panel of keys, lanes first .., against the tile: S, dP, P, dS, and its shares of dV and dK. */
static void panel_step(const blocks_t *x, int64_t first, fa_count_t *count) {
  int64_t left = (x->lanes - first) / LANES;
  int vectors = left < VECTORS ? (int)left : VECTORS;
  int64_t skip = 0; /* rows before the first strip in which a query sees a key of this panel */
  while (skip < x->rows && x->visible[skip] <= first) skip++;
  skip = skip / FA_FAST_PAD * FA_FAST_PAD;
  int64_t rows = x->rows - skip, strips = fa_fast_up(rows, STRIP);
  if (rows <= 0) return;
  const float *Q = x->Q + skip * fa_fast_stride(x->d), *dO = x->dO + skip * fa_fast_stride(x->dv);
  float *P = x->P + skip * FA_FAST_BACK_KEYS + first, *dS = x->dS + skip * FA_FAST_BACK_KEYS + first;
  const int64_t ld = FA_FAST_BACK_KEYS, ldq = fa_fast_stride(x->d), ldo = fa_fast_stride(x->dv);
  int64_t columns = fa_fast_up(x->d, STRIP), columns_v = fa_fast_up(x->dv, STRIP);

  product(vectors, Q, ldq, strips, x->K + first * x->d, PANEL, x->d, P, ld, false);
  product(vectors, dO, ldo, strips, x->V + first * x->dv, PANEL, x->dv, dS, ld, false);
  for (int64_t r = skip; r < x->rows; r++) softmax_row(x, vectors, r, first);
  if (!x->exact) {
    product_transposed(vectors, dO, ldo, columns_v, P, ld, rows, x->dV + first * x->dv_padded, PANEL, true);
    product_transposed(vectors, Q, ldq, columns, dS, ld, rows, x->dK + first * x->d_padded, PANEL, true);
  }

  double lanes = vectors * LANES;
  count->matmul_flop +=
      2 * lanes * ((double)strips * (double)(x->d + x->dv) + (double)rows * (double)(columns + columns_v));
  count->other_flop += 3 * lanes * (double)rows; /* two subtractions and a multiplication */
  count->exp += lanes * (double)rows;
}

/* The tile's share of dQ. Each strip stops at the last key that one of its rows sees. */
static void multiply_dQ(const blocks_t *x, fa_count_t *count) {
  const int64_t ld = fa_fast_stride(x->d), vectors = x->d_padded / LANES;
  for (int64_t v = 0; v < vectors; v += VECTORS)
    for (int64_t r = 0; r < x->rows; r += STRIP) {
      int some = vectors - v < VECTORS ? (int)(vectors - v) : VECTORS;
      int64_t most = 0;
      for (int a = 0; a < STRIP; a++) most = x->visible[r + a] > most ? x->visible[r + a] : most;
      product(some, x->dS + r * FA_FAST_BACK_KEYS, FA_FAST_BACK_KEYS, STRIP, x->Ks + v * LANES, ld, most,
              x->dQ + r * ld + v * LANES, ld, false);
      count->matmul_flop += 2.0 * STRIP * LANES * (double)(most * some);
    }
  for (int64_t r = 0; x->exact && r < x->rows; r++)
    for (int64_t c = 0; c < x->d; c++) {
      float sum = 0;
      for (int64_t j = 0; j < x->visible[r]; j++) sum += x->dS[r * FA_FAST_BACK_KEYS + j] * x->Ks[j * ld + c];
      x->dQ[r * ld + c] = sum;
    }
}

/* Blocks of keys add to dQ in their order: a tile waits until the block before has finished it. That fixes
 * the order of the additions, whatever the number of threads. */
static void add_dQ(const fa_problem_t *p, const fa_fast_keys_t *w, int64_t h, int64_t begin,
                   const blocks_t *x, int64_t tile) {
  while (w->begin > 0 && __atomic_load_n(w->turn - 1, __ATOMIC_ACQUIRE) <= tile) sched_yield();
  for (int64_t r = 0; r < x->rows; r++) {
    float *dq = row_out(&p->dq, w->b, h, begin + r);
    const float *more = x->dQ + r * fa_fast_stride(x->d);
    if (x->visible[r] > 0)
      for (int64_t c = 0; c < x->d; c++) dq[c] += more[c];
  }
  __atomic_store_n(w->turn, tile + 1, __ATOMIC_RELEASE);
}

/* Loads what stays. */
static void load_keys(const fa_problem_t *p, const fa_fast_keys_t *w, blocks_t *x) {
  load_lanes(&p->k, w, x->n, x->d, x->K);
  load_lanes(&p->v, w, x->n, x->dv, x->V);
  x->finite = copy_rows(&p->k, w->b, w->kv_head, x->begin, x->n, x->d, p->scale, x->Ks);
  int64_t width = fa_fast_up(x->lanes, PANEL);
  for (int64_t c = 0; c < width * x->d_padded; c++) x->dK[c] = 0;
  for (int64_t c = 0; c < width * x->dv_padded; c++) x->dV[c] = 0;
}

void FA_SIMD(fa_fast_backward)(const fa_problem_t *p, const fa_fast_keys_t *w,
                               const fa_fast_backward_map_t *at, float *buffers, fa_count_t *count) {
  blocks_t x = carve(p, at, buffers);
  int64_t keys = fa_keys(p, w->b), group = p->heads_q / p->heads_kv;
  int64_t tiles = (p->seq_q + FA_FAST_BACK_ROWS - 1) / FA_FAST_BACK_ROWS;
  x.begin = w->begin;
  x.n = keys - w->begin < 0 ? 0 : keys - w->begin < w->count ? keys - w->begin : w->count;
  x.lanes = fa_fast_up(x.n, LANES);
  if (x.n > 0) {
    load_keys(p, w, &x);
    count->hbm_read += 4 * (double)(x.n * (2 * x.d + x.dv));
    int64_t first = fa_first_query(p, keys, w->begin) / FA_FAST_BACK_ROWS;
    for (int64_t g = 0; g < group; g++)
      for (int64_t t = first; t < tiles; t++) {
        int64_t h = w->kv_head * group + g, row = t * FA_FAST_BACK_ROWS;
        x.rows = p->seq_q - row < FA_FAST_BACK_ROWS ? p->seq_q - row : FA_FAST_BACK_ROWS;
        load_tile(p, w, h, row, &x);
        for (int64_t key = 0; key < x.lanes; key += PANEL) panel_step(&x, key, count);
        if (x.exact) {
          add_seen(&x, x.dO, x.dv, x.P, x.dV);
          add_seen(&x, x.Q, x.d, x.dS, x.dK);
        }
        multiply_dQ(&x, count);
        add_dQ(p, w, h, row, &x, g * tiles + t);
        count->hbm_read += 4 * (double)(x.rows * (2 * x.d + x.dv + 2)); /* Q, dO, LSE, D, dQ */
        count->hbm_written += 4 * (double)(x.rows * x.d);
      }
  }
  __atomic_store_n(w->turn, group * tiles, __ATOMIC_RELEASE);
  store_lanes(&p->dk, w, x.n, x.d, x.dK);
  store_lanes(&p->dv, w, x.n, x.dv, x.dV);
  count->hbm_written += 4 * (double)(w->count * (x.d + x.dv));
}
