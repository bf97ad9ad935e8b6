/* ladder.h - every step of every stage on one problem: what `make demo` shows. */
#ifndef FA_LADDER_H
#define FA_LADDER_H

#include "report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the emulator is given of the problem, which it would take minutes for: one head, this many rows. */
#define FA_EMULATED_SEQ 256

typedef enum fa_rung_state { FA_RIGHT, FA_WRONG, FA_NOT_RUN } fa_rung_state_t;

typedef struct fa_rung {
  fa_report_t report; /* of what ran; shape points into this rung */
  fa_problem_t shape;
  char machine[192];
  fa_rung_state_t state;
  bool emulated;  /* ran in the emulator: a smaller problem (FA_EMULATED_SEQ), and no time */
  bool no_device; /* not run because the device or its code is missing, not because the step refused */
} fa_rung_t;

/* Expected results are the same for all steps with one type: computed once. */
typedef struct fa_ladder {
  fa_expected_t expected[FA_DTYPES];
  bool known[FA_DTYPES];
} fa_ladder_t;

/* Runs one step on the best device that is here, checks it, and times what is right. `shape` gives sizes;
 * the step's first type is taken: fp32 first on a CPU, fp16 first on a GPU. */
void fa_ladder_step(fa_ladder_t *ladder, const fa_stage_t *stage, const fa_step_t *step,
                    const fa_problem_t *shape, fa_rung_t *rung);
void fa_ladder_free(fa_ladder_t *ladder);

#ifdef __cplusplus
}
#endif
#endif
