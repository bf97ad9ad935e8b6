/* paper.cuh - what the kernels of step `paper` do with blocks in shared memory. A product's rows and columns are dealt
 * to 16 x 16 threads: thread (ty, tx) owns elements (ty + 16 a, tx + 16 b). */
#ifndef FA1_PAPER_CUH
#define FA1_PAPER_CUH

#include "config.h"
#include "ptx/arith.h"
#include "ptx/convert.h"
#include "ptx/count.h"
#include "ptx/warp.h"
#include "ptx/shape.h"

namespace FA_KERNEL_NAMESPACE {

template <int D> struct paper_shape {
  enum { Bc = PAPER_KEYS(D), Br = PAPER_QUERIES(D) };
  static_assert(D % 16 == 0, "FA1_HEAD_DIMS: 16 threads share the columns of O, dQ, dK and dV");
  static_assert(Bc % 16 == 0, "PAPER_KEYS must be a multiple of 16: 16 threads share the columns of S");
  static_assert(Br % 16 == 0, "PAPER_QUERIES must be a multiple of 16: 16 threads share the rows of S");
  static_assert(PAPER_THREADS % Br == 0,
                "PAPER_QUERIES must divide PAPER_THREADS: as many for each row of S");
};

/* One head of a tensor. */
template <class T> FA_DEVICE T *head_of(const fa_tensor_t &t, int64_t b, int64_t h) {
  return (T *)t.data + fa_row(&t, b, h, 0);
}

/* HBM to SRAM: rows row0 .. of one head. Rows outside low .. high - 1 are not read but 0, whatever memory holds there:
 * a hidden NaN would survive multiplication by P = 0. */
template <class T, int D, int ROWS, int PITCH>
FA_DEVICE void load_block(T (&block)[ROWS][PITCH], const T *head, int64_t stride, int row0, int low,
                          int high) {
  for (int n = (int)threadIdx.x; n < ROWS * D; n += PAPER_THREADS) {
    const int row = row0 + n / D;
    block[n / D][n % D] = row >= low && row < high ? head[row * stride + n % D] : T{0};
  }
}

/* acc(r, c) += sum_t A(r, t) B(c, t): A B^T */
template <int DEPTH, int R, int C, class A, int PA, class B, int PB>
FA_DEVICE void add_rows_by_rows(float (&acc)[R][C], const A (*a)[PA], const B (*b)[PB]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll 4
  for (int t = 0; t < DEPTH; t++) {
    float y[C];
#pragma unroll
    for (int c = 0; c < C; c++) y[c] = to_f32(b[tx + 16 * c][t]);
#pragma unroll
    for (int r = 0; r < R; r++) {
      const float x = to_f32(a[ty + 16 * r][t]);
#pragma unroll
      for (int c = 0; c < C; c++) acc[r][c] = fmaf(x, y[c], acc[r][c]);
    }
  }
  count_flop(2.0 * DEPTH * R * C, 0);
}

/* acc(r, c) += sum_t A(r, t) B(t, c): A B, or with TRANSPOSED sum_t A(t, r) B(t, c): A^T B */
template <int DEPTH, bool TRANSPOSED, int R, int C, class A, int PA, class B, int PB>
FA_DEVICE void add_rows_by_columns(float (&acc)[R][C], const A (*a)[PA], const B (*b)[PB]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll 4
  for (int t = 0; t < DEPTH; t++) {
    float y[C];
#pragma unroll
    for (int c = 0; c < C; c++) y[c] = to_f32(b[t][tx + 16 * c]);
#pragma unroll
    for (int r = 0; r < R; r++) {
      const float x = to_f32(TRANSPOSED ? a[t][ty + 16 * r] : a[ty + 16 * r][t]);
#pragma unroll
      for (int c = 0; c < C; c++) acc[r][c] = fmaf(x, y[c], acc[r][c]);
    }
  }
  count_flop(2.0 * DEPTH * R * C, 0);
}

/* The sum, or the maximum, over `lanes` neighbouring lanes: a power of two. */
FA_DEVICE float sum_over(float x, int lanes) {
  for (int mask = 1; mask < lanes; mask *= 2) x += shfl_xor_f32(x, mask);
  return x;
}
FA_DEVICE float max_over(float x, int lanes) {
  for (int mask = 1; mask < lanes; mask *= 2) x = fmaxf(x, shfl_xor_f32(x, mask));
  return x;
}

} // namespace FA_KERNEL_NAMESPACE
#endif
