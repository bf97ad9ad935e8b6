/* report.h - what a run found, as text for people and as one record for programs. */
#ifndef FA_REPORT_H
#define FA_REPORT_H

#include "bench.h"
#include "compare.h"
#include "count.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_report {
  const fa_stage_t *stage;
  const fa_step_t *step; /* NULL if none could be chosen */
  const char *machine;   /* what it ran on, one line; empty if nothing ran */
  fa_device_t device;
  const fa_problem_t *shape; /* NULL if the input was not understood */
  bool backward;
  const char *dist; /* "files" for --load */
  uint64_t seed;

  fa_status_t status;
  fa_reason_t reason; /* of a status other than FA_OK */

  bool compared, compared_smaller; /* this problem, or before timing a smaller one like it */
  fa_comparison_t comparison;
  bool timed[FA_PASSES], counted[FA_PASSES];
  fa_timing_t timing[FA_PASSES];
  fa_count_t count[FA_PASSES];
  bool requests; /* the emulator put requests together: sectors and passes over banks are counted too */
  double tensor_bytes, workspace_bytes, peak_bytes; /* peak: of the whole process; 0 if not measured */
} fa_report_t;

/* What was counted since the last reset is this pass's; without its bytes it would be half a count, and is none. */
void fa_report_take_count(fa_report_t *r, fa_pass_t pass);

/* The first line of every report: stage, step, shape, type, and what it ran on. */
void fa_report_header(const fa_report_t *r, FILE *out);
/* The largest error of a comparison, as a part of what is allowed. */
double fa_report_worst_part(const fa_comparison_t *c);
void fa_report_check(const fa_report_t *r, FILE *out);
void fa_report_count(const fa_report_t *r, FILE *out);
void fa_report_bench(const fa_report_t *r, FILE *out);
/* PASS, FAIL or DONE, and the results in one line. */
void fa_report_last(const fa_report_t *r, FILE *out);

/* Rates in FLOP/s: by the charts' formula (with kv-len, which it does not know: of the visible pairs), and
 * per product FLOP that was counted (0 if not counted). */
double fa_report_rate(const fa_report_t *r, fa_pass_t pass);
double fa_report_counted_rate(const fa_report_t *r, fa_pass_t pass);
/* FLOP of the visible pairs over what the FMA peak allows in that time: the half rule for causal and a kv-len
 * cannot push it above 1. 0 if there is no peak. */
double fa_report_part_of_peak(const fa_report_t *r, fa_pass_t pass);

/* One record with every column, empty (JSON: null) where nothing was measured. The columns and their order
 * are the same for every run of every stage. Counts (after forward_ or backward_): those of fa_count_t; what only the
 * emulator sees is empty elsewhere, and sectors, sectors_least, shared_passes and bank_conflicts, for which requests have
 * to be put together, without --count. */
void fa_report_csv(const fa_report_t *r, FILE *out);
void fa_report_json(const fa_report_t *r, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
