/* tensorcore_backward_stats.cu - D = rowsum(dO o O) and LSE of every row, as tensorcore_backward.cu reads them. */
#include "tensorcore_backward_stats.h"
#include "ptx/convert.h"
#include "ptx/count.h"
#include "ptx/warp.h"
#include "ptx/shape.h"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

enum {
  STATS_LANES = 8, /* of a row: four rows of a warp keep 32 loads of 16 bytes under way */
  STATS_THREADS = STATS_ROWS * STATS_LANES
};

template <class T, int D>
static __global__ void __launch_bounds__(STATS_THREADS) prepare(const fa_problem_t p, row_stats_t *stats) {
  const int64_t rows = whole_rows(p.seq_q, STATS_BLOCK);
  const int64_t at = (int64_t)blockIdx.x * STATS_ROWS + threadIdx.x / STATS_LANES;
  const int64_t head = at / rows, b = head / p.heads_q,
                h = head % p.heads_q; /* rows is a multiple of a block's */
  const int i = (int)(at % rows), lane = threadIdx.x % STATS_LANES;
  const shape_t s = shape_of(p, b);
  const bool there = i >= blind_queries(s) && i < s.queries;
  float sum = 0;
  if (there) {
    const T *o = (const T *)p.o.data + fa_row(&p.o, b, h, i),
            *d_o = (const T *)p.d_o.data + fa_row(&p.d_o, b, h, i);
    static_assert(D % STATS_LANES == 0, "STATS_LANES must divide each of FA1_HEAD_DIMS");
#pragma unroll
    for (int c = 0; c < D; c += STATS_LANES) sum = fmaf(to_f32(o[c + lane]), to_f32(d_o[c + lane]), sum);
  }
  for (int mask = 1; mask < STATS_LANES; mask *= 2) sum += shfl_xor_f32(sum, mask);
  count_flop(0, 2 * D / STATS_LANES);
  if (lane) return;
  const float lse = there ? p.lse[head * s.queries + i] : -INFINITY;
  stats[at] = {lse == -INFINITY ? INFINITY : lse, sum};
}

template <class T, int D>
static fa_status_t launch(const fa_problem_t *p, row_stats_t *stats, fa_reason_t *why) {
  const int64_t rows = p->batch * p->heads_q * whole_rows(p->seq_q, STATS_BLOCK);
  LAUNCH((prepare<T, D>), rows / STATS_ROWS, STATS_THREADS, 0, p->stream, *p, stats);
  return FA_OK;
}

fa_status_t launch_stats(const fa_problem_t *p, row_stats_t *stats, fa_reason_t *why) {
  LAUNCH_TYPED(FA1_HEAD_DIMS, launch, p, stats, why);
}

} // namespace FA_KERNEL_NAMESPACE
