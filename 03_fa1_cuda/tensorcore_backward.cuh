/* tensorcore_backward.cuh - what a warp of the backward kernel does in registers with its keys, for a chunk of queries:
 *
 *   keys_by_queries   S^T = K Q^T and dP^T = V dO^T
 *   probabilities     S^T becomes P^T
 *   score_gradients   dP^T becomes dS^T
 *   add_product       dV += P^T dO and dK += dS^T Q */
#ifndef FA1_TENSORCORE_BACKWARD_CUH
#define FA1_TENSORCORE_BACKWARD_CUH

#include "tensorcore.cuh"
#include "tensorcore_backward_stats.h"

namespace FA_KERNEL_NAMESPACE {

/* 8-query tiles of a chunk: columns of S^T and dP^T. */
enum { QUERY_TILES = BACKWARD_CHUNK / 8 };

template <class T, int D, int WARPS> struct backward_shape {
  enum {
    KEYS = BACKWARD_KEYS(D), /* of a warp */
    TILES = KEYS / 16,
    Bc = WARPS * KEYS,
    Br = BACKWARD_QUERIES(D, WARPS),
    DEPTH = BACKWARD_DEPTH(WARPS),
    THREADS = 32 * WARPS,
    /* dQ_i is dealt to the warps in parts of 16 rows and half of the columns (d = 128: a quarter, to save registers). */
    DQ_COLUMNS = D == 128 ? 32 : D / 2,
    DQ_TILES = DQ_COLUMNS / 8,
    DQ_ACROSS = D / DQ_COLUMNS,
    DQ_PARTS = Br / 16 * DQ_ACROSS
  };
  static_assert(D % 16 == 0, "FA1_HEAD_DIMS: the product K Q^T takes 16 components at a time");
  static_assert(DQ_COLUMNS % 16 == 0 && D % DQ_COLUMNS == 0,
                "DQ_COLUMNS: of dQ, 16 columns are read at a time");
  static_assert(KEYS > 0 && KEYS % 16 == 0, "BACKWARD_KEYS: a tile of mma has 16 rows");
  static_assert(Br % BACKWARD_CHUNK == 0, "BACKWARD_CHUNK must divide BACKWARD_QUERIES");
  static_assert(STATS_BLOCK % Br == 0,
                "BACKWARD_QUERIES must divide STATS_BLOCK, to which the workspace is rounded up");
};

/* What a warp holds in registers for its keys: x[t][n][2 k + e] is key 16 t + 8 k + lane/4, column 8 n + 2 (lane%4) + e;
 * a column of x is a query, one of dk and dv a component. */
template <class T, int D, int WARPS> struct backward_warp {
  typedef backward_shape<T, D, WARPS> S;
  float dk[S::TILES][D / 8][4], dv[S::TILES][D / 8][4];
  float p[S::TILES][QUERY_TILES][4];         /* S^T, then P^T */
  float x[S::TILES][QUERY_TILES][4];         /* dP^T, then dS^T */
  uint32_t pt[S::TILES][QUERY_TILES / 2][4]; /* P^T, 16-bit: an A operand for each 16 queries */
  uint32_t ds[S::TILES][QUERY_TILES / 2][4]; /* dS^T, likewise */
};

template <class X, int A, int B> FA_DEVICE void clear(X (&x)[A][B][4]) {
#pragma unroll
  for (int a = 0; a < A; a++)
#pragma unroll
    for (int b = 0; b < B; b++) x[a][b][0] = x[a][b][1] = x[a][b][2] = x[a][b][3] = 0;
}

/* out = A B^T for the warp's rows of A (K or V) and a chunk of rows of B (Q or dO). */
template <int DEPTH, class T, int D, int TILES>
FA_DEVICE void keys_by_queries(float (&out)[TILES][QUERY_TILES][4], const row_t<T, D> *a_rows,
                               const row_t<T, D> *b_rows) {
  clear(out);
#pragma unroll DEPTH
  for (int k = 0; k < D / 16; k++) {
    uint32_t a[TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++) ldmatrix_x4(a[t], by_rows(a_rows, 16 * t, 16 * k));
#pragma unroll
    for (int n = 0; n < QUERY_TILES; n += 2) {
      uint32_t b[4];
      ldmatrix_x4(b, by_columns(b_rows, 8 * n, 16 * k));
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        multiply(out[t][n], a[t], b[0], b[1], T{});
        multiply(out[t][n + 1], a[t], b[2], b[3], T{});
      }
    }
  }
}

/* sum += A B, where A (P^T or dS^T) is in registers and B is a chunk of rows of dO or Q. */
template <class T, int D, int TILES>
FA_DEVICE void add_product(float (&sum)[TILES][D / 8][4], const uint32_t (&a)[TILES][QUERY_TILES / 2][4],
                           const row_t<T, D> *b_rows) {
#pragma unroll
  for (int k = 0; k < BACKWARD_CHUNK / 16; k++)
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, by_rows(b_rows, 16 * k, 8 * n));
#pragma unroll
      for (int t = 0; t < TILES; t++) {
        multiply(sum[t][n], a[t][k], b[0], b[1], T{});
        multiply(sum[t][n + 1], a[t][k], b[2], b[3], T{});
      }
    }
}

/* x = 0 where queries i .. may not see keys key .. */
template <int TILES>
FA_DEVICE void hide(float (&x)[TILES][QUERY_TILES][4], const shape_t &shape, int i, int key) {
#pragma unroll
  for (int s = 0; s < 2 * TILES; s++) {
    const int j = key + 8 * s + lane_id() / 4;
    const int since = j >= shape.keys ? BACKWARD_CHUNK : first_query(shape, j) - i - lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < QUERY_TILES; n++)
#pragma unroll
      for (int e = 0; e < 2; e++)
        if (8 * n + e < since) x[s / 2][n][s % 2 * 2 + e] = 0;
  }
}

/* S^T becomes P^T = exp(tau S^T - LSE). */
template <int TILES>
FA_DEVICE void probabilities(float (&x)[TILES][QUERY_TILES][4], const row_stats_t *stats, float tau) {
#pragma unroll
  for (int n = 0; n < QUERY_TILES; n++) {
    float lse_d[4]; /* of two neighbouring queries */
    ld_shared_f32x4(lse_d, stats + 8 * n + lane_id() % 4 * 2);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        x[t][n][e] = exp2_approx((mul_rn(tau, x[t][n][e]) - lse_d[e % 2 * 2]) * LOG2E);
  }
}

/* dP^T becomes dS^T = P^T o (dP^T - D). */
template <int TILES>
FA_DEVICE void score_gradients(float (&x)[TILES][QUERY_TILES][4], const float (&p)[TILES][QUERY_TILES][4],
                               const row_stats_t *stats) {
#pragma unroll
  for (int n = 0; n < QUERY_TILES; n++) {
    float lse_d[4];
    ld_shared_f32x4(lse_d, stats + 8 * n + lane_id() % 4 * 2);
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
      for (int k = 0; k < 2; k++) {
        /* BEGIN SOLUTION */
        /* STUB: x[t][n][2 * k] = 0 * (p[t][n][2 * k] + lse_d[1]); */
        /* STUB: x[t][n][2 * k + 1] = 0 * (p[t][n][2 * k + 1] + lse_d[3]); */
        x[t][n][2 * k] = p[t][n][2 * k] * (x[t][n][2 * k] - lse_d[1]);
        x[t][n][2 * k + 1] = p[t][n][2 * k + 1] * (x[t][n][2 * k + 1] - lse_d[3]);
        /* END SOLUTION */
      }
  }
}

/* In 16 bit: an A operand for each 16 queries. */
template <class T, int TILES>
FA_DEVICE void pack(uint32_t (&a)[TILES][QUERY_TILES / 2][4], const float (&x)[TILES][QUERY_TILES][4],
                    T type) {
#pragma unroll
  for (int t = 0; t < TILES; t++)
#pragma unroll
    for (int k = 0; k < QUERY_TILES / 2; k++) pack_block(a[t][k], x[t][2 * k], x[t][2 * k + 1], type);
}

} // namespace FA_KERNEL_NAMESPACE
#endif
