/* emu_check.h - the suites of check_emu. */
#ifndef EMU_CHECK_H
#define EMU_CHECK_H

#include "runner.h"

Suite *emu_definition_suite(void);
Suite *emu_golden_suite(void); /* of the vectors that were recorded */
void say_what_was_not_recorded(void);
Suite *emu_finding_suite(void);
Suite *emu_order_suite(void);
Suite *emu_launch_suite(void);
Suite *emu_request_suite(void);

/* What the emulator prints between the two is kept back; quiet_end returns it. */
void quiet_begin(void);
const char *quiet_end(void);
enum { QUIET_ROOM = 1 << 16 };

/* `check_emu --fault`: one faulty kernel, whose finding is printed as always. */
int run_one_fault(void);

#endif
