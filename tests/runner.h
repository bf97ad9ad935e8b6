/* runner.h - runs Check suites one after another and counts what they did.
 *
 * Check runs every test in a process of its own, so whatever a test wants to tell the program that started
 * it (how many cases it ran, how many it saw refused, which one it was in when it died) goes through a page
 * of shared memory. That program itself never computes anything: a process that has used OpenMP or CUDA
 * must not be forked. */
#ifndef RUNNER_H
#define RUNNER_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

/* Seconds that one test may take; CK_TIMEOUT_MULTIPLIER stretches it. */
#define TEST_TIMEOUT 60

/* Call first in main. Starts the program again, once, with OMP_WAIT_POLICY=passive unless it is set: OpenMP
 * reads it before main, and threads that spin make every test many times slower on a busy machine. */
void start_tests(char **argv);

/* Memory that forked tests share with the program, zeroed. Never NULL: exits with a message instead. */
void *shared_memory(size_t bytes);

/* A suite of the tests listed, ended by NULL. */
Suite *suite_of(const char *name, const TTest *const *tests);

/* Called inside tests. */
void count_ran(long cases);     /* cases whose property was looked at */
void count_refused(long pairs); /* unsupported (step, case) pairs that were refused as they should be */

bool env_set(const char *name);                       /* set, not empty and not "0" */
bool env_allows(const char *name, const char *value); /* the variable is unset or empty, or equals value */

/* Runs the suites in order (with FA_FAIL_FAST until one fails), frees them, prints one line of totals and
 * appends it to the file $FA_TOTALS. after_suite may be NULL. Returns main's exit status. */
int run_suites(const char *program, Suite **suites, int count, void (*after_suite)(void));

#endif
