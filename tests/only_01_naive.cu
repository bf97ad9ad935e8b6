/* only_01_naive.cu - see only_01_naive.h. */
#include "../01_naive/indices.cuh"
#include "only_01_naive.h"

using namespace FA_KERNEL_NAMESPACE;

naive_share_t naive_share(uint32_t block, uint32_t blocks_per_head, uint32_t heads) {
  const share_t s = share_of(block, blocks_per_head, heads);
  return {s.batch, s.head, s.number};
}
naive_corner_t naive_corner(uint32_t n, uint32_t columns, uint32_t tile) {
  const corner_t c = corner_of(n, columns, tile);
  return {c.row, c.col};
}
naive_row_t naive_score_row(uint32_t block, uint32_t blocks_per_head, int rows, int row, int64_t seq_q) {
  const row_place_t r = row_of_block(block, blocks_per_head, rows, row, seq_q);
  return {r.head, r.i, r.at};
}
naive_tensor_row_t naive_tensor_row(int64_t n, int64_t heads, int64_t rows) {
  const tensor_row_t t = tensor_row(n, heads, rows);
  return {t.b, t.h, t.r};
}
int64_t naive_element(const fa_tensor_t *t, int64_t b, int64_t h, int row, int col) {
  const matrix_t m = {*t, FA_FP32};
  return element_of(plane_of(m, b, h, 1, 1), row, col);
}
