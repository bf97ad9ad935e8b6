/* worked.c - step `worked`: the lecture's two-block derivation, as code (lecture slides 9-12).
 *
 * Cut the keys in two: S = [S1 S2], V = [V1; V2]. Softmax needs the denominator of the whole row, but block
 * 1 alone knows only its own:
 *
 *   after block 1:   A1 = exp(S1)   l1 = rowsum(A1)        O1 = A1 V1 / l1          (wrong denominator)
 *   after block 2:   A2 = exp(S2)   l2 = l1 + rowsum(A2)   O2 = (l1/l2) O1 + A2 V2 / l2       (corrected)
 *
 * Multiplying O1 by l1 undoes the wrong division, dividing by l2 does the right one: exact, not approximate.
 * exp overflows beyond 88 in fp32, so both blocks subtract the maximum seen so far; when block 2 raises it
 * from m1 to m2, what block 1 left is worth exp(m1 - m2) times as much:
 *
 *   m2 = max(m1, rowmax(S2))   l2 = exp(m1 - m2) l1 + rowsum(exp(S2 - m2))
 *   O2 = (exp(m1 - m2) l1 / l2) O1 + exp(S2 - m2) V2 / l2
 *
 * That is all of FlashAttention's arithmetic; the other steps only repeat it for more blocks. */
#include "worked.h"

#include <math.h>
#include <stdlib.h>

#include "count.h"

/* One block of keys [begin, end) folded into the row's state: the formulas above, with `state` in the place
 * of m1, l1, O1. Before the first block m = -inf, l = 0, O = 0. */
void fa_worked_block(const fa_problem_t *p, int64_t b, int64_t h, int64_t i, int64_t begin, int64_t end,
                     float *S, fa_worked_row_t *state) {
  int64_t kvh = fa_kv_head(p, h), d = p->head_dim, dv = p->head_dim_v;
  const float *q = (const float *)p->q.data + fa_row(&p->q, b, h, i);
  float m = state->m; /* will be m2 */
  for (int64_t j = begin; j < end; j++) {
    const float *k = (const float *)p->k.data + fa_row(&p->k, b, kvh, j);
    float s = 0;
    for (int64_t c = 0; c < d; c++) s += q[c] * k[c];
    S[j - begin] = p->scale * s;
    m = S[j - begin] > m ? S[j - begin] : m;
  }
  float shift = m == -INFINITY ? 0 : m;                    /* nothing but -inf so far: exp(-inf) = 0 */
  float kept = state->m == m ? 1 : expf(state->m - shift); /* exp(m1 - m2) */
  float l = kept * state->l;
  for (int64_t j = begin; j < end; j++) l += S[j - begin] = expf(S[j - begin] - shift); /* S is now A2 */
  float keep = l == 0 ? 0 : kept * state->l / l; /* l1 / l2, in the new maximum */
  for (int64_t c = 0; c < dv; c++) state->O[c] *= keep;
  for (int64_t j = begin; j < end; j++) {
    const float *v = (const float *)p->v.data + fa_row(&p->v, b, kvh, j);
    float a = l == 0 ? 0 : S[j - begin] / l;
    for (int64_t c = 0; c < dv; c++) state->O[c] += a * v[c];
  }
  state->m = m;
  state->l = l;
}

static size_t workspace_size(const fa_problem_t *p, fa_pass_t pass) {
  (void)pass;
  return sizeof(float) * (size_t)(p->seq_k / 2 + 1); /* S of the larger half of one row */
}

static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  float *S = p->workspace;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < p->heads_q; h++)
      for (int64_t i = 0; i < p->seq_q; i++) {
        int64_t n = fa_visible(p, fa_keys(p, b), i);
        fa_worked_row_t state = {-INFINITY, 0, (float *)p->o.data + fa_row(&p->o, b, h, i)};
        for (int64_t c = 0; c < p->head_dim_v; c++) state.O[c] = 0;
        fa_worked_block(p, b, h, i, 0, n / 2, S, &state);
        float m1 = state.m;
        fa_worked_block(p, b, h, i, n / 2, n, S, &state);
        bool empty = state.l == 0; /* no key, or nothing but -inf */
        p->lse[(b * p->heads_q + h) * p->seq_q + i] = empty ? -INFINITY : state.m + logf(state.l);
        double rises = (m1 > -INFINITY) + (state.m > m1), logs = empty ? 0 : 1;
        double pairs = (double)n, d = (double)p->head_dim, dv = (double)p->head_dim_v;
        /* Other FLOP: scale, maximum, subtract, add, divide; for each half O, l and l1 / l2; m1 - m2; LSE. */
        fa_count_t count = {.hbm_read = 4 * (d + pairs * (d + dv)),
                            .hbm_written = 4 * (dv + 1),
                            .matmul_flop = 2 * pairs * (d + dv),
                            .other_flop = 5 * pairs + 2 * (dv + 3) + rises + logs,
                            .exp = pairs + rises + logs,
                            .rescales = m1 > -INFINITY && state.m > m1};
        fa_count_add(&count);
      }
  return FA_OK;
}

const fa_kernels_t fa_kernels_worked = {workspace_size, forward, NULL};

/* The printed example: exp(S) is made of small whole numbers, so every step can be followed by head.
 * K is the identity, so that the logits of query i are simply its components, ln of the numbers below. */
enum { ROWS = 3, KEYS = 4 };
static const float weights[ROWS][KEYS] = {{1, 2, 3, 4}, {4, 3, 2, 1}, {1, 1, 1, 5}};
static const float values[KEYS] = {1, 2, 3, 4};

void fa_worked_show(FILE *out) {
  float q[ROWS * KEYS], k[KEYS * KEYS] = {0}, v[KEYS], S[KEYS];
  for (int i = 0; i < ROWS * KEYS; i++) q[i] = logf(weights[i / KEYS][i % KEYS]);
  for (int j = 0; j < KEYS; j++) k[j * KEYS + j] = 1, v[j] = values[j];
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = ROWS,
                    .seq_k = KEYS,
                    .head_dim = KEYS,
                    .head_dim_v = 1,
                    .scale = 1,
                    .q = {q, 0, 0, KEYS},
                    .k = {k, 0, 0, KEYS},
                    .v = {v, 0, 0, 1}};

  fprintf(out, "Two blocks of two keys, three query rows, V = (1 2 | 3 4)\n\n"
               "     A1=exp(S1) A2=exp(S2)       wrong    l2 = l1 +   corrected\n"
               "row  block 1    block 2     l1  A1V1/l1   sum(A2)  (l1/l2) O1 + A2V2/l2 = O2\n");
  for (int i = 0; i < ROWS; i++) {
    float O = 0;
    fa_worked_row_t state = {-INFINITY, 0, &O};
    fa_worked_block(&p, 0, 0, i, 0, 2, S, &state);
    float m1 = state.m, l1 = expf(m1) * state.l, O1 = O; /* in the scale of the raw exponentials */
    fa_worked_block(&p, 0, 0, i, 2, 4, S, &state);
    float l2 = expf(state.m) * state.l, kept = l1 / l2 * O1;
    fprintf(out, "%3d   %2.0f %2.0f      %2.0f %2.0f   %5.0f %8.4f %9.0f %11.4f   %8.4f %7.4f\n", i,
            weights[i][0], weights[i][1], weights[i][2], weights[i][3], l1, O1, l2, kept, O - kept, O);
  }
  fprintf(out, "\nO1 is softmax over block 1 alone: it divides by l1, the wrong denominator.\n"
               "Multiplying by l1/l2 corrects it, and block 2 adds its share: O2 is exact.\n\n"
               "The program keeps m = max(S) too, with l and O relative to exp(m), so that exp\n"
               "never overflows; when block 2 raises m, block 1 shrinks by exp(m1 - m2):\n\n"
               "row      m1      l1      m2  exp(m1-m2)      l2   LSE = m2 + ln l2\n");
  for (int i = 0; i < ROWS; i++) {
    float O = 0;
    fa_worked_row_t state = {-INFINITY, 0, &O};
    fa_worked_block(&p, 0, 0, i, 0, 2, S, &state);
    float m1 = state.m, l1 = state.l;
    fa_worked_block(&p, 0, 0, i, 2, 4, S, &state);
    fprintf(out, "%3d %7.4f %7.4f %7.4f %11.4f %7.4f %18.4f\n", i, m1, l1, state.m, expf(m1 - state.m),
            state.l, state.m + logf(state.l));
  }
  fprintf(out, "\n");
}
