/* peak_simd.c - the loop that does nothing but fused multiply-adds on registers.
 *
 * An FMA unit accepts a new operation every cycle but answers after about 4, and a core has two to four such
 * units: 8 to 16 independent accumulators keep them busy, if the registers are that many. */
#include "peak_loop.h"
#include "simd.h"

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
#define ACCUMULATORS 24 /* of 32 registers */
#else
#define ACCUMULATORS 12 /* of 16 */
#endif
typedef float vec __attribute__((vector_size(4 * LANES)));

double FA_SIMD(fa_fma_loop)(long rounds, float *result) {
  vec acc[ACCUMULATORS], x = {0}, y = {0};
  for (int l = 0; l < LANES; l++) { /* a = a / 2 + 1 stays between 0 and 2 for ever */
    x[l] = 0.5f;
    y[l] = 1.0f;
  }
#pragma GCC unroll 24
  for (int a = 0; a < ACCUMULATORS; a++) acc[a] = x * (float)a / ACCUMULATORS;
  for (long r = 0; r < rounds; r++)
#pragma GCC unroll 24 /* an accumulator that is indexed at run time would live in memory */
    for (int a = 0; a < ACCUMULATORS; a++) acc[a] = acc[a] * x + y;
#pragma GCC unroll 24
  for (int a = 1; a < ACCUMULATORS; a++) acc[0] += acc[a];
  *result = acc[0][0];
  return 2.0 * LANES * ACCUMULATORS * (double)rounds;
}
