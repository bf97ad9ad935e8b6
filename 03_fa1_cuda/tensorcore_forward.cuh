/* tensorcore_forward.cuh - what a warp of the forward kernel does in registers with its rows of Q, for a chunk of keys:
 *
 *   scores       S = Q K^T
 *   softmax      S becomes P~; m and l take in the chunk, and O is rescaled
 *   accumulate   O += P~ V
 *
 * and normalise at the end of the block of keys. */
#ifndef FA1_TENSORCORE_FORWARD_CUH
#define FA1_TENSORCORE_FORWARD_CUH

#include "tensorcore.cuh"

namespace FA_KERNEL_NAMESPACE {

/* 8-key tiles of a chunk: columns of S and P. */
enum { KEY_TILES = FORWARD_CHUNK / 8 };

template <class T, int D> struct forward_shape {
  enum {
    ROWS = FORWARD_ROWS(D),
    TILES = ROWS / 16,  /* 16-row blocks of a warp */
    STATES = 2 * TILES, /* rows of a lane: lane/4 + 8 s */
    D_TILES = D / 8,
    THREADS = 32 * FORWARD_WARPS
  };
  static_assert(D % 16 == 0, "FA1_HEAD_DIMS: the product Q K^T takes 16 components at a time");
  static_assert(ROWS > 0 && ROWS % 16 == 0, "FORWARD_ROWS: a tile of mma has 16 rows");
};

/* What a warp holds in registers for its rows. x[t][n][2 k + e] is row 16 t + 8 k + lane/4, column 8 n + 2 (lane%4) + e. */
template <class T, int D> struct forward_warp {
  typedef forward_shape<T, D> S;
  uint32_t q[S::TILES][D / 16][4];
  float o[S::TILES][S::D_TILES][4];
  float m[S::STATES], l[S::STATES]; /* l: this lane's part of the sum */
  float weight[S::STATES];          /* what O_i must still be multiplied by: l, when it comes from HBM */
};

/* S = Q K^T for a chunk of keys. */
template <class T, int D, int TILES>
FA_DEVICE void scores(float (&x)[TILES][KEY_TILES][4], const forward_warp<T, D> &w, const row_t<T, D> *K) {
  typedef forward_shape<T, D> S;
#pragma unroll
  for (int t = 0; t < S::TILES; t++)
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) x[t][n][0] = x[t][n][1] = x[t][n][2] = x[t][n][3] = 0;
#pragma unroll
  for (int k = 0; k < D / 16; k++)
#pragma unroll
    for (int n = 0; n < KEY_TILES; n += 2) {
      uint32_t b[4];
      ldmatrix_x4(b, by_columns(K, 8 * n, 16 * k));
#pragma unroll
      for (int t = 0; t < S::TILES; t++) {
        multiply(x[t][n], w.q[t][k], b[0], b[1], T{});
        multiply(x[t][n + 1], w.q[t][k], b[2], b[3], T{});
      }
    }
}

/* Sets what rows i0 .. may not see of keys c0 .. */
template <int TILES>
FA_DEVICE void hide(float (&x)[TILES][KEY_TILES][4], const shape_t &shape, int i0, int c0, float value) {
#pragma unroll
  for (int s = 0; s < 2 * TILES; s++) {
    const int limit = visible(shape, i0 + 8 * s + lane_id() / 4) - c0 - lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (8 * n + e >= limit) x[s / 2][n][s % 2 * 2 + e] = value;
  }
}

/* S becomes P~; m and l take in the new keys, and O what its weight in the sum has become. */
template <class T, int D, int TILES>
FA_DEVICE void softmax(float (&x)[TILES][KEY_TILES][4], forward_warp<T, D> &w, float scale_log2,
                       const shape_t &shape, int i0, int c0) {
  typedef forward_shape<T, D> S;
  const bool partly = visible(shape, i0) < c0 + FORWARD_CHUNK; /* the first row sees the least */
  if (partly) hide(x, shape, not_ahead(i0), c0, -INFINITY);
#pragma unroll
  for (int s = 0; s < S::STATES; s++) {
    float m_new = w.m[s];
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) /* leaves NaN out; it comes back with the sum */
      m_new = fmaxf(m_new, fmaxf(x[s / 2][n][s % 2 * 2], x[s / 2][n][s % 2 * 2 + 1]));
    m_new = fmaxf(m_new, shfl_xor_f32(m_new, 1)); /* the four lanes of a row */
    m_new = fmaxf(m_new, shfl_xor_f32(m_new, 2));

    /* With m = -inf nothing is subtracted: no key so far, or only scores of -inf, whose exponential is 0. */
    const float shift = m_new == -INFINITY ? 0 : m_new;
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float *p = &x[s / 2][n][s % 2 * 2 + e];
        *p = exp2_approx((*p - shift) * scale_log2);
      }
    /* BEGIN SOLUTION */
    /* STUB: w.l[s] = 0; */
    const float kept = w.m[s] == -INFINITY ? 0 : exp2_approx((w.m[s] - shift) * scale_log2);
    w.weight[s] *= kept;
    w.l[s] *= kept;
    /* END SOLUTION */
    count_rescale(lane_id() % 4 == 0 && i0 + 8 * s + lane_id() / 4 < shape.queries, w.m[s] * scale_log2,
                  m_new * scale_log2);
    w.m[s] = m_new;
  }
  if (partly) hide(x, shape, not_ahead(i0), c0, 0); /* with scale 0, -inf has become NaN */
#pragma unroll
  for (int s = 0; s < S::STATES; s++) {
#pragma unroll
    for (int n = 0; n < KEY_TILES; n++) w.l[s] += x[s / 2][n][s % 2 * 2] + x[s / 2][n][s % 2 * 2 + 1];
#pragma unroll
    for (int n = 0; n < S::D_TILES; n++) {
      w.o[s / 2][n][s % 2 * 2] *= w.weight[s];
      w.o[s / 2][n][s % 2 * 2 + 1] *= w.weight[s];
    }
    w.weight[s] = 1;
  }
  count_flop(0, S::STATES * (KEY_TILES * 8 + S::D_TILES * 2 + 4));
}

/* O += P~ V for a chunk of keys. */
template <class T, int D, int TILES>
FA_DEVICE void accumulate(forward_warp<T, D> &w, const float (&x)[TILES][KEY_TILES][4],
                          const row_t<T, D> *V) {
  typedef forward_shape<T, D> S;
#pragma unroll
  for (int k = 0; k < FORWARD_CHUNK / 16; k++) {
    uint32_t p[S::TILES][4];
#pragma unroll
    for (int t = 0; t < S::TILES; t++) pack_block(p[t], x[t][2 * k], x[t][2 * k + 1], T{});
#pragma unroll
    for (int n = 0; n < S::D_TILES; n += 2) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, by_rows(V, 16 * k, 8 * n));
#pragma unroll
      for (int t = 0; t < S::TILES; t++) {
        multiply(w.o[t][n], p[t], b[0], b[1], T{});
        multiply(w.o[t][n + 1], p[t], b[2], b[3], T{});
      }
    }
  }
}

/* O_i = diag(l)^-1 O_i, where l is now the sum over the four lanes of a row. */
template <class T, int D> FA_DEVICE void normalise(forward_warp<T, D> &w) {
  typedef forward_shape<T, D> S;
#pragma unroll
  for (int s = 0; s < S::STATES; s++) {
    w.l[s] += shfl_xor_f32(w.l[s], 1);
    w.l[s] += shfl_xor_f32(w.l[s], 2);
    const bool empty = w.l[s] == 0;
    const float inverse = 1 / w.l[s];
#pragma unroll
    for (int n = 0; n < S::D_TILES; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float *o = &w.o[s / 2][n][s % 2 * 2 + e];
        *o = empty ? 0 : *o * inverse;
      }
  }
}

} // namespace FA_KERNEL_NAMESPACE
#endif
