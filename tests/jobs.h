/* jobs.h - what is tested on which step: properties, and the tests that Check is given.
 *
 * A property is looked at either once for each case of the table that the step supports, or once per step.
 * On a CPU each group of cases is a test of its own; on a GPU, where starting CUDA takes seconds, one test
 * loops over the whole table. Test names are stage.property.step/group. */
#ifndef JOBS_H
#define JOBS_H

#include <stdarg.h>

#include "cases.h"
#include "device.h"

/* What is under test. */
typedef struct subject {
  const fa_stage_t *stage;
  const fa_step_t *step;
  fa_device_t device;
  const fa_machine_t *machine;
} subject_t;

/* Failures of one test. Only the first few are kept; all are counted. */
typedef struct report {
  int failures;
  size_t length;
  char text[3000];
  bool not_run; /* set by not_run(): there was nothing to look at here */
} report_t;

/* Notes a failure; the test goes on with the next case. */
void wrong(report_t *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says that the property cannot be looked at on this machine, and why; shown as not run. */
void not_run(report_t *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Of a property's many runs, every how-many-th is made: `stride` in the emulator, 1 elsewhere. */
int every(const subject_t *s, int stride);

typedef struct property {
  const char *name;
  fa_pass_t pass; /* the step must support this pass */
  /* Exactly one of the two. */
  void (*each)(const subject_t *s, const instance_t *i, report_t *r);
  void (*once)(const subject_t *s, report_t *r);
  bool (*wants)(const instance_t *i); /* each: which instances; NULL: all */
  /* What the step must be like, for this instance (each) or at all (once, instance NULL); NULL: nothing. */
  bool (*fits)(const subject_t *s, const instance_t *i);
  bool unsupported; /* each: those instances that the step does not support */
  bool one_test;    /* each: all groups in one test, on a CPU too */
  const char *step; /* once or each: only this step; NULL: all */
  unsigned devices; /* bits of fa_device_t; 0: all */
  tier_t tier;
  bool sanitized; /* also with SAN=1 */
} property_t;

typedef struct suite {
  const char *name;
  const property_t *properties; /* ended by name NULL */
} suite_t;

/* One suite per file suite_NAME.c; only_NAME.c holds one for what a single stage has. */
extern const suite_t suite_values, suite_refused, suite_forward, suite_backward, suite_invariants,
    suite_special, suite_empty, suite_repeat, suite_decode, suite_interface, suite_addresses, suite_measure,
    suite_orders, suite_only;

/* Queries and keys that a step computes together, hidden pairs too: 0 times NaN is NaN, and so one may spread to all
 * of them. 1 and 1 where hidden pairs are left out. Each only_NAME.c says it of its stage. */
typedef struct tile {
  int64_t queries, keys;
} tile_t;
tile_t only_tile(const subject_t *s, int64_t head_dim, fa_pass_t pass);

/* Finds out, in a process of its own, which devices exist and what each step supports. */
void jobs_probe(void);
/* The Check suite of one of the above, or NULL if nothing in it applies. */
struct Suite *jobs_suite(const suite_t *suite);
/* Prints what the tests of the last suite could not do: died in which case, not run and why. */
void jobs_after_suite(void);
/* Prints which devices and steps were not looked at at all, and why. */
void jobs_absent(void);

#endif
