/* bench.h - time of one pass: warm-up, repeats, median and spread. */
#ifndef FA_BENCH_H
#define FA_BENCH_H

#include "tensors.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_timing {
  double median, min, max; /* seconds */
  int repeats;
  double fma_peak; /* CPU only: FLOP/s, the best of measurements between the repeats; otherwise 0 */
} fa_timing_t;

/* Times `pass` of a step whose tensors were filled, uploaded and (for backward) run forward. Repeats for
 * about `seconds`, at least 3 and at most 1000 times, after an untimed run (on a GPU, 40 ms of them). On a
 * CPU each repeat is followed by short FMA peak measurements, so that both see the same clock; on a GPU the
 * L2 cache is overwritten before each repeat, outside the timed region. */
fa_status_t fa_bench(fa_tensors_t *t, const fa_stage_t *stage, const fa_step_t *step, fa_pass_t pass,
                     double seconds, fa_timing_t *timing, fa_reason_t *why);

#ifdef __cplusplus
}
#endif
#endif
