/* oracle_row.h - one row of attention by definition: the oracle in double, the yardstick in fp32. Internal to the oracle.
 *
 * For a query row i that sees keys 0 .. n-1 of its kv head:
 *   s_j = scale q_i . k_j    p_j = exp(s_j - m) / l    O_i = sum_j p_j v_j    LSE_i = m + ln l
 *   dp_j = dO_i . v_j        D_i = sum_j p_j dp_j      ds_j = p_j (dp_j - D_i)
 *   dQ_i = scale sum_j ds_j k_j    dK_j += scale ds_j q_i    dV_j += p_j dO_i
 * A row without keys, or whose scores are all -inf, has O = 0, LSE = -inf and no gradients. */
#ifndef FA_ORACLE_ROW_H
#define FA_ORACLE_ROW_H

#include "combine.h"
#include "fa.h"

#include <stdbool.h>

/* K and V of one kv head, transposed where sums run over the head dimension: the innermost loop then
 * runs over keys, which the compiler can vectorise without reordering any sum. */
typedef struct head {
  int64_t keys, d, dv;
  double *kt, *vt, *k, *v; /* [d][keys], [dv][keys], [keys][d], [keys][dv] */
  float *kt_f, *vt_f, *k_f, *v_f;
  fa_combine_t *combine; /* for this CPU */
  fa_combine_f_t *combine_f;
} head_t;

/* Three plain ways with P: rounded to the dtype after the division by l, as by three kernels that store P; before it, as
 * by kernels that divide O at the end; and not at all, as by kernels without tensor cores. Each is right, and rounds O.
 * The yardstick is the least exact one, element by element: the luck of one way says little about another where there
 * are few elements, or where a single outlier rules a row. */
typedef enum { P_DIVIDED, P_UNDIVIDED, P_EXACT, YARDS } yard_t;

/* Scratch and results of one row. p, ds and exponentials, dp: [keys]. */
typedef struct row {
  double *q, *d_o, *p, *ds, *o, *dq;
  double lse;
  float *q_f, *d_o_f;
  float *exponentials, *dp; /* the yardstick's exp(s - m) and dO . v, which its ways share */
  struct {
    float *p, *ds, *o, *dq;
  } yard[YARDS];
} row_t;

/* Element 0 .. dim-1 of row r as the kernel under test finds them: E4M3 times its descale factor. */
void fa_load_row(const fa_problem_t *p, const fa_tensor_t *t, fa_dtype_t dtype, const fa_descale_t *f,
                 int64_t b, int64_t h, int64_t r, int64_t dim, double *out);

/* False without memory; fa_head_free is right all the same. */
bool fa_head_new(const fa_problem_t *p, int64_t b, int64_t kvh, head_t *x);
void fa_head_free(head_t *x);
/* One allocation, which begins at r->q. */
bool fa_row_new(row_t *r, int64_t keys, int64_t d, int64_t dv);
/* Bytes that the two allocate. In double: they may pass 64 bits. */
double fa_head_bytes(double keys, double d, double dv);
double fa_row_bytes(double keys, double d, double dv);

/* q, and d_o for the backward pass, are in the row; the rest is written. Backward comes after forward. */
void fa_oracle_forward(const head_t *x, double scale, int64_t n, row_t *r);
void fa_oracle_backward(const head_t *x, double scale, int64_t n, row_t *r);

/* How many of the three ways there are: in fp32 they are the same but for the last bit. */
int fa_yards(const fa_problem_t *p);
/* q_f, and d_o_f, are in the row; all ways are done. After the oracle of the same row: its lse tells of an empty one. */
void fa_yardstick_forward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r);
void fa_yardstick_backward(const head_t *x, const fa_problem_t *p, int64_t n, row_t *r);

#endif
