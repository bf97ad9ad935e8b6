/* oracle.h - what is right, and how wrong a plain implementation may be.
 *
 * The oracle is naive attention in double precision on the inputs as they are stored (already rounded to
 * the dtype; E4M3: dequantised). The yardstick is plain three-kernel attention with S and dP in fp32 and
 * P, dS and the outputs rounded to the dtype, O also where the backward pass reads it. P is rounded after its
 * division by the row's sum, before it, and not at all; of these three the least exact counts. An error of up to twice the
 * yardstick's is accepted. */
#ifndef FA_ORACLE_H
#define FA_ORACLE_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Expected values of some rows of every head: `row_count` query rows (O, LSE, dQ) and `key_count` keys
 * (dK, dV). Arrays are packed: element (b, h, n, c) of o, where rows[n] is the query, is
 * o[((b * heads + h) * row_count + n) * dim + c]. */
typedef struct fa_expected {
  bool backward, sampled; /* sampled: not every row and key is there */
  int64_t row_count, key_count;
  int64_t *rows, *keys;                        /* ascending */
  double *o, *lse, *dq, *dk, *dv;              /* oracle */
  float *o_yard, *dq_yard, *dk_yard, *dv_yard; /* yardstick, already rounded to the output's type */
} fa_expected_t;

/* Above this many multiply-adds (batch heads_q seq_q seq_k (head_dim + head_dim_v)) rows are sampled. */
#define FA_ORACLE_FULL 2e9
#define FA_SAMPLE_ROWS 64
#define FA_SAMPLE_KEYS 8

/* Bytes of the host's memory that fa_expected_new takes at its most, with what it keeps. In double: they may pass 64 bits. */
double fa_expected_bytes(const fa_problem_t *p, bool backward);
/* Uses all OpenMP threads. FA_REFUSED if memory does not suffice. */
fa_status_t fa_expected_new(fa_expected_t *e, const fa_problem_t *host, bool backward, fa_reason_t *why);
void fa_expected_free(fa_expected_t *e);

/* One row by definition, for explanations: o[head_dim_v] and *lse of query row i when it sees keys
 * 0 .. visible-1 of kv head `kv_head`. */
void fa_oracle_row(const fa_problem_t *host, int64_t b, int64_t h, int64_t kv_head, int64_t i,
                   int64_t visible, double *o, double *lse);

#ifdef __cplusplus
}
#endif
#endif
