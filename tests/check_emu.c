/* check_emu.c - tests of the emulator: each wrapper against its definition and against a GPU's words. */
#include "emu_check.h"
#include "stage.h"

#include <stdio.h>

const fa_stage_t *const fa_stages[] = {NULL};

int main(int argc, char **argv) {
  (void)argc;
  start_tests(argv);
  Suite *suites[] = {emu_definition_suite(), emu_golden_suite()};
  int status = run_suites("check_emu", suites, sizeof suites / sizeof *suites, NULL);
  say_what_was_not_recorded();
  return status;
}
