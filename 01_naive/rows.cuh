/* rows.cuh - how the threads of a block share a row of an N x N matrix.
 *
 * A row of N columns is read by 32 * WARPS threads, each of which takes groups of 4 neighbours (16 bytes)
 * and holds up to 8 groups in registers:
 *
 *     columns   0-3   4-7   8-11  ...  | 4T .. 4T+3  ...        T = 32 * WARPS threads
 *     thread    0     1     2     ...  | 0           ...        8 * 4T columns are one segment
 *
 * Columns from n on, which the query may not see, are left out by a select: whatever they and the padding
 * hold stays there. Only groups that reach beyond n need it. */
#ifndef NAIVE_ROWS_CUH
#define NAIVE_ROWS_CUH

#include "indices.cuh"
#include "ptx/convert.h"
#include "ptx/launch.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

enum {
  GROUP = 4,         /* columns in one load */
  GROUPS = 8,        /* loads of a thread in one segment: enough bytes in flight to fill the memory */
  LONG_ROW_WARPS = 8 /* share a row of more than 1024 columns; a shorter one has one warp, and no barrier */
};

/* What a thread holds of a segment. */
typedef float held_t[GROUPS][GROUP];

/* A block has 4 rows of one warp each, or one row of 8 warps. */
template <int WARPS> struct row_shape {
  enum {
    ROW_THREADS = 32 * WARPS,
    THREADS = WARPS == 1 ? 128 : ROW_THREADS,
    ROWS = THREADS / ROW_THREADS,
    STEP = ROW_THREADS * GROUP, /* columns from a thread's group to its next */
    SEGMENT = STEP * GROUPS
  };
};

/* One float per warp, for sums and maxima over a row. */
typedef struct partials {
  float of_warp[LONG_ROW_WARPS];
} partials_t;

/* The maximum, or the sum, of x over the threads of a row; each of them gets it. */
template <int WARPS, bool MAXIMUM> FA_DEVICE float reduce_row(float x, partials_t &scratch) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    float other = shfl_xor_f32(x, mask);
    x = MAXIMUM ? fmaxf(x, other) : x + other;
  }
  if (WARPS > 1) {
    if (threadIdx.x % 32 == 0) scratch.of_warp[threadIdx.x / 32] = x;
    __syncthreads(); /* every warp has written its part */
    x = scratch.of_warp[0];
#pragma unroll
    for (int w = 1; w < WARPS; w++) x = MAXIMUM ? fmaxf(x, scratch.of_warp[w]) : x + scratch.of_warp[w];
    __syncthreads(); /* every thread has read them: the scratch may be used again */
  }
  return x;
}

/* The first column of the thread's group k in a segment. */
template <int WARPS> FA_DEVICE int column_of(int segment, int k) {
  typedef row_shape<WARPS> shape;
  return segment * shape::SEGMENT + k * shape::STEP + (int)(threadIdx.x % shape::ROW_THREADS) * GROUP;
}

/* x = other from column n on. */
template <int WARPS> FA_DEVICE void hide(held_t &x, int segment, int n, float other) {
#pragma unroll
  for (int k = 0; k < GROUPS; k++) {
    const int column = column_of<WARPS>(segment, k);
    if (column + GROUP > n) {
#pragma unroll
      for (int e = 0; e < GROUP; e++) x[k][e] = column + e < n ? x[k][e] : other;
    }
  }
}

/* x = the segment's elements of a row; hide() must follow, for nothing, or padding, lies behind column n. */
template <int WARPS> FA_DEVICE void load_segment(held_t &x, const float *row, int segment, int n) {
  const float *from = row + column_of<WARPS>(segment, 0);
#pragma unroll
  for (int k = 0; k < GROUPS; k++)
    if (column_of<WARPS>(segment, k) < n) ld_global_f32x4(x[k], from + k * row_shape<WARPS>::STEP);
}

FA_DEVICE void store_group(float *to, const float (&x)[GROUP]) {
  st_global_f32x4(to, x);
}
template <class T> FA_DEVICE void store_group(T *to, const float (&x)[GROUP]) {
  st_global_b32x2(to, pack_f32(x[0], x[1], T()), pack_f32(x[2], x[3], T()));
}

template <int WARPS, class T> FA_DEVICE void store_as(T *row, const held_t &x, int segment, int columns) {
  T *to = row + column_of<WARPS>(segment, 0);
#pragma unroll
  for (int k = 0; k < GROUPS; k++)
    if (column_of<WARPS>(segment, k) < columns) store_group(to + k * row_shape<WARPS>::STEP, x[k]);
}

/* Writes the segment of a row that begins at element `row` and has `columns` columns; the padding behind them
 * may be written too. The type is known only when the kernel runs, and is the same for all threads: one
 * kernel for each type would compile three times as long and run no faster. */
template <int WARPS>
FA_DEVICE void store_segment(fa_dtype_t dtype, void *matrix, int64_t row, const held_t &x, int segment,
                             int columns) {
  if (dtype == FA_FP16)
    store_as<WARPS>((fp16_t *)matrix + row, x, segment, columns);
  else if (dtype == FA_BF16)
    store_as<WARPS>((bf16_t *)matrix + row, x, segment, columns);
  else
    store_as<WARPS>((float *)matrix + row, x, segment, columns);
}

/* Which row a thread works on. */
typedef struct score_row {
  bool there;         /* the last block of a head may have rows to spare */
  uint32_t head;      /* (b, h), counted through: there are no more heads than blocks */
  int64_t at;         /* (b, h, i), counted through */
  int n;              /* how many keys this query sees */
  int columns;        /* how many must be written */
  int segments, last; /* segments with visible columns, and all */
} score_row_t;

template <int WARPS, bool ONE_SEGMENT>
FA_DEVICE score_row_t find_row(const fa_problem_t &p, uint32_t blocks_per_head) {
  typedef row_shape<WARPS> shape;
  const int row = threadIdx.x / shape::ROW_THREADS;
  const row_place_t place = row_of_block(blockIdx.x, blocks_per_head, shape::ROWS, row, p.seq_q);
  score_row_t r;
  r.there = place.i < p.seq_q;
  r.head = place.head;
  r.at = place.at;
  r.n = r.there ? (int)fa_visible(&p, fa_keys(&p, r.head / (uint32_t)p.heads_q), place.i) : 0;
  r.columns = r.there ? (int)p.seq_k : 0;
  /* Where one segment is enough, the compiler knows it, and unrolls the loops over segments. */
  r.segments = ONE_SEGMENT ? 1 : (r.n + shape::SEGMENT - 1) / shape::SEGMENT;
  r.last = ONE_SEGMENT ? 1 : ((int)p.seq_k + shape::SEGMENT - 1) / shape::SEGMENT;
  return r;
}

} // namespace FA_KERNEL_NAMESPACE
#endif
