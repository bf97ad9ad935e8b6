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

static inline bool any(ivec x) {
  int32_t some = 0;
  for (int a = 0; a < LANES; a++) some |= x[a];
  return some != 0;
}

/* Copies n rows, times `scale`. Rows up to the next whole strip and columns up to the padding become 0.
 * Says whether all numbers are finite: 0 times anything else is NaN, and then so is the sum. */
static inline bool copy_rows(const fa_tensor_t *t, int64_t b, int64_t h, int64_t begin, int64_t n,
                             int64_t dim, float scale, float *to) {
  int64_t ld = fa_fast_stride(dim);
  vec sum = splat(0);
  for (int64_t r = 0; r < n; r++, to += ld) {
    const float *from = row_in(t, b, h, begin + r);
    int64_t c = 0;
    for (; c + LANES <= dim; c += LANES) {
      vec x = load_anywhere(from + c) * scale;
      sum += x * 0.0f;
      store(to + c, x);
    }
    vec rest = splat(0);
    for (int a = 0; c + a < dim; a++) rest[a] = from[c + a] * scale;
    sum += rest * 0.0f;
    for (; c < ld; c += LANES, rest = splat(0)) store(to + c, rest);
  }
  for (int64_t c = 0; c < (fa_fast_up(n, FA_FAST_PAD) - n) * ld; c += LANES) store(to + c, splat(0));
  return !any(sum != splat(0));
}

/* The panel in which row r is a lane, and the lane; a panel has `rows` rows of PANEL lanes. */
static inline float *lane(float *panels, int64_t r, int64_t rows) {
  return panels + r / PANEL * PANEL * rows + r % PANEL;
}

#if LANES == 16
#define FIRST_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define FIRST_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define SECOND_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FIRST_HALVES 0, 4, 1, 5
#define SECOND_HALVES 2, 6, 3, 7
#endif
#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (ivec){__VA_ARGS__})
#endif

/* x becomes its transpose. Interleaving row i with row i + LANES / 2 moves the highest bit of an element's
 * row number to the end of its column number, and the highest bit of that to the end of the row number;
 * after log2(LANES) times the two have changed places. */
INLINE void transpose(vec x[LANES]) {
  for (int bit = 1; bit < LANES; bit *= 2) {
    vec y[LANES];
    for (int i = 0; i < LANES / 2; i++) {
      y[2 * i] = SHUFFLE(x[i], x[i + LANES / 2], FIRST_HALVES);
      y[2 * i + 1] = SHUFFLE(x[i], x[i + LANES / 2], SECOND_HALVES);
    }
    for (int i = 0; i < LANES; i++) x[i] = y[i];
  }
}

/* LANES rows, of which the first n exist, times `scale` become LANES lanes; the others hold 0. */
static inline void rows_to_lanes(const float *const row[LANES], int64_t n, int64_t dim, float scale,
                                 float *to) {
  int64_t c = 0;
  for (; c + LANES <= dim; c += LANES) {
    vec x[LANES];
    for (int r = 0; r < LANES; r++) x[r] = r < n ? load_anywhere(row[r] + c) * scale : splat(0);
    transpose(x);
    for (int a = 0; a < LANES; a++) store(to + (c + a) * PANEL, x[a]);
  }
  for (; c < dim; c++)
    for (int r = 0; r < LANES; r++) to[c * PANEL + r] = r < n ? row[r][c] * scale : 0;
}

/* LANES lanes, each times its own factor, become rows; the first n are stored. Where `zero` holds the result
 * is 0, whatever the lane holds. */
static inline void lanes_to_rows(const float *from, vec factor, ivec zero, float *const row[LANES], int64_t n,
                                 int64_t dim) {
  for (int64_t c = 0; c < dim; c += LANES) {
    vec x[LANES];
    for (int a = 0; a < LANES; a++) x[a] = choose(zero, splat(0), load(from + (c + a) * PANEL) * factor);
    transpose(x);
    for (int r = 0; r < n; r++)
      if (c + LANES <= dim)
        store_anywhere(row[r] + c, x[r]);
      else
        for (int a = 0; c + a < dim; a++) row[r][c + a] = x[r][a];
  }
}

#endif
