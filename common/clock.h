/* clock.h - seconds on a clock that never goes back. Needs _POSIX_C_SOURCE >= 199309L or _GNU_SOURCE. */
#ifndef FA_CLOCK_H
#define FA_CLOCK_H

#include <time.h>

static inline double fa_seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
