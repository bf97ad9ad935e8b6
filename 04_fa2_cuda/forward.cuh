/* forward.cuh - what a warp does in registers with its rows of Q, for a block of keys (Algorithm 1 of the FlashAttention-2
 * paper, lines 8 to 10):
 *
 *   scores       S = Q K^T
 *   softmax      S becomes P~ = exp(scale (S - m)); m and l take in the block, and O is rescaled
 *   accumulate   O += P~ V
 *
 * and finish when no key is left: O = diag(l)^-1 O, and the logsumexp. Until then O is not divided by l: that is the first of
 * the paper's savings. The second: m and l do not both leave the kernel, but L = scale m + log(l) alone. */
#ifndef FA2_FORWARD_CUH
#define FA2_FORWARD_CUH

#include "tile.cuh"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

#define LOG2E 1.4426950408889634f /* exp(x) = 2^(x log2 e) */

/* 8-key tiles of a block: columns of S and P. */
enum { KEY_TILES = FORWARD_KEYS / 8 };

/* What a warp holds in registers for its 16 TILES rows. x[t][n][2 k + e] is row 16 t + 8 k + lane/4, column
 * 8 n + 2 (lane%4) + e; a row of a lane, s = 2 t + k, is row 8 s + lane/4. */
template <class T, int D, int TILES, bool HOLDS_Q> struct forward_warp {
  enum { STATES = 2 * TILES };
  uint32_t q[HOLDS_Q ? TILES : 1][HOLDS_Q ? D / 16 : 1][4];
  float o[TILES][D / 8][4];
  float s[TILES][KEY_TILES][4]; /* S, then P~ */
  float m[STATES], l[STATES];   /* m: of S, before the scale; l: this lane's part of the sum */
  int sees[STATES];             /* keys, from the first, that the row sees */
};

template <class W> FA_DEVICE void start(W &w, const shape_t &shape, int i0) {
  clear(w.o);
#pragma unroll
  for (int s = 0; s < W::STATES; s++) {
    w.m[s] = -INFINITY, w.l[s] = 0;
    w.sees[s] = visible(shape, i0 + 8 * s + lane_id() / 4);
  }
}

/* Q comes into registers once, if that is where it stays. */
template <class T, int D, int TILES, bool HOLDS_Q, class R>
FA_DEVICE void hold_q(forward_warp<T, D, TILES, HOLDS_Q> &w, const R *Q) {
  if (HOLDS_Q)
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int k = 0; k < D / 16; k++)
        ldmatrix_x4(w.q[HOLDS_Q ? t : 0][HOLDS_Q ? k : 0], by_rows(Q, 16 * t, 16 * k));
}

/* S = Q K^T. */
template <class T, int D, int TILES, bool HOLDS_Q, class R>
FA_DEVICE void scores(forward_warp<T, D, TILES, HOLDS_Q> &w, const R *Q, const R *K) {
  enum {
    DEPTH = HOLDS_Q ? D / 16 : 1
  }; /* with Q from shared memory, more at a time would not find registers */
  clear(w.s);
#pragma unroll DEPTH
  for (int k = 0; k < D / 16; k++) {
    uint32_t a[TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++)
      if (HOLDS_Q)
#pragma unroll
        for (int r = 0; r < 4; r++) a[t][r] = w.q[HOLDS_Q ? t : 0][HOLDS_Q ? k : 0][r];
      else
        ldmatrix_x4(a[t], by_rows(Q, 16 * t, 16 * k));
#pragma unroll
    for (int n = 0; n < KEY_TILES; n += 2) {
      uint32_t b[4];
      ldmatrix_x4(b, by_columns(K, 8 * n, 16 * k));
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        mma_m16n8k16(w.s[t][n], a[t], b[0], b[1], T{});
        mma_m16n8k16(w.s[t][n + 1], a[t], b[2], b[3], T{});
      }
    }
  }
}

/* What the rows may not see of keys j0 .. becomes -inf, whose exponential is 0. */
template <class W> FA_DEVICE void hide(W &w, int j0) {
#pragma unroll
  for (int s = 0; s < W::STATES; s++) {
    const int limit = w.sees[s] - j0 - lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (8 * n + e >= limit) w.s[s / 2][n][s % 2 * 2 + e] = -INFINITY;
  }
}

/* S becomes P~; m and l take in the keys j0 .., and O what its weight in the sum has become. MASKED: some row may not see
 * some key of the block, or the key does not exist. scale_log2 = |scale| log2(e), not 0. */
template <bool MASKED, class T, int D, int TILES, bool HOLDS_Q>
FA_DEVICE void softmax(forward_warp<T, D, TILES, HOLDS_Q> &w, float scale_log2, int j0) {
  typedef forward_warp<T, D, TILES, HOLDS_Q> W;
  if (MASKED) hide(w, j0);
  float kept[W::STATES];
#pragma unroll
  for (int s = 0; s < W::STATES; s++) {
    float top = w.s[s / 2][0][s % 2 * 2];
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) /* leaves NaN out; it comes back with the sum */
      top = fmaxf(top, fmaxf(w.s[s / 2][n][s % 2 * 2], w.s[s / 2][n][s % 2 * 2 + 1]));
    top = fmaxf(top, shfl_xor_f32(top, 1)); /* the four lanes of a row */
    top = fmaxf(top, shfl_xor_f32(top, 2));
    const float m_new = fmaxf(w.m[s], top);

    /* With m = -inf nothing is subtracted: no key so far, or only scores of -inf, whose exponential is 0. */
    const float shift = m_new == -INFINITY ? 0 : m_new;
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float *p = &w.s[s / 2][n][s % 2 * 2 + e];
        *p = exp2_approx((*p - shift) * scale_log2); /* exactly 1 for the largest, however large */
      }
    /* BEGIN SOLUTION */
    /* STUB: kept[s] = 0; */
    kept[s] = exp2_approx((w.m[s] - shift) * scale_log2); /* m = -inf: 0 */
    /* END SOLUTION */
    count_rescale(lane_id() % 4 == 0 && w.sees[s] > 0, w.m[s] * scale_log2, m_new * scale_log2);
    w.m[s] = m_new;
  }
#pragma unroll
  for (int s = 0; s < W::STATES; s++) {
    w.l[s] *= kept[s];
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) w.l[s] += w.s[s / 2][n][s % 2 * 2] + w.s[s / 2][n][s % 2 * 2 + 1];
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
      w.o[s / 2][n][s % 2 * 2] *= kept[s];
      w.o[s / 2][n][s % 2 * 2 + 1] *= kept[s];
    }
  }
  count_flop(0, W::STATES * (KEY_TILES * 8 + D / 8 * 2 + 4));
}

/* O += P~ V. */
template <class T, int D, int TILES, bool HOLDS_Q, class R>
FA_DEVICE void accumulate(forward_warp<T, D, TILES, HOLDS_Q> &w, const R *V) {
#pragma unroll
  for (int k = 0; k < FORWARD_KEYS / 16; k++) {
    const int lane =
        not_ahead(lane_id()); /* the swizzled places of V are computed here, not kept in registers */
    uint32_t p[TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++) pack_block(p[t], w.s[t][2 * k], w.s[t][2 * k + 1], T{});
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, by_rows(V, 16 * k, 8 * n, lane));
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        mma_m16n8k16(w.o[t][n], p[t], b[0], b[1], T{});
        mma_m16n8k16(w.o[t][n + 1], p[t], b[2], b[3], T{});
      }
    }
  }
}

/* O = diag(l)^-1 O with l the sum over the four lanes of a row, into the warp's own rows of shared memory, which it has read
 * for the last time; m becomes L, the logsumexp (natural). A row that saw no key: O = 0, L = -inf. */
template <class T, int D, int TILES, bool HOLDS_Q, class R>
FA_DEVICE void finish(forward_warp<T, D, TILES, HOLDS_Q> &w, R *rows, float scale) {
  __syncwarp(); /* all lanes have read their part of Q */
#pragma unroll
  for (int s = 0; s < 2 * TILES; s++) {
    w.l[s] += shfl_xor_f32(w.l[s], 1);
    w.l[s] += shfl_xor_f32(w.l[s], 2);
    const bool empty = w.l[s] == 0;
    const float inverse = 1 / w.l[s];
    w.m[s] = empty ? -INFINITY : mul_rn(fabsf(scale), w.m[s]) + logf(w.l[s]);
#pragma unroll
    for (int n = 0; n < D / 8; n++) {
      const float x = w.o[s / 2][n][s % 2 * 2] * inverse, y = w.o[s / 2][n][s % 2 * 2 + 1] * inverse;
      st_shared_b32(chunk_of(rows, 8 * s + lane_id() / 4, n) + lane_id() % 4 * 2,
                    empty ? 0 : pack_f32(x, y, T{}));
    }
  }
}

/* The results of rows i0 .., from the warp's rows of shared memory (O) and from registers (L). Chunks of a row go out side by
 * side: whole sectors of HBM, where a store from registers would be 16 bytes of each of eight rows. */
template <class T, int D, int TILES, bool HOLDS_Q, class R>
FA_DEVICE void store_rows(const forward_warp<T, D, TILES, HOLDS_Q> &w, const R *rows, const fa_problem_t &p,
                          int b, int h, int i0, bool aligned) {
  __syncwarp(); /* all lanes have put their part of O there */
#pragma unroll 1
  for (int n = lane_id(); n < 16 * TILES * (D / 8); n += 32) {
    const int r = n / (D / 8), c = n % (D / 8);
    if (i0 + r >= p.seq_q) break;
    T *to = (T *)p.o.data + fa_row(&p.o, b, h, i0 + r) + 8 * c;
    if (aligned) {
      float bytes[4]; /* 16 of them: nothing is computed */
      ld_shared_f32x4(bytes, chunk_of(rows, r, c));
      st_global_f32x4((float *)to, bytes);
    } else {
      const T *from = chunk_of(rows, r, c);
#pragma unroll
      for (int e = 0; e < 8; e++) to[e] = from[e];
    }
  }
  if (lane_id() % 4 == 0)
#pragma unroll
    for (int s = 0; s < 2 * TILES; s++) {
      const int64_t i = i0 + 8 * s + lane_id() / 4;
      if (i < p.seq_q) p.lse[(b * p.heads_q + h) * p.seq_q + i] = w.m[s];
    }
}

/* |scale| log2(e) for softmax. A scale that is not positive is taken into Q, so that the largest score has the largest logit,
 * and no hidden score is multiplied by 0. Each thread changes the chunks that it has copied itself, and waited for. */
template <int ROWS, int THREADS, class R> FA_DEVICE float take_scale(R *Q, float scale, int thread) {
  if (scale <= 0)
    for (int n = thread; n < ROWS * (R::D / 8); n += THREADS) {
      typename R::T *x = chunk_of(Q, n / (R::D / 8), n % (R::D / 8));
      for (int e = 0; e < 8; e++) x[e].bits = scale < 0 ? x[e].bits ^ 0x8000 : 0;
    }
  return scale == 0 ? 1 : fabsf(scale) * LOG2E;
}

/* Thread block number n of a grid over heads and `tiles` blocks of queries: the last queries of a head first, which with a
 * causal mask have the most to do. */
typedef struct place {
  int b, h, tile;
} place_t;
FA_DEVICE place_t place_of(const fa_problem_t &p, unsigned n, int tiles) {
  const int64_t head = n / (unsigned)tiles;
  return {(int)(head / p.heads_q), (int)(head % p.heads_q), tiles - 1 - (int)(n % (unsigned)tiles)};
}

/* Does every row begin at a multiple of 16 bytes? Told by the launcher, the same for all threads. */
typedef struct aligned {
  bool inputs, output;
} aligned_t;
static inline aligned_t alignment_of(const fa_problem_t *p) {
  return {rows_aligned(&p->q, 16) && rows_aligned(&p->k, 16) && rows_aligned(&p->v, 16),
          rows_aligned(&p->o, 16)};
}

} // namespace FA_KERNEL_NAMESPACE
#endif
