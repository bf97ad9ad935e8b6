/* softmax.cu - see softmax.h.
 *
 *   forward     reads S         writes P
 *   backward    reads S, dP     writes P, dS
 *
 * A row of one segment (rows.cuh) is read from memory once and stays in registers; a longer row is read again
 * in each pass (maximum, sum, D, result), mostly from the L2 cache.
 *
 * The backward pass computes the softmax again rather than P = exp(scale S - LSE): where scores are large,
 * the fp32 number LSE is too coarse for that. */
#include "softmax.h"
#include "rows.cuh"

namespace FA_KERNEL_NAMESPACE {

/* x = scale s, rounded here so that the maximum cancels exactly; -inf where the query may not look. */
template <int WARPS>
FA_DEVICE void load_logits(float (&x)[HELD], const float *row, int segment, int n, float scale) {
  load_segment<WARPS>(x, row, segment, n);
#pragma unroll
  for (int k = 0; k < HELD; k++)
    x[k] = column_of<WARPS>(segment, k / GROUP) + k % GROUP < n ? mul_rn(scale, x[k]) : -INFINITY;
}

FA_DEVICE float max_of(const float (&x)[HELD]) {
  float m = -INFINITY;
#pragma unroll
  for (int k = 0; k < HELD; k++) m = fmaxf(m, x[k]); /* leaves NaN out; it comes back with the sum */
  return m;
}

/* x = exp(x - shift); returns the sum. */
FA_DEVICE float exponentials(float (&x)[HELD], float shift) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < HELD; k++) sum += x[k] = expf(x[k] - shift);
  return sum;
}

/* Both, for a row that was not kept in registers. */
template <int WARPS>
FA_DEVICE float load_exponentials(float (&x)[HELD], const float *row, int segment, int n, float scale,
                                  float shift) {
  load_logits<WARPS>(x, row, segment, n, scale);
  return exponentials(x, shift);
}

/* x = x / l, and 0 from column n on even if l is NaN: what is hidden stays out of dK and dV. */
template <int WARPS> FA_DEVICE void normalise(float (&x)[HELD], int segment, int n, float inverse) {
#pragma unroll
  for (int k = 0; k < HELD; k++)
    x[k] = column_of<WARPS>(segment, k / GROUP) + k % GROUP < n ? x[k] * inverse : 0;
}

/* The maximum is -inf if the query sees no key, or nothing but scores of -inf. exp(-inf - 0) is 0, as it
 * should be; exp(-inf - -inf) would be NaN. */
FA_DEVICE float shift_of(float maximum) {
  return maximum == -INFINITY ? 0 : maximum;
}

/* A query that sees keys, but nothing except scores of -inf, has l = 0 and is treated like one that sees
 * none. Its kv head is marked, if the caller wants to know. */
template <int WARPS>
FA_DEVICE void mark_if_empty(const fa_problem_t &p, const score_row_t &row, float l, int *marked) {
  if (marked && l == 0 && row.n > 0 && threadIdx.x % (32 * WARPS) == 0)
    marked[row.head / (p.heads_q / p.heads_kv)] = 1;
}

template <int WARPS, bool ONE_SEGMENT>
static __global__ void __launch_bounds__(row_shape<WARPS>::THREADS)
    softmax_forward(const fa_problem_t p, const softmax_data_t data, int64_t first_head,
                    uint32_t blocks_per_head) {
  SHARED_DYN(partials_t, scratch);
  const score_row_t row = find_row<WARPS, ONE_SEGMENT>(p, first_head, blocks_per_head);
  const int64_t pitch = score_pitch(p.seq_k);
  const float *s_row = data.s + (row.at - first_head * p.seq_q) * pitch;

  float x[HELD] = {}, m = -INFINITY, l = 0;
  for (int g = 0; g < row.segments; g++) {
    load_logits<WARPS>(x, s_row, g, row.n, p.scale);
    m = fmaxf(m, max_of(x));
  }
  m = reduce_row<WARPS, true>(m, scratch);

  const float shift = shift_of(m);
  for (int g = 0; g < row.segments; g++)
    l += ONE_SEGMENT ? exponentials(x, shift) : load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
  l = reduce_row<WARPS, false>(l, scratch);
  mark_if_empty<WARPS>(p, row, l, data.marked);
  if (row.there && threadIdx.x % (32 * WARPS) == 0) p.lse[row.at] = l == 0 ? -INFINITY : m + logf(l);

  for (int g = 0; g < row.last; g++) {
    if (!ONE_SEGMENT && g < row.segments) load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
    normalise<WARPS>(x, g, row.n, l == 0 ? 0 : 1 / l);
    store_segment<WARPS>(data.dtype, data.prob, row.at * pitch, x, g, row.columns);
  }
}

template <int WARPS, bool ONE_SEGMENT>
static __global__ void __launch_bounds__(row_shape<WARPS>::THREADS)
    softmax_backward(const fa_problem_t p, const softmax_data_t data, int64_t first_head,
                     uint32_t blocks_per_head) {
  SHARED_DYN(partials_t, scratch);
  const score_row_t row = find_row<WARPS, ONE_SEGMENT>(p, first_head, blocks_per_head);
  const int64_t pitch = score_pitch(p.seq_k), begin = (row.at - first_head * p.seq_q) * pitch;
  const float *s_row = data.s + begin, *dp_row = data.dp + begin;

  float x[HELD] = {}, y[HELD] = {}, m = -INFINITY, l = 0, d = 0; /* x: S, then P; y: dP, then dS */
  for (int g = 0; g < row.segments; g++) {
    load_logits<WARPS>(x, s_row, g, row.n, p.scale);
    if (ONE_SEGMENT) load_segment<WARPS>(y, dp_row, g, row.n);
    m = fmaxf(m, max_of(x));
  }
  m = reduce_row<WARPS, true>(m, scratch);

  const float shift = shift_of(m);
  for (int g = 0; g < row.segments; g++)
    l += ONE_SEGMENT ? exponentials(x, shift) : load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
  l = reduce_row<WARPS, false>(l, scratch);
  mark_if_empty<WARPS>(p, row, l, data.marked);
  const int n = l == 0 ? 0 : row.n;
  const float inverse = 1 / l;

  for (int g = 0; g < row.segments; g++) {
    if (!ONE_SEGMENT) {
      load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
      load_segment<WARPS>(y, dp_row, g, row.n);
    }
    normalise<WARPS>(x, g, n, inverse);
#pragma unroll
    for (int k = 0; k < HELD; k++) d = fmaf(x[k], y[k], d);
  }
  d = reduce_row<WARPS, false>(d, scratch);

  for (int g = 0; g < row.last; g++) {
    if (!ONE_SEGMENT && g < row.segments) {
      load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
      normalise<WARPS>(x, g, n, inverse);
      load_segment<WARPS>(y, dp_row, g, row.n);
    }
#pragma unroll
    for (int k = 0; k < HELD; k++) {
      const bool seen = column_of<WARPS>(g, k / GROUP) + k % GROUP < n;
      y[k] = seen ? x[k] * (y[k] - d) : 0;
      x[k] = seen ? x[k] : 0;
    }
    store_segment<WARPS>(data.dtype, data.prob, row.at * pitch, x, g, row.columns);
    store_segment<WARPS>(data.dtype, data.ds, row.at * pitch, y, g, row.columns);
  }
}

template <int WARPS, bool ONE_SEGMENT>
static fa_status_t launch_rows(const fa_problem_t *p, fa_pass_t pass, const softmax_data_t *x,
                               int64_t first_head, int64_t heads, fa_reason_t *why) {
  const int rows = row_shape<WARPS>::ROWS;
  const uint32_t blocks_per_head = (uint32_t)((p->seq_q + rows - 1) / rows);
  auto *kernel =
      pass == FA_FORWARD ? softmax_forward<WARPS, ONE_SEGMENT> : softmax_backward<WARPS, ONE_SEGMENT>;
  LAUNCH(kernel, heads * blocks_per_head, row_shape<WARPS>::THREADS, sizeof(partials_t), p->stream, *p, *x,
         first_head, blocks_per_head);
  return FA_OK;
}

fa_status_t launch_softmax(const fa_problem_t *p, fa_pass_t pass, const softmax_data_t *x, int64_t first_head,
                           int64_t heads, fa_reason_t *why) {
  const int many = LONG_ROW_WARPS;
  if (p->seq_k <= row_shape<1>::SEGMENT) return launch_rows<1, true>(p, pass, x, first_head, heads, why);
  if (p->seq_k <= row_shape<many>::SEGMENT)
    return launch_rows<many, true>(p, pass, x, first_head, heads, why);
  return launch_rows<many, false>(p, pass, x, first_head, heads, why);
}

} // namespace FA_KERNEL_NAMESPACE
