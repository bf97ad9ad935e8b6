/* only_01_naive.h - 01_naive/indices.cuh, compiled by the emulator's compiler, for tests in C. */
#ifndef ONLY_01_NAIVE_H
#define ONLY_01_NAIVE_H

#include "fa.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct naive_share {
  uint32_t batch, head, number;
} naive_share_t;
naive_share_t naive_share(uint32_t block, uint32_t blocks_per_head, uint32_t heads);

typedef struct naive_corner {
  int row, col;
} naive_corner_t;
naive_corner_t naive_corner(uint32_t n, uint32_t columns, uint32_t tile);

typedef struct naive_row {
  uint32_t head;
  int64_t i, at;
} naive_row_t;
naive_row_t naive_score_row(uint32_t block, uint32_t blocks_per_head, int rows, int row, int64_t seq_q);

typedef struct naive_tensor_row {
  int64_t b, h, r;
} naive_tensor_row_t;
naive_tensor_row_t naive_tensor_row(int64_t n, int64_t heads, int64_t rows);

/* The offset that the products use for element (row, col) of head h in batch b. */
int64_t naive_element(const fa_tensor_t *t, int64_t b, int64_t h, int row, int col);

#ifdef __cplusplus
}
#endif
#endif
