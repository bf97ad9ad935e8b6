/* copies.cuh - helpers of step `cublas` that touch Q, K, V, O and their gradients: N d elements, small beside
 * the N x N of the scores. */
#ifndef NAIVE_COPIES_CUH
#define NAIVE_COPIES_CUH

#include "indices.cuh"
#include "ptx/convert.h"

#include <float.h>

namespace FA_KERNEL_NAMESPACE {

enum { COPY_THREADS = 256, COPY_WARPS = COPY_THREADS / 32, CHECK_THREADS = 1024 };

/* [batch][heads][rows][cols], and whether rows beyond the item's valid keys count as absent. */
typedef struct extent {
  int64_t heads, rows, cols;
  bool of_keys;
} extent_t;

/* to = from, converted; absent rows become 0. One warp per row. */
static __global__ void copy_rows(const fa_problem_t p, const matrix_t from, const matrix_t to,
                                 const extent_t size) {
  const tensor_row_t n =
      tensor_row((int64_t)blockIdx.x * COPY_WARPS + threadIdx.x / 32, size.heads, size.rows);
  if (n.b < p.batch) {
    const bool there = !size.of_keys || n.r < fa_keys(&p, n.b);
    const int64_t source = fa_row(&from.at, n.b, n.h, n.r), target = fa_row(&to.at, n.b, n.h, n.r);
    for (int64_t c = threadIdx.x % 32; c < size.cols; c += 32)
      store_element(to.dtype, to.at.data, target + c,
                    there ? load_element(from.dtype, from.at.data, source + c) : 0.0f);
  }
}

static inline fa_status_t launch_copy(const fa_problem_t *p, matrix_t from, matrix_t to, extent_t size,
                                      fa_reason_t *why) {
  const int64_t rows = p->batch * size.heads * size.rows;
  LAUNCH(copy_rows, (rows + COPY_WARPS - 1) / COPY_WARPS, COPY_THREADS, 0, p->stream, *p, from, to, size);
  return FA_OK;
}

static __global__ void set_marks(int *marked, int64_t count, int value) {
  const int64_t n = (int64_t)blockIdx.x * COPY_THREADS + threadIdx.x;
  if (n < count) marked[n] = value;
}

static inline fa_status_t launch_set_marks(const fa_problem_t *p, int *marked, int value, fa_reason_t *why) {
  const int64_t count = p->batch * p->heads_kv;
  LAUNCH(set_marks, (count + COPY_THREADS - 1) / COPY_THREADS, COPY_THREADS, 0, p->stream, marked, count,
         value);
  return FA_OK;
}

/* Marks the kv heads that have a NaN or an infinity in a tensor, or in the group's part of it. One block per
 * kv head; threads that find one write the same 1. */
static __global__ void mark_if_not_finite(const fa_problem_t p, const matrix_t x, const extent_t size,
                                          int *marked) {
  const int64_t group = size.heads / p.heads_kv, b = blockIdx.x / p.heads_kv,
                kv_head = blockIdx.x % p.heads_kv;
  const int64_t rows = size.of_keys ? fa_keys(&p, b) : size.rows;
  bool finite = true;
  for (int64_t n = threadIdx.x / 32; n < group * rows; n += CHECK_THREADS / 32) {
    const int64_t at = fa_row(&x.at, b, kv_head * group + n / rows, n % rows);
    for (int64_t c = threadIdx.x % 32; c < size.cols; c += 32)
      finite = finite && fabsf(load_element(x.dtype, x.at.data, at + c)) <= FLT_MAX;
  }
  if (!finite) marked[blockIdx.x] = 1;
}

static inline fa_status_t launch_mark(const fa_problem_t *p, matrix_t x, extent_t size, int *marked,
                                      fa_reason_t *why) {
  LAUNCH(mark_if_not_finite, p->batch * p->heads_kv, CHECK_THREADS, 0, p->stream, *p, x, size, marked);
  return FA_OK;
}

} // namespace FA_KERNEL_NAMESPACE
#endif
