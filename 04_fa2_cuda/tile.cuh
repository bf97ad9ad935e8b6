/* tile.cuh - tiles in shared memory, and products of 16 x 8 blocks.
 *
 * A tile is an array of rows, one query or key each, cut into chunks of 8 elements: 16 bytes, what a lane copies and what
 * ldmatrix reads of a row. Eight rows of the same chunk are one 8 x 8 block; the banks of shared memory are 128 bytes wide,
 * so that these eight must lie in eight different 16-byte columns of them, or they are read one after another:
 *
 *   plain_row     chunk c lies at c. Rows of 128 bytes and more: all eight in one column, eight passes.
 *   swizzled_row  chunk c of row r lies at c ^ (r % 8), as here at d = 64; no byte more is needed.
 *
 *        row 0   0 1 2 3 4 5 6 7
 *        row 1   1 0 3 2 5 4 7 6
 *        row 2   2 3 0 1 6 7 4 5       the same chunk of eight rows: eight columns
 *        ...
 *
 * Of a row of 64 or 192 bytes (d = 32, 96) the next row begins half of the banks further on: there c ^ (r / 2 % 4) does it.
 * A tile begins at a multiple of 8 rows.
 *
 * Of 16 x 16 elements, two orders of the four blocks are needed:
 *
 *   by_rows:     block 0 | block 2     lane l names row l % 16, chunk l / 16
 *                block 1 | block 3
 *   by_columns:  block 0 | block 1     lane l names row 8 (l / 16) + l % 8, chunk l / 8 % 2
 *                block 2 | block 3
 *
 *   stored as           used as                       instruction             registers (ptx/matrix.h)
 *   rows of A           A                             ldmatrix by_rows        a[0 .. 3]
 *   columns of B        B (the tile is B^T)           ldmatrix by_columns     b[0], b[1] | b[2], b[3]
 *   rows of B           B                             .trans by_rows          for columns 0-7 | 8-15 of B */
#ifndef FA2_TILE_CUH
#define FA2_TILE_CUH

#include "config.h"
#include "ptx/arith.h"
#include "ptx/convert.h"
#include "ptx/copy.h"
#include "ptx/count.h"
#include "ptx/limits.h"
#include "ptx/matrix.h"
#include "ptx/memory.h"
#include "ptx/rows.h"
#include "ptx/shape.h"
#include "ptx/warp.h"

namespace FA_KERNEL_NAMESPACE {

template <class TYPE, int DIM> struct plain_row {
  typedef TYPE T;
  enum { D = DIM };
  T x[D];
  FA_DEVICE int place(int row, int chunk) {
    (void)row;
    return chunk;
  }
};
template <class TYPE, int DIM> struct swizzled_row {
  typedef TYPE T;
  enum { D = DIM };
  T x[D];
  FA_DEVICE int place(int row, int chunk) { return D % 64 == 0 ? chunk ^ row % 8 : chunk ^ row / 2 % 4; }
};

template <class R> FA_DEVICE typename R::T *chunk_of(R *tile, int row, int chunk) {
  return &tile[row].x[8 * R::place(row, chunk)];
}
template <class R> FA_DEVICE const typename R::T *chunk_of(const R *tile, int row, int chunk) {
  return &tile[row].x[8 * R::place(row, chunk)];
}

/* The row of four 8 x 8 blocks that this lane names; `column` is a multiple of 16, `row` of 8. */
template <class R>
FA_DEVICE const typename R::T *by_rows(const R *tile, int row, int column, int lane = lane_id()) {
  return chunk_of(tile, row + lane % 16, column / 8 + lane / 16);
}
template <class R> FA_DEVICE const typename R::T *by_columns(const R *tile, int row, int column) {
  return chunk_of(tile, row + lane_id() / 16 * 8 + lane_id() % 8, column / 8 + lane_id() / 8 % 2);
}

/* Rows row0 .. row0 + ROWS - 1 of one head on their way to shared memory, by THREADS threads of which this is number
 * `thread`. Rows that do not exist are not read but 0, whatever memory holds there: a hidden NaN would survive
 * multiplication by P = 0. cp_async_commit, cp_async_wait and a barrier make them visible. */
template <int ROWS, int THREADS, class R, class T>
FA_DEVICE void copy_rows(R *to, const T *head, int64_t stride, int row0, int rows, bool aligned, int thread) {
  enum { CHUNKS = R::D / 8 };
  const int me = not_ahead(thread); /* addresses are computed here, not kept in registers between blocks */
  if (!aligned) {
#pragma unroll 1
    for (int n = me; n < ROWS * CHUNKS; n += THREADS) {
      const int r = n / CHUNKS, c = n % CHUNKS;
      uint32_t piece[4] = {};
      if (row0 + r < rows) gather(piece, head + (row0 + r) * stride + 8 * c);
      st_shared_b32x4(chunk_of(to, r, c), piece);
    }
    return;
  }
#pragma unroll 2 /* more of them at a time would take registers from the products */
  for (int n = me; n < ROWS * CHUNKS; n += THREADS) {
    const int r = n / CHUNKS, c = n % CHUNKS;
    const bool there = row0 + r < rows;
    cp_async_16(chunk_of(to, r, c), head + (there ? (row0 + r) * stride : 0) + 8 * c, there ? 16 : 0);
  }
}

template <class X, int A, int B> FA_DEVICE void clear(X (&x)[A][B][4]) {
#pragma unroll
  for (int a = 0; a < A; a++)
#pragma unroll
    for (int b = 0; b < B; b++) x[a][b][0] = x[a][b][1] = x[a][b][2] = x[a][b][3] = 0;
}

} // namespace FA_KERNEL_NAMESPACE
#endif
