/* peak.c - the FMA peak of all threads together, by wall-clock. */
#define _GNU_SOURCE
#include "peak.h"
#include "clock.h"

#include "peak_loop.h"
#include "simd.h"

#define ROUNDS 2000 /* about 10 microseconds between two looks at the clock */

double fa_fma_peak(double seconds) {
  double (*loop)(long, float *) = FA_PICK(fa_fma_loop);
  double flop = 0, start = 0, end = 0;
  volatile float sink = 0;
#ifdef _OPENMP
#pragma omp parallel reduction(+ : flop)
#endif
  {
    float result = 0;
    loop(ROUNDS, &result); /* wakes the thread and the wide vector units */
#ifdef _OPENMP
#pragma omp barrier
#pragma omp master
#endif
    start = fa_seconds_now();
#ifdef _OPENMP
#pragma omp barrier
#endif
    do flop += loop(ROUNDS, &result);
    while (fa_seconds_now() - start < seconds);
    sink = result;
  }
  end = fa_seconds_now();
  (void)sink;
  return flop / (end - start);
}
