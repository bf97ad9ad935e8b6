/* options.h - the command line that all programs of this project share. The names are an interface that
 * scripts rely on. */
#ifndef FA_OPTIONS_H
#define FA_OPTIONS_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FA_UNSET (-1) /* of a size, a dtype or a device that was not given */

typedef struct fa_options {
  int64_t batch, heads, heads_kv, seq, seq_q, seq_k, head_dim, head_dim_v;
  const char *kv_len; /* as typed; needs the batch to be understood */
  int dtype, dtype_out;
  bool causal, has_scale, has_seed;
  float scale;
  uint64_t seed;
  const char *dist;
  const char *step;
  bool deterministic;
  int64_t splits;
  int device; /* FA_UNSET: auto */
  int64_t threads;
  bool backward, check, bench, count, model;
  const char *load[4]; /* q, k, v, do */
  const char *save, *csv, *json;
  bool list, quick, quiet, help, version;
} fa_options_t;

/* Which of the options a program has. */
typedef enum fa_program { FA_PROGRAM_STAGE = 1, FA_PROGRAM_DEMO = 2 } fa_program_t;

/* FA_INVALID with one line that says what to do. */
fa_status_t fa_options_parse(fa_options_t *o, fa_program_t program, int argc, char **argv, fa_reason_t *why);

/* True if a length, a head count or anything else that decides the shape was given. */
bool fa_options_shape_given(const fa_options_t *o);

/* The groups of options with their lines, for --help. */
void fa_options_print(FILE *out, fa_program_t program);

#ifdef __cplusplus
}
#endif
#endif
