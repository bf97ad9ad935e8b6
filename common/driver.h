/* driver.h - the program of a stage, in parts: options in, one run, reports out. */
#ifndef FA_DRIVER_H
#define FA_DRIVER_H

#include "npy.h"
#include "options.h"
#include "report.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All that one run of the program holds. */
typedef struct fa_run {
  const fa_options_t *options;
  const fa_stage_t *stage;
  const fa_step_t *step;
  const fa_machine_t *machine;
  char machine_name[192];
  fa_problem_t shape; /* sizes and types; no data */
  int32_t *kv_len;    /* shape.kv_len, or NULL */
  float *files[4];    /* --load: q, k, v, do as read, or NULL */
  fa_npy_lost_t lost[4];
  fa_tensors_t tensors;
  FILE *text;   /* where people read: standard output, or standard error if a record goes there */
  FILE *detail; /* the same, or NULL with --quiet */
  fa_report_t report;
} fa_run_t;

/* The whole program; returns its exit status. */
int fa_driver_main(const fa_stage_t *stage, int argc, char **argv);

/* setup.c: fills shape, step, machine, tensors with data. Every refusal comes from here, before any work. */
fa_status_t fa_setup(fa_run_t *run, fa_reason_t *why);
void fa_setup_free(fa_run_t *run);
/* The threads of --threads; refuses a FA_ISA that this processor does not have. */
fa_status_t fa_setup_processor(const fa_options_t *o, fa_reason_t *why);
/* The sizes that the options give, with their defaults; files, dtype and kv-len are left to fa_setup. */
void fa_setup_sizes(const fa_options_t *o, fa_problem_t *p);
/* FA_REFUSED if host or device have less memory than tensors, workspace and `oracle` bytes take, with both numbers. */
fa_status_t fa_setup_memory(const fa_problem_t *p, bool backward, const fa_step_t *step,
                            const fa_machine_t *machine, double oracle, fa_reason_t *why);

/* choose.c: which step on which device. The reason is that of the nearest miss. */
fa_status_t fa_choose(fa_run_t *run, fa_reason_t *why);
/* The types that the options name; FA_DTYPES, which a record leaves empty, where they name none. */
void fa_types_asked(fa_run_t *run);

/* files.c: --load and --save. */
fa_status_t fa_files_load(fa_run_t *run, fa_reason_t *why);
void fa_files_fill(fa_run_t *run); /* warns of numbers that the type cannot hold */
/* Makes the folder of --save; refuses one where an output would take the place of an input. */
fa_status_t fa_files_folder(const fa_options_t *o, fa_reason_t *why);
/* FA_INVALID if the record of --csv or --json is a file that --load reads or --save writes. */
fa_status_t fa_files_apart(const fa_options_t *o, const char *option, FILE *record, fa_reason_t *why);
fa_status_t fa_files_save(const fa_run_t *run, fa_reason_t *why);

/* modes.c: what is done with a run that is set up. */
fa_status_t fa_run_once(fa_run_t *run, fa_reason_t *why);  /* both passes; counts; outputs on the host */
fa_status_t fa_run_check(fa_run_t *run, fa_reason_t *why); /* FA_FAILED if the result is wrong */
bool fa_run_is_empty(const fa_run_t *run);                 /* is there no output element? */
fa_status_t fa_run_bench(fa_run_t *run, fa_reason_t *why);
double fa_run_oracle_bytes(const fa_run_t *run); /* of the oracle that these will ask for, or 0 */

/* list.c: --list, and --list --csv. */
void fa_list(const fa_stage_t *stage, FILE *out);
void fa_list_csv(const fa_stage_t *stage, FILE *out);

/* progress.c: one line on a terminal's standard error that says what takes long; NULL wipes it. */
void fa_progress(const char *what);

#ifdef __cplusplus
}
#endif
#endif
