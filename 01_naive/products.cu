/* products.cu - matrix products as a plain tiled kernel: written to be read.
 *
 * A block computes a tile of C, 64 x 64, and walks along the summed index t in steps of 32:
 *
 *                      | t ->  32 |            A tile, transposed in shared memory: a[t][r]
 *      C tile    = sum |  A tile  | x B tile   B tile: b[t][c]
 *      64 x 64         |  64 x 32 |            256 threads; thread (ty, tx) owns the 4 x 4 elements
 *                                              C(ty + 16 i, tx + 16 j)
 *
 * Each element that is loaded is used 64 times. Each row of C has its own range low <= t < high of pairs that
 * the mask lets through; a tile that lies within the ranges of a thread's four rows takes the short way. */
#include "indices.cuh"
#include "ptx/convert.h"
#include "ptx/count.h"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

enum {
  TILE = 64,          /* rows and columns of C */
  TILE_DEPTH = 32,    /* a warp reads 32 neighbours: 64 bytes in 16-bit types, whole sectors */
  TILE_THREADS = 256, /* 16 x 16 */
  PER_THREAD = 4      /* TILE / 16 */
};

typedef struct tiles {
  /* One column more than needed: a column of a tile then lies in 32 different banks, not in one. */
  float a[TILE_DEPTH][TILE + 1], b[TILE_DEPTH][TILE + 1];
} tiles_t;

/* tile[t][x] = element (row0 + x, col0 + t): a warp reads along a row of memory and writes a tile column. */
FA_DEVICE void load_rows(float (*tile)[TILE + 1], const plane_t &m, int row0, int col0) {
  const int t = threadIdx.x % TILE_DEPTH;
#pragma unroll 4
  for (int x = threadIdx.x / TILE_DEPTH; x < TILE; x += TILE_THREADS / TILE_DEPTH) {
    const bool there = row0 + x < m.rows && col0 + t < m.cols;
    tile[t][x] = there ? load_element(m.dtype, m.data, element_of(m, row0 + x, col0 + t)) : 0.0f;
  }
}

/* tile[t][x] = element (row0 + t, col0 + x), with rows whose LSE is -inf taken as 0 where `lse` is given. */
FA_DEVICE void load_columns(float (*tile)[TILE + 1], const plane_t &m, int row0, int col0, const float *lse) {
  const int x = threadIdx.x % TILE;
#pragma unroll 4
  for (int t = threadIdx.x / TILE; t < TILE_DEPTH; t += TILE_THREADS / TILE) {
    const bool there = row0 + t < m.rows && col0 + x < m.cols && !(lse && lse[row0 + t] == -INFINITY);
    tile[t][x] = there ? load_element(m.dtype, m.data, element_of(m, row0 + t, col0 + x)) : 0.0f;
  }
}

/* The LSE of query 0 of a head. */
FA_DEVICE const float *lse_of(const fa_problem_t &p, int64_t b, int64_t h) {
  return p.lse + (b * p.heads_q + h) * p.seq_q;
}

/* Row r of C is the sum over low <= t < high. */
template <product_t KIND>
FA_DEVICE void range_of_row(const fa_problem_t &p, int64_t keys, const float *lse, int r,
                            const product_sizes_t &size, int *low, int *high) {
  *low = *high = 0;
  if (r < size.rows) {
    if (KIND == ROWS_BY_ROWS) *high = (int)size.depth;
    /* A query whose scores are all -inf is treated like one that sees no key. */
    if (KIND == SCORES_BY_ROWS) *high = lse[r] == -INFINITY ? 0 : (int)fa_visible(&p, keys, r);
    if (KIND == SCORES_T_BY_ROWS && r < keys) {
      *low = (int)fa_first_query(&p, keys, r);
      *high = (int)size.depth;
    }
  }
}

/* acc += the outer products of the tiles' columns, each row within its range. */
template <bool WHOLE>
FA_DEVICE void add_tile(float (&acc)[PER_THREAD][PER_THREAD], const tiles_t &tile, int t0,
                        const int (&low)[PER_THREAD], const int (&high)[PER_THREAD]) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  count_flop(2.0 * TILE_DEPTH * PER_THREAD * PER_THREAD, 0); /* hidden pairs of a tile take their time too */
#pragma unroll 8
  for (int t = 0; t < TILE_DEPTH; t++) {
    float b[PER_THREAD];
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++) b[j] = tile.b[t][tx + 16 * j];
#pragma unroll
    for (int i = 0; i < PER_THREAD; i++) {
      const float a = tile.a[t][ty + 16 * i];
      if (WHOLE || (t0 + t >= low[i] && t0 + t < high[i])) {
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++) acc[i][j] = fmaf(a, b[j], acc[i][j]);
      }
    }
  }
}

/* One tile of C for one head. */
template <product_t KIND>
FA_DEVICE void multiply_tile(const fa_problem_t &p, const matrix_t &a, const matrix_t &b, const matrix_t &c,
                             const product_sizes_t &size, float factor, int64_t batch, int64_t head, int r0,
                             int c0, tiles_t &tile) {
  const int64_t keys = fa_keys(&p, batch), group = p.heads_q / p.heads_kv;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;

  int low[PER_THREAD], high[PER_THREAD];
  const float *lse = KIND == SCORES_BY_ROWS ? lse_of(p, batch, head) : NULL;
#pragma unroll
  for (int i = 0; i < PER_THREAD; i++)
    range_of_row<KIND>(p, keys, lse, r0 + ty + 16 * i, size, &low[i], &high[i]);

  /* What the rows of the tile need together: from row to row, ranges begin and end later. */
  int begin = 0, end = (int)size.depth;
  if (KIND == SCORES_BY_ROWS)
    end = (int)fa_visible(&p, keys, (r0 + TILE < size.rows ? r0 + TILE : size.rows) - 1);
  if (KIND == SCORES_T_BY_ROWS) {
    begin = r0 < keys ? (int)fa_first_query(&p, keys, r0) / TILE_DEPTH * TILE_DEPTH : 0;
    end = r0 < keys ? end : 0;
  }

  float acc[PER_THREAD][PER_THREAD] = {};
  for (int64_t g = 0; g < (KIND == SCORES_T_BY_ROWS ? group : 1); g++) {
    const int64_t q_head = KIND == SCORES_T_BY_ROWS ? head * group + g : head, kv_head = q_head / group;
    const plane_t a_head = KIND == SCORES_T_BY_ROWS ? plane_of(a, batch, q_head, size.depth, size.rows)
                                                    : plane_of(a, batch, q_head, size.rows, size.depth);
    const plane_t b_head = KIND == ROWS_BY_ROWS     ? plane_of(b, batch, kv_head, size.cols, size.depth)
                           : KIND == SCORES_BY_ROWS ? plane_of(b, batch, kv_head, size.depth, size.cols)
                                                    : plane_of(b, batch, q_head, size.depth, size.cols);
    for (int t0 = begin; t0 < end; t0 += TILE_DEPTH) {
      if (KIND == SCORES_T_BY_ROWS)
        load_columns(tile.a, a_head, t0, r0, NULL);
      else
        load_rows(tile.a, a_head, r0, t0);
      if (KIND == ROWS_BY_ROWS)
        load_rows(tile.b, b_head, c0, t0);
      else
        load_columns(tile.b, b_head, t0, c0, KIND == SCORES_BY_ROWS ? NULL : lse_of(p, batch, q_head));
      __syncthreads(); /* both tiles are complete */
      bool whole = true;
#pragma unroll
      for (int i = 0; i < PER_THREAD; i++) whole = whole && low[i] <= t0 && t0 + TILE_DEPTH <= high[i];
      if (whole)
        add_tile<true>(acc, tile, t0, low, high);
      else
        add_tile<false>(acc, tile, t0, low, high);
      __syncthreads(); /* all have read them: they may be overwritten */
    }
  }

  const plane_t c_head = plane_of(c, batch, head, size.rows, size.cols);
  /* Scores are read 4 columns at a time (rows.cuh): the padding that completes the last 4 gets a value too. */
  const int cols = KIND == ROWS_BY_ROWS ? (c_head.cols + 3) / 4 * 4 : c_head.cols;
#pragma unroll
  for (int i = 0; i < PER_THREAD; i++)
#pragma unroll
    for (int j = 0; j < PER_THREAD; j++) {
      const int row = r0 + ty + 16 * i, col = c0 + tx + 16 * j;
      if (row < c_head.rows && col < cols)
        store_element(c_head.dtype, c_head.data, element_of(c_head, row, col), factor * acc[i][j]);
    }
}

/* A head has `blocks_per_head` blocks, which share its tiles. */
template <product_t KIND>
static __global__ void __launch_bounds__(TILE_THREADS, 2)
    multiply(const fa_problem_t p, const matrix_t a, const matrix_t b, const matrix_t c,
             const product_sizes_t size, float factor, const int *only, uint32_t blocks_per_head) {
  SHARED_DYN(tiles_t, tile);
  const uint32_t heads = (uint32_t)(KIND == SCORES_T_BY_ROWS ? p.heads_kv : p.heads_q);
  const share_t share = share_of(blockIdx.x, blocks_per_head, heads);
  const int64_t kv_head = KIND == SCORES_T_BY_ROWS ? share.head : fa_kv_head(&p, share.head);
  const uint32_t columns = (uint32_t)((size.cols + TILE - 1) / TILE);
  const uint32_t tiles = (uint32_t)((size.rows + TILE - 1) / TILE) * columns;
  const bool wanted = !only || only[share.batch * p.heads_kv + kv_head];
  for (uint32_t n = share.number; wanted && n < tiles; n += blocks_per_head) {
    const corner_t at = corner_of(n, columns, TILE);
    multiply_tile<KIND>(p, a, b, c, size, factor, share.batch, share.head, at.row, at.col, tile);
  }
}

template <product_t KIND>
static fa_status_t launch(const fa_problem_t *p, matrix_t a, matrix_t b, matrix_t c, int64_t dim,
                          float factor, const int *only, fa_reason_t *why) {
  const product_sizes_t size = sizes_of(p, KIND, dim);
  const int64_t heads = p->batch * (KIND == SCORES_T_BY_ROWS ? p->heads_kv : p->heads_q);
  const int64_t tiles = ((size.rows + TILE - 1) / TILE) * ((size.cols + TILE - 1) / TILE);
  const int64_t blocks_per_head = only && tiles ? 1 : tiles; /* otherwise a block for each tile */
  LAUNCH(multiply<KIND>, heads * blocks_per_head, TILE_THREADS, sizeof(tiles_t), p->stream, *p, a, b, c, size,
         factor, only, (uint32_t)blocks_per_head);
  return FA_OK;
}

fa_status_t launch_product(const fa_problem_t *p, product_t kind, matrix_t a, matrix_t b, matrix_t c,
                           int64_t dim, float factor, const int *only, fa_reason_t *why) {
  if (kind == ROWS_BY_ROWS) return launch<ROWS_BY_ROWS>(p, a, b, c, dim, factor, only, why);
  if (kind == SCORES_BY_ROWS) return launch<SCORES_BY_ROWS>(p, a, b, c, dim, factor, only, why);
  return launch<SCORES_T_BY_ROWS>(p, a, b, c, dim, factor, only, why);
}

} // namespace FA_KERNEL_NAMESPACE
