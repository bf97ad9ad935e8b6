/* suite_values.h - shared with the backward suite. */
#ifndef SUITE_VALUES_H
#define SUITE_VALUES_H

#include "run_case.h"

/* Do the outputs hold what the row's `expect` says? True for rows that say nothing. */
bool has_expected_values(const subject_t *s, const instance_t *i, const fa_tensors_t *t, report_t *r);

#endif
