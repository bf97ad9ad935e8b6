/* count.h - what a kernel moves and computes, counted where it happens. Counts are never time.
 *
 * A CPU step counts at block level: each helper that brings a block from main memory into the block
 * buffers, or multiplies two blocks, adds its share to a local fa_count_t, and a finished unit of work
 * hands it in with fa_count_add. (The emulator counts every single access.) "HBM" on a CPU is main
 * memory, and what the step holds in its small block buffers plays the part of SRAM.
 *
 * A row of O is rescaled when a block of keys raises its running maximum from a finite m_old to m_new: what was summed up
 * so far really is multiplied by exp(m_old - m_new) < 1. The first block does not rescale, for there is nothing yet, nor
 * is a row counted that only fills up a tile, or that was multiplied by 1. The FLOP, on the other hand, are those done. */
#ifndef FA_COUNT_H
#define FA_COUNT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_count {
  double hbm_read, hbm_written; /* bytes */
  double matmul_flop;           /* 2 per multiply-add inside a matrix product */
  double other_flop;            /* all other additions, multiplications, maxima, divisions */
  double exp;                   /* exponentials (and logarithms) */
  double rescales; /* rows of O whose running maximum rose, at a later block of keys than their first */
  /* The emulator also sees these; they stay 0 on a CPU. */
  double exp_polynomial;          /* exponentials computed without the special unit */
  double rescales_skipped;        /* rows whose maximum rose too little to bother */
  double sectors;                 /* 32-byte sectors of HBM that requests of a warp touched */
  double sectors_least;           /* the same, had every request been contiguous */
  double shared_bytes;            /* read or written in shared memory */
  double shared_waves, conflicts; /* passes over the 32 banks, and those beyond one for
                                   * 32 lanes of up to 4 bytes, 16 of 8, or 8 of 16 */
  double barriers;
} fa_count_t;

void fa_count_reset(void);
void fa_count_add(const fa_count_t *c); /* thread-safe */
fa_count_t fa_count_total(void);

#ifdef __cplusplus
}
#endif
#endif
