/* tensorcore.cuh - what the kernels of step `tensorcore` share: tiles in shared memory, and products of 16 x 8 blocks.
 *
 * A tile is an array of rows, one query or key each. ldmatrix brings four 8 x 8 blocks of it into a warp's registers;
 * each lane names one row of one block. Of the 16 x 16 elements at (row, column), two orders are needed:
 *
 *   by_rows:     block 0 | block 2     lane l names row l % 16, columns 8 (l / 16) ...
 *                block 1 | block 3
 *   by_columns:  block 0 | block 1     lane l names row 8 (l / 16) + l % 8, columns 8 (l / 8 % 2) ...
 *                block 2 | block 3
 *
 * which, together with .trans, give every operand (mma's registers are described in ptx/matrix.h):
 *
 *   stored as           used as                       instruction             registers
 *   rows of A           A                             ldmatrix by_rows        a[0 .. 3]
 *   columns of A        A (the tile is A^T)           .trans by_columns       a[0 .. 3]
 *   columns of B        B (the tile is B^T)           ldmatrix by_columns     b[0], b[1] | b[2], b[3]
 *   rows of B           B                             .trans by_rows          for columns 0-7 | 8-15 of B */
#ifndef FA1_TENSORCORE_CUH
#define FA1_TENSORCORE_CUH

#include "config.h"
#include "ptx/arith.h"
#include "ptx/convert.h"
#include "ptx/copy.h"
#include "ptx/count.h"
#include "ptx/limits.h"
#include "ptx/matrix.h"
#include "ptx/memory.h"
#include "ptx/warp.h"
#include "ptx/rows.h"
#include "ptx/shape.h"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

#define LOG2E 1.4426950408889634f /* exp(x) = 2^(x log2 e) */

template <class T, int D> struct row_t { T x[D + ROW_PADDING]; };

/* How memory may be accessed; told by the launcher, the same for all threads. */
typedef struct access {
  bool aligned; /* every row of every input begins at a multiple of 16 bytes */
  bool pairs;   /* every row of every output begins at a multiple of 4 bytes */
} access_t;

/* --- HBM to shared memory ---------------------------------------------------------------------------------- */

/* Rows row0 .. row0 + rows - 1 of one head, by `threads` threads of which this is number `thread`. Rows outside
 * low .. high - 1 are not read but 0, whatever memory holds there: a hidden NaN would survive multiplication by P = 0.
 * From sm_80 on the copy is asynchronous: commit_copies, wait_for_copies, and a barrier make it visible. */
template <class T, int D>
FA_DEVICE void copy_rows(row_t<T, D> *to, int rows, const T *head, int64_t stride, int row0, int low,
                         int high, bool aligned, int thread, int threads) {
  enum { PIECES = D / 8 };
#pragma unroll 1 /* what it would gain is little beside the registers that it would take from the products */
  for (int n = not_ahead(thread); n < rows * PIECES; n += threads) {
    const int r = n / PIECES, c = n % PIECES * 8, row = row0 + r;
    const bool there = row >= low && row < high;
    const T *from = head + (there ? row * stride : 0) + c;
    if (aligned && target_sm() >= 80) {
      cp_async_16(&to[r].x[c], from, there ? 16 : 0);
    } else {
      uint32_t piece[4] = {};
      if (there && aligned)
        ld_global_b32x4(piece, from);
      else if (there)
        gather(piece, from);
      st_shared_b32x4(&to[r].x[c], piece);
    }
  }
}
FA_DEVICE void commit_copies(void) {
  if (target_sm() >= 80) cp_async_commit();
}
FA_DEVICE void wait_for_copies(void) {
  if (target_sm() >= 80) cp_async_wait<0>();
}

/* --- shared memory to registers, and products -------------------------------------------------------------- */

template <class T, int D> FA_DEVICE const T *by_rows(const row_t<T, D> *tile, int row, int column) {
  return &tile[row + lane_id() % 16].x[column + lane_id() / 16 * 8];
}
template <class T, int D> FA_DEVICE const T *by_columns(const row_t<T, D> *tile, int row, int column) {
  return &tile[row + lane_id() / 16 * 8 + lane_id() % 8].x[column + lane_id() / 8 % 2 * 8];
}

/* D [16][8] += A [16][16] B [16][8]: one instruction from sm_80 on; sm_75 does half of the depth at a time, and has no
 * bf16. */
FA_DEVICE void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, fp16_t type) {
  if (target_sm() >= 80) {
    mma_m16n8k16(d, a, b0, b1, type);
  } else {
    const uint32_t first[2] = {a[0], a[1]}, second[2] = {a[2], a[3]};
    mma_m16n8k8(d, first, b0, type);
    mma_m16n8k8(d, second, b1, type);
  }
}
FA_DEVICE void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, bf16_t type) {
  mma_m16n8k16(d, a, b0, b1, type);
}

/* --- registers to HBM -------------------------------------------------------------------------------------- */

/* Two neighbouring elements of a row. */
template <class T> FA_DEVICE void store_pair(T *to, float x, float y, bool pairs) {
  if (pairs) {
    st_global_b32(to, pack_f32(x, y, T{}));
  } else {
    from_f32(x, &to[0]);
    from_f32(y, &to[1]);
  }
}

} // namespace FA_KERNEL_NAMESPACE
#endif
