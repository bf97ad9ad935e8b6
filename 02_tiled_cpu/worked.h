/* worked.h - the two-block update, shared by the step and its printed example. */
#ifndef FA_WORKED_H
#define FA_WORKED_H

#include "stage.h"

/* What one query row carries from block to block. O [head_dim_v] is normalised by l at every moment. */
typedef struct fa_worked_row {
  float m, l;
  float *O;
} fa_worked_row_t;

void fa_worked_block(const fa_problem_t *p, int64_t b, int64_t h, int64_t i, int64_t begin, int64_t end,
                     float *S, fa_worked_row_t *state);
void fa_worked_show(FILE *out);

#endif
