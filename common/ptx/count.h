/* count.h - what the emulator cannot see by itself: arithmetic outside the tensor cores. On a GPU nothing is counted,
 * and these are nothing. Each thread counts what it does; a tile's worth at a time, because calls cost time. */
#ifndef FA_PTX_COUNT_H
#define FA_PTX_COUNT_H

#include "launch.h"

#include <math.h>

/* `matmul`: 2 for each multiply-add of a matrix product; `other`: additions, multiplications, maxima, divisions. */
FA_DEVICE void count_flop(double matmul, double other) {
#ifdef __CUDACC__
  (void)matmul, (void)other;
#else
  fa_emu_count_flop(matmul, other);
#endif
}
FA_DEVICE void count_exp(double special) {
#ifdef __CUDACC__
  (void)special;
#else
  fa_emu_count_exp(special, 0);
#endif
}
/* Rows of O that were rescaled (common/count.h), and rows that needed it but were left for later. */
FA_DEVICE void count_rescales(double done, double skipped) {
#ifdef __CUDACC__
  (void)done, (void)skipped;
#else
  fa_emu_count_rescales(done, skipped);
#endif
}
/* A block of keys took a row's running maximum of logits from m_old to m_new. `row`: it exists, and no other thread
 * counts it. */
FA_DEVICE void count_rescale(bool row, float m_old, float m_new) {
#ifdef __CUDACC__
  (void)row, (void)m_old, (void)m_new;
#else
  if (row && m_old > -INFINITY && m_new > m_old) count_rescales(1, 0);
#endif
}

#endif
