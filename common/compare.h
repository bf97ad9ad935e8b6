/* compare.h - is a result right, and if not, how did it go wrong? */
#ifndef FA_COMPARE_H
#define FA_COMPARE_H

#include "oracle.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The verdict on one tensor: passes when error <= limit = 2 yardstick + 1e-5 max(1, max|oracle|).
 * Where the oracle is NaN or infinite ours must be of the same class. */
typedef struct fa_verdict {
  int array; /* FA_O, FA_LSE, FA_DQ, FA_DK, FA_DV (tensors.h) */
  bool ok;
  /* Absolute errors: ours at the worst element, the yardstick's largest. Infinite if a class differed. */
  double error, yardstick, limit;
  int64_t worst[4];   /* batch, head, row, column of the element with the largest part of its limit */
  double ours, right; /* there */
  char how[160];      /* empty, or what probably happened */
} fa_verdict_t;

typedef struct fa_comparison {
  bool ok, sampled;
  int64_t row_count, key_count; /* per head, how many were compared */
  int count;
  fa_verdict_t tensor[5];
} fa_comparison_t;

/* p: the problem with host pointers, outputs filled in. */
void fa_compare(const fa_problem_t *p, const fa_expected_t *e, fa_comparison_t *c);

/* One line for a failed verdict. */
void fa_verdict_line(const fa_verdict_t *v, char *line, size_t size);

/* explain.c: names the fault of a wrong O row where it is recognised; leaves `how` empty otherwise. */
void fa_explain(const fa_problem_t *p, const fa_expected_t *e, fa_verdict_t *v);

#ifdef __cplusplus
}
#endif
#endif
