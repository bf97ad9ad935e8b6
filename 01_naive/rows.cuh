/* rows.cuh - how the threads of a block share a row of an N x N matrix.
 *
 * A row of N columns is read by 32 * WARPS threads, each of which takes groups of 4 neighbours (16 bytes)
 * and holds up to 8 groups in registers:
 *
 *     columns   0-3   4-7   8-11  ...  | 4T .. 4T+3  ...        T = 32 * WARPS threads
 *     thread    0     1     2     ...  | 0           ...        8 * 4T columns are one segment
 *
 * Columns from n on, which the query may not see, are left out by a select: whatever they and the padding
 * hold stays there. */
#ifndef NAIVE_ROWS_CUH
#define NAIVE_ROWS_CUH

#include "ptx/arith.h"
#include "ptx/convert.h"
#include "ptx/launch.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

enum {
  GROUP = 4,             /* columns in one load */
  GROUPS = 8,            /* loads of a thread in one segment: enough bytes in flight to fill the memory */
  HELD = GROUP * GROUPS, /* columns that a thread holds */
  LONG_ROW_WARPS = 8 /* share a row of more than 1024 columns; a shorter one has one warp, and no barrier */
};

/* A block has 4 rows of one warp each, or one row of 8 warps. */
template <int WARPS> struct row_shape {
  enum {
    THREADS = WARPS == 1 ? 128 : 32 * WARPS,
    ROWS = THREADS / (32 * WARPS),
    SEGMENT = 32 * WARPS * HELD
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

/* Where the thread's group k of a segment begins. */
template <int WARPS> FA_DEVICE int column_of(int segment, int k) {
  return (segment * GROUPS + k) * (32 * WARPS * GROUP) + (int)(threadIdx.x % (32 * WARPS)) * GROUP;
}

/* x = the segment's elements of a row; 0 from column n on. */
template <int WARPS> FA_DEVICE void load_segment(float (&x)[HELD], const float *row, int segment, int n) {
#pragma unroll
  for (int k = 0; k < GROUPS; k++) {
    const int column = column_of<WARPS>(segment, k);
    float group[GROUP] = {};
    if (column < n) ld_global_f32x4(group, row + column);
#pragma unroll
    for (int e = 0; e < GROUP; e++) x[k * GROUP + e] = column + e < n ? group[e] : 0;
  }
}

/* 4 neighbours, converted. The type is known only when the kernel runs, and is the same for all threads: one
 * kernel for each type would compile three times as long and run no faster. */
FA_DEVICE void store_group(fa_dtype_t dtype, void *matrix, int64_t at, const float (&x)[GROUP]) {
  if (dtype == FA_FP16)
    st_global_b32x2((fp16_t *)matrix + at, pack_f32(x[0], x[1], fp16_t()), pack_f32(x[2], x[3], fp16_t()));
  else if (dtype == FA_BF16)
    st_global_b32x2((bf16_t *)matrix + at, pack_f32(x[0], x[1], bf16_t()), pack_f32(x[2], x[3], bf16_t()));
  else
    st_global_f32x4((float *)matrix + at, x);
}

/* Writes the segment of a row that begins at element `row` and has `columns` columns; the padding behind them
 * may be written too. */
template <int WARPS>
FA_DEVICE void store_segment(fa_dtype_t dtype, void *matrix, int64_t row, const float (&x)[HELD], int segment,
                             int columns) {
#pragma unroll
  for (int k = 0; k < GROUPS; k++) {
    const int column = column_of<WARPS>(segment, k);
    const float group[GROUP] = {x[k * GROUP], x[k * GROUP + 1], x[k * GROUP + 2], x[k * GROUP + 3]};
    if (column < columns) store_group(dtype, matrix, row + column, group);
  }
}

/* Which row a thread works on. */
typedef struct score_row {
  bool there;         /* the last block of a head may have rows to spare */
  int64_t head, at;   /* (b, h) and (b, h, i), counted through */
  int n;              /* how many keys this query sees */
  int columns;        /* how many must be written */
  int segments, last; /* segments with visible columns, and all */
} score_row_t;

/* Blocks count through the rows of the heads from first_head on, blocks_per_head to each head. */
template <int WARPS, bool ONE_SEGMENT>
FA_DEVICE score_row_t find_row(const fa_problem_t &p, int64_t first_head, uint32_t blocks_per_head) {
  const int segment = row_shape<WARPS>::SEGMENT;
  const int64_t i =
      (int64_t)(blockIdx.x % blocks_per_head) * row_shape<WARPS>::ROWS + threadIdx.x / (32 * WARPS);
  score_row_t r;
  r.there = i < p.seq_q;
  r.head = first_head + blockIdx.x / blocks_per_head;
  r.at = r.head * p.seq_q + i;
  r.n = r.there ? (int)fa_visible(&p, fa_keys(&p, r.head / p.heads_q), i) : 0;
  /* Where one segment is enough, the compiler knows it, and unrolls the loops over segments. */
  r.segments = ONE_SEGMENT ? 1 : (r.n + segment - 1) / segment;
  r.last = ONE_SEGMENT ? 1 : ((int)p.seq_k + segment - 1) / segment;
  r.columns = r.there ? (int)p.seq_k : 0;
  return r;
}

} // namespace FA_KERNEL_NAMESPACE
#endif
