/* fast_blocks.h - how blocks get from main memory into a thread's buffers and back, and what is asked about
 * them. Rows are copied as they lie, or become lanes: one column of a panel [dim][PANEL]. */
#ifndef FA_FAST_BLOCKS_H
#define FA_FAST_BLOCKS_H

#include "fast_simd.h"

static inline const float *row_in(const fa_tensor_t *t, int64_t b, int64_t h, int64_t r) {
  return (const float *)t->data + fa_row(t, b, h, r);
}
static inline float *row_out(const fa_tensor_t *t, int64_t b, int64_t h, int64_t r) {
  return (float *)t->data + fa_row(t, b, h, r);
}

/* n rows, times `scale`. Rows up to the next whole strip and columns up to the padding become 0. */
static inline void copy_rows(const fa_tensor_t *t, int64_t b, int64_t h, int64_t begin, int64_t n,
                             int64_t dim, float scale, float *to) {
  int64_t ld = fa_fast_stride(dim), width = fa_fast_up(dim, FA_FAST_PAD);
  for (int64_t r = 0; r < fa_fast_up(n, FA_FAST_PAD); r++, to += ld) {
    int64_t some = r < n ? dim : 0;
    const float *from = some ? row_in(t, b, h, begin + r) : to;
    for (int64_t c = 0; c < some; c++) to[c] = scale * from[c];
    for (int64_t c = some; c < width; c++) to[c] = 0;
  }
}

/* The lane of row r in panels of `rows` rows each. */
static inline float *lane(float *panels, int64_t r, int64_t rows) {
  return panels + r / PANEL * PANEL * rows + r % PANEL;
}

static inline bool all_finite(const float *x, int64_t rows, int64_t cols) {
  float sum = 0; /* stays 0 unless something is NaN or infinite */
  for (int64_t r = 0; r < rows; r++, x += fa_fast_stride(cols))
    for (int64_t c = 0; c < cols; c++) sum += 0 * x[c];
  return sum == 0;
}

static inline bool any(ivec x) {
  int32_t some = 0;
  for (int a = 0; a < LANES; a++) some |= x[a];
  return some != 0;
}

#endif
