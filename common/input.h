/* input.h - seeded inputs. The same seed gives the same numbers on every machine and thread count:
 * each element is a pure function of (seed, tensor, batch, head, row, column). */
#ifndef FA_INPUT_H
#define FA_INPUT_H

#include "tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_dist {
  const char *name, *what; /* what: one line for --help */
} fa_dist_t;
extern const fa_dist_t fa_dists[]; /* ended by name NULL; the first is the default */

/* Fills Q, K, V and, if present, dO, each element rounded to its type. FA_INVALID: unknown name. */
fa_status_t fa_fill(fa_tensors_t *t, const char *dist, uint64_t seed, fa_reason_t *why);

/* A uniform 64-bit number, and a standard normal one, from (seed, index): counter based, stateless. */
uint64_t fa_random_bits(uint64_t seed, uint64_t index);
double fa_random_normal(uint64_t seed, uint64_t index);

#ifdef __cplusplus
}
#endif
#endif
