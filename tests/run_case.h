/* run_case.h - making, filling, running and judging one instance. */
#ifndef RUN_CASE_H
#define RUN_CASE_H

#include "compare.h"
#include "jobs.h"

/* Tensors for problem p in the given layout, with NaN inputs. False: the report says why. */
bool make_tensors(const subject_t *s, const fa_problem_t *p, int layout, bool backward, const char *what,
                  fa_tensors_t *t, report_t *r);
/* Fills the inputs as the row says. */
bool fill_instance(const instance_t *i, fa_tensors_t *t, report_t *r);
/* Both: the usual start. */
bool make_instance(const subject_t *s, const instance_t *i, bool backward, fa_tensors_t *t, report_t *r);
/* Fills the inputs from a distribution of input.h. */
bool fill_random(fa_tensors_t *t, const char *dist, uint64_t seed, report_t *r);

/* The first instance that the step supports and whose row has all of `use` (SHAPE, SMALL); NULL: none. */
const instance_t *supported_instance(const subject_t *s, fa_pass_t pass, unsigned use, report_t *r);

/* Upload, run, download, look at the guards. `what` begins the message. */
bool run(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r);
/* Compares all outputs with the oracle. */
bool right(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r);
/* run and right. */
bool run_right(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r);

/* Threads for loops over all elements: the largest rows have 10^8 of them. */
#define WORTH_THREADS(size) ((size)[0] * (size)[1] * (size)[2] * (size)[3] > 1000000)

/* Elements of the host side, one at a time; a loop over many makes a view (tensors.h). */
double get(const fa_tensors_t *t, int array, int64_t b, int64_t h, int64_t r, int64_t c);
void set(fa_tensors_t *t, int array, int64_t b, int64_t h, int64_t r, int64_t c, double x);
/* Sets every element of one input. */
typedef double element_fn(int64_t b, int64_t h, int64_t r, int64_t c);
void set_all(fa_tensors_t *t, int array, element_fn *f);

/* A packed copy of one output [batch][heads][rows][dim]. */
typedef struct copy {
  double *x;
  int64_t size[4];
} copy_t;
copy_t copy_of(const fa_tensors_t *t, int array);
void free_copy(copy_t *c);
double at(const copy_t *c, int64_t b, int64_t h, int64_t r, int64_t col);

/* Outputs of a problem: O and LSE, and with `backward` dQ, dK, dV. Returns how many. */
int output_arrays(bool backward, int arrays[5]);
/* Do both copies hold the same numbers, bit for bit (NaN equals NaN)? The report says where not. */
bool same_bits(const copy_t *a, const copy_t *b, int array, const char *what, report_t *r);
/* Do they agree within tolerance * max(1, largest of both)? */
bool near(const copy_t *a, const copy_t *b, double tolerance, int array, const char *what, report_t *r);
double tolerance_of(const fa_problem_t *p); /* the type's, from type_pairs */

/* Steps whose bits may depend on what else is in the batch; their numbers must still agree. */
bool batch_may_show(const subject_t *s);

/* Every byte of every output block still holds the sentinel. Call after download. */
bool outputs_untouched(const fa_tensors_t *t);

#endif
