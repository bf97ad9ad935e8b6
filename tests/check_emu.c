/* check_emu.c - tests of the emulator: each wrapper against its definition and against a GPU's words, each finding against
 * a kernel that deserves it, and the scheduler in all orders. */
#define _GNU_SOURCE
#include "emu_check.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

const fa_stage_t *const fa_stages[] = {NULL};

static FILE *quiet_file;
static int quiet_old;

void quiet_begin(void) {
  fflush(stderr);
  quiet_file = tmpfile();
  ck_assert_ptr_nonnull(quiet_file);
  quiet_old = dup(2);
  dup2(fileno(quiet_file), 2);
}

const char *quiet_end(void) {
  static char said[QUIET_ROOM];
  fflush(stderr);
  dup2(quiet_old, 2);
  close(quiet_old);
  rewind(quiet_file);
  said[fread(said, 1, sizeof said - 1, quiet_file)] = 0;
  fclose(quiet_file);
  return said;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "--fault")) return run_one_fault();
  start_tests(argv);
  Suite *suites[] = {emu_definition_suite(), emu_golden_suite(), emu_finding_suite(),
                     emu_order_suite(),      emu_launch_suite(), emu_request_suite()};
  int status = run_suites("check_emu", suites, sizeof suites / sizeof *suites, NULL);
  say_what_was_not_recorded();
  return status;
}
