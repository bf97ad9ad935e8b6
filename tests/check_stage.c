/* check_stage.c - all suites on every step of the one stage that is linked in. Cheap suites that find most
 * mistakes come first, so that FA_FAIL_FAST stops early. */
#include "jobs.h"
#include "runner.h"

#include <string.h>

int main(int argc, char **argv) {
  (void)argc;
  start_tests(argv);
  static const suite_t *const all[] = {&suite_values,  &suite_interface,  &suite_empty,  &suite_forward,
                                       &suite_special, &suite_invariants, &suite_decode, &suite_backward,
                                       &suite_refused, &suite_addresses,  &suite_only,   &suite_measure,
                                       &suite_repeat,  &suite_orders};
  enum { MOST = sizeof all / sizeof *all };
  jobs_probe();
  Suite *suites[MOST];
  int count = 0;
  for (int n = 0; n < MOST; n++) {
    Suite *suite = jobs_suite(all[n]);
    if (suite) suites[count++] = suite;
  }
  char program[64];
  snprintf(program, sizeof program, "check_%s", fa_stages[0]->name);
  int status = run_suites(program, suites, count, jobs_after_suite);
  jobs_absent();
  return status;
}
