/* count.c - the sum of all that was handed in since the last reset. */
#include "count.h"

static fa_count_t total;

void fa_count_reset(void) {
  total = (fa_count_t){0};
}

void fa_count_add(const fa_count_t *c) {
#pragma omp critical(fa_count)
  {
    total.hbm_read += c->hbm_read;
    total.hbm_written += c->hbm_written;
    total.matmul_flop += c->matmul_flop;
    total.other_flop += c->other_flop;
    total.exp += c->exp;
    total.rescales += c->rescales;
    total.exp_polynomial += c->exp_polynomial;
    total.rescales_skipped += c->rescales_skipped;
    total.sectors += c->sectors;
    total.sectors_least += c->sectors_least;
    total.shared_bytes += c->shared_bytes;
    total.shared_waves += c->shared_waves;
    total.conflicts += c->conflicts;
    total.barriers += c->barriers;
  }
}

fa_count_t fa_count_total(void) {
  return total;
}
