/* only_none.c - for stages without tests of their own. */
#include "jobs.h"

/* Hidden pairs are left out. */
tile_t only_tile(const subject_t *s, int64_t head_dim, fa_pass_t pass) {
  (void)s, (void)head_dim, (void)pass;
  return (tile_t){1, 1};
}

static const property_t properties[] = {{.name = NULL}};
const suite_t suite_only = {"this stage alone", properties};
