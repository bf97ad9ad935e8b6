/* runner.c - see runner.h. */
#define _GNU_SOURCE
#include "runner.h"
#include "clock.h"
#include "simd.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct counters {
  _Atomic long ran, refused;
} counters_t;
static counters_t *counters;

/* A case frees what the next one asks for again: handed back to the system and cleared each time, that would be a
 * quarter of the time of the processor's tests. */
static void keep_freed_memory(void) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

void start_tests(char **argv) {
  if (fa_isa_wrong()) {
    fprintf(stderr, "%s\n", fa_isa_wrong());
    exit(3); /* as the programs do */
  }
  keep_freed_memory();
  if (getenv("OMP_WAIT_POLICY") || setenv("OMP_WAIT_POLICY", "passive", 1)) return;
  execvp(argv[0], argv);
  /* Not found under its own name: then it runs as it is. */
}

void *shared_memory(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    perror("shared memory for the tests");
    exit(2);
  }
  return p;
}

Suite *suite_of(const char *name, const TTest *const *tests) {
  Suite *suite = suite_create(name);
  TCase *cases = tcase_create(name);
  tcase_set_timeout(cases, TEST_TIMEOUT);
  for (; *tests; tests++) tcase_add_test(cases, *tests);
  suite_add_tcase(suite, cases);
  return suite;
}

void count_ran(long cases) {
  if (counters) atomic_fetch_add(&counters->ran, cases);
}

void count_refused(long pairs) {
  if (counters) atomic_fetch_add(&counters->refused, pairs);
}

bool env_set(const char *name) {
  const char *value = getenv(name);
  return value && *value && strcmp(value, "0") != 0;
}

bool env_allows(const char *name, const char *value) {
  const char *wanted = getenv(name);
  return !wanted || !*wanted || !strcmp(wanted, value);
}

int run_suites(const char *program, Suite **suites, int count, void (*after_suite)(void)) {
  counters = shared_memory(sizeof *counters);
  setvbuf(stdout, NULL, _IOLBF, 0);
  double began = fa_seconds_now();
  int run = 0, failed = 0, done = 0;
  for (int i = 0; i < count; i++) {
    SRunner *runner = srunner_create(suites[i]);
    if (failed && env_set("FA_FAIL_FAST")) {
      srunner_free(runner);
      continue;
    }
    srunner_run_all(runner, CK_ENV);
    run += srunner_ntests_run(runner);
    failed += srunner_ntests_failed(runner);
    done++;
    srunner_free(runner);
    if (after_suite) after_suite();
  }
  long ran = atomic_load(&counters->ran), refused = atomic_load(&counters->refused);
  printf("%s: %d checks in %d suite%s, %d failed", program, run, done, done == 1 ? "" : "s", failed);
  if (ran) printf("; %ld cases ran", ran);
  if (refused) printf("; %ld unsupported cases were refused as they should be", refused);
  printf("; %.1f s\n", fa_seconds_now() - began);
  const char *path = getenv("FA_TOTALS");
  FILE *totals = path && *path ? fopen(path, "a") : NULL;
  if (totals) {
    fprintf(totals, "%s %d %d %d %ld\n", program, run, done, failed, refused);
    fclose(totals);
  }
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
