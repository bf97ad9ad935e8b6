/* shape.h - which keys a query sees, in 32 bits: what fa_visible and fa_first_query of fa.h say for one batch item. */
#ifndef FA_PTX_SHAPE_H
#define FA_PTX_SHAPE_H

#include "launch.h"

namespace FA_KERNEL_NAMESPACE {

FA_DEVICE int min_of(int a, int b) {
  return a < b ? a : b;
}
FA_DEVICE int max_of(int a, int b) {
  return a > b ? a : b;
}

/* Query i sees keys j < keys with j <= i + reach. Causal: reach = keys - queries, so that the last query sees the last
 * key. Without a mask: reach = keys, so that every query sees all. */
typedef struct shape {
  int queries, keys, reach; /* keys: those that exist, read from kv_len on the device */
} shape_t;

FA_DEVICE shape_t shape_of(const fa_problem_t &p, int64_t b) {
  const int queries = (int)p.seq_q, keys = (int)fa_keys(&p, b);
  return {queries, keys, p.causal ? keys - queries : keys};
}

/* Query i sees keys 0 .. visible - 1. */
FA_DEVICE int visible(const shape_t &s, int i) {
  return max_of(0, min_of(s.keys, i + s.reach + 1));
}

/* The first query that sees key j, which exists. */
FA_DEVICE int first_query(const shape_t &s, int j) {
  return max_of(0, j - s.reach);
}

/* How many queries, from the first, see no key at all. */
FA_DEVICE int blind_queries(const shape_t &s) {
  return s.keys == 0 ? s.queries : first_query(s, 0);
}

/* The key that the last query of i0 .. i0 + rows - 1 sees last: its block is the last one that these queries meet. */
FA_DEVICE int last_key(const shape_t &s, int i0, int rows) {
  return visible(s, min_of(i0 + rows, s.queries) - 1) - 1;
}

} // namespace FA_KERNEL_NAMESPACE
#endif
