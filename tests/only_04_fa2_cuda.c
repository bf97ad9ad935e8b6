/* only_04_fa2_cuda.c - what only this stage has. */
#include "04_fa2_cuda/config.h"
#include "jobs.h"

#include <string.h>

/* P is 0 where a row does not see a key, and 0 times NaN is NaN: in a block of keys, for the rows that visit it together. In
 * `pipelined` these are a warp's, otherwise a thread block's. */
tile_t only_tile(const subject_t *s, int64_t head_dim, fa_pass_t pass) {
  (void)pass;
  if (!strcmp(s->step->name, "loops")) return (tile_t){16, FORWARD_KEYS};
  if (!strcmp(s->step->name, "split_q")) return (tile_t){16 * SPLIT_WARPS, FORWARD_KEYS};
  return (tile_t){FORWARD_ROWS((int)head_dim), FORWARD_KEYS};
}

static const property_t properties[] = {{.name = NULL}};
const suite_t suite_only = {"this stage alone", properties};
