/* emu_check.h - the suites of check_emu. */
#ifndef EMU_CHECK_H
#define EMU_CHECK_H

#include "runner.h"

Suite *emu_definition_suite(void);
Suite *emu_golden_suite(void); /* of the vectors that were recorded */
void say_what_was_not_recorded(void);

#endif
