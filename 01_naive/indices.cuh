/* indices.cuh - which part of a problem a block works on, and where elements lie: grids have up to 2^31 - 1 blocks and
 * tensors more than 2^31 elements. Nothing here touches memory, so that tests can ask for sizes that nobody could allocate. */
#ifndef NAIVE_INDICES_CUH
#define NAIVE_INDICES_CUH

#include "products.h"

namespace FA_KERNEL_NAMESPACE {

/* One head of a matrix. */
typedef struct plane {
  void *data;
  fa_dtype_t dtype;
  int64_t at, stride; /* of its first element; between rows */
  int rows, cols;
} plane_t;

FA_DEVICE plane_t plane_of(const matrix_t &m, int64_t b, int64_t h, int64_t rows, int64_t cols) {
  return {m.at.data, m.dtype, fa_row(&m.at, b, h, 0), m.at.stride_row, (int)rows, (int)cols};
}

/* Which element of `data` stands at (row, column) of the plane. */
FA_DEVICE int64_t element_of(const plane_t &m, int row, int col) {
  return m.at + row * m.stride + col;
}

/* The head that a block of a product works on, and which of the head's blocks it is. */
typedef struct share {
  uint32_t batch, head, number;
} share_t;

FA_DEVICE share_t share_of(uint32_t block, uint32_t blocks_per_head, uint32_t heads) {
  return {block / blocks_per_head / heads, block / blocks_per_head % heads, block % blocks_per_head};
}

/* The first row and column of tile n, of `columns` in a row of tiles. */
typedef struct corner {
  int row, col;
} corner_t;

FA_DEVICE corner_t corner_of(uint32_t n, uint32_t columns, uint32_t tile) {
  return {(int)(n / columns * tile), (int)(n % columns * tile)};
}

/* A row of scores. */
typedef struct row_place {
  uint32_t head; /* (b, h), counted through: there are no more heads than blocks */
  int64_t i, at; /* the query; (b, h, i), counted through */
} row_place_t;

/* Blocks count through the rows of all heads, blocks_per_head to each. */
FA_DEVICE row_place_t row_of_block(uint32_t block, uint32_t blocks_per_head, int rows, int row,
                                   int64_t seq_q) {
  const uint32_t head = block / blocks_per_head;
  const int64_t i = (int64_t)(block - head * blocks_per_head) * rows + row;
  return {head, i, head * seq_q + i};
}

/* Row n of a tensor, counted through. */
typedef struct tensor_row {
  int64_t b, h, r;
} tensor_row_t;

FA_DEVICE tensor_row_t tensor_row(int64_t n, int64_t heads, int64_t rows) {
  return {n / rows / heads, n / rows % heads, n % rows};
}

} // namespace FA_KERNEL_NAMESPACE
#endif
