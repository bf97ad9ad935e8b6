/* count.h - what the emulator cannot see by itself: arithmetic outside the tensor cores. On a GPU nothing is counted,
 * and these are nothing. Each thread counts what it does; a tile's worth at a time, because calls cost time. */
#ifndef FA_PTX_COUNT_H
#define FA_PTX_COUNT_H

#include "launch.h"

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
/* Rows of O that were multiplied because the maximum rose, and rows that needed it but were left for later. */
FA_DEVICE void count_rescales(double done, double skipped) {
#ifdef __CUDACC__
  (void)done, (void)skipped;
#else
  fa_emu_count_rescales(done, skipped);
#endif
}

#endif
