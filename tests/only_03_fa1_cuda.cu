/* only_03_fa1_cuda.cu - see only_03_fa1_cuda.h. */
#include "ptx/shape.h"
#include "only_03_fa1_cuda.h"

using namespace FA_KERNEL_NAMESPACE;

fa1_shape_t fa1_shape(const fa_problem_t *p, int64_t b) {
  const shape_t s = shape_of(*p, b);
  return {s.queries, s.keys, blind_queries(s)};
}
int fa1_visible(const fa_problem_t *p, int64_t b, int i) {
  return visible(shape_of(*p, b), i);
}
int fa1_first_query(const fa_problem_t *p, int64_t b, int j) {
  return first_query(shape_of(*p, b), j);
}
int fa1_last_key(const fa_problem_t *p, int64_t b, int i0, int rows) {
  return last_key(shape_of(*p, b), i0, rows);
}
