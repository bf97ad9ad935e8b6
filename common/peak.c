/* peak.c - the FMA peak of all threads together, by wall-clock. */
#define _GNU_SOURCE
#include "peak.h"

#include <time.h>
#include "peak_loop.h"
#include "simd.h"

#define ROUNDS 2000 /* about 10 microseconds between two looks at the clock */

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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
    start = now();
#ifdef _OPENMP
#pragma omp barrier
#endif
    do flop += loop(ROUNDS, &result);
    while (now() - start < seconds);
    sink = result;
  }
  end = now();
  (void)sink;
  return flop / (end - start);
}
