/* only_none.c - for stages without tests of their own. */
#include "jobs.h"

static const property_t properties[] = {{.name = NULL}};
const suite_t suite_only = {"this stage alone", properties};
