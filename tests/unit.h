/* unit.h - the suites of check_common, and what they share. */
#ifndef UNIT_H
#define UNIT_H

#include "compare.h"
#include "runner.h"
#include "tensors.h"

Suite *unit_dtype(void);
Suite *unit_problem(void);
Suite *unit_api(void);
Suite *unit_tensors(void);
Suite *unit_input(void);
Suite *unit_formulas(void);
Suite *unit_oracle(void);
Suite *unit_yardstick(void);
Suite *unit_compare(void);
Suite *unit_explain(void);
Suite *unit_npy(void);
Suite *unit_measure(void);

/* A stage that computes nothing and keeps a record (unit_api.c). */
extern const fa_stage_t fake_stage;

/* Tensors on the host with normal inputs; the test ends if that fails. */
void host_tensors(fa_tensors_t *t, const fa_problem_t *p, bool backward, fa_layout_t layout);
/* Expected values; the test ends if that fails. */
void expect_values(fa_expected_t *e, const fa_problem_t *p, bool backward);
/* Writes the oracle's values, rounded to their types, into all outputs. */
void write_right_result(fa_tensors_t *t, const fa_expected_t *e);

/* Element (b, h, r, c) of an array on the host. */
double load_at(const fa_problem_t *p, int array, int64_t b, int64_t h, int64_t r, int64_t c);
void store_at(const fa_problem_t *p, int array, int64_t b, int64_t h, int64_t r, int64_t c, double x);

/* One row of attention by definition, written apart from the oracle: query i of head h sees keys 0 ..
 * visible-1 of kv head kvh; `padding` further keys have logit 0 and value 0. logits may be NULL. */
void attention_row(const fa_problem_t *p, int64_t b, int64_t h, int64_t kvh, int64_t i, int64_t visible,
                   int64_t padding, double *o, double *lse);

#endif
