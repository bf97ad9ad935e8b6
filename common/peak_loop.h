/* peak_loop.h - one thread's share of the FMA peak measurement, once per instruction set. */
#ifndef FA_PEAK_LOOP_H
#define FA_PEAK_LOOP_H

/* Returns the FLOP done in `rounds` rounds; *result keeps the compiler from dropping the work. */
double fa_fma_loop_baseline(long rounds, float *result);
double fa_fma_loop_avx2(long rounds, float *result);
double fa_fma_loop_avx512(long rounds, float *result);

#endif
