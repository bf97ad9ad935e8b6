/* tensorcore_backward_stats.h - D, and what P needs to know about a row: computed once, in a kernel before the one that
 * reads them for every block of keys. */
#ifndef FA1_TENSORCORE_BACKWARD_STATS_H
#define FA1_TENSORCORE_BACKWARD_STATS_H

#include "tensorcore.h"

namespace FA_KERNEL_NAMESPACE {

/* lse is +inf for a row that sees nothing, or does not exist: its P = exp(S - lse) is then 0. */
typedef struct row_stats {
  float lse, d;
} row_stats_t;

/* stats [batch][heads_q][whole_rows(seq_q, STATS_BLOCK)] from O, dO and LSE. */
fa_status_t launch_stats(const fa_problem_t *p, row_stats_t *stats, fa_reason_t *why);

} // namespace FA_KERNEL_NAMESPACE
#endif
