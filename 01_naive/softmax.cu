/* softmax.cu - see softmax.h.
 *
 *   forward     reads S         writes P
 *   backward    reads S, dP     writes P, dS
 *
 * A row of one segment (rows.cuh) is read from memory once and stays in registers; a longer row is read again
 * in each pass (maximum, sum, D, result), mostly from the L2 cache. Arithmetic is kept short: at 4 TB/s, an SM
 * has time for some 40 instructions per 32 scores in the forward pass.
 *
 * The backward pass computes the softmax again rather than P = exp(scale S - LSE): where scores are large,
 * the fp32 number LSE is too coarse for that. */
#include "softmax.h"
#include "ptx/arith.h"
#include "ptx/count.h"
#include "rows.cuh"

namespace FA_KERNEL_NAMESPACE {

#define LOG2_E 1.4426950408889634f

/* For each element that a thread holds: group k, column e of it. */
#define FOR_EACH_HELD                                                                                        \
  _Pragma("unroll") for (int k = 0; k < GROUPS; k++) _Pragma("unroll") for (int e = 0; e < GROUP; e++)

/* x = scale s, rounded here so that the maximum cancels exactly; -inf where the query may not look. */
template <int WARPS>
FA_DEVICE void load_logits(held_t &x, const float *row, int segment, int n, float scale) {
  load_segment<WARPS>(x, row, segment, n);
  FOR_EACH_HELD x[k][e] = mul_rn(scale, x[k][e]);
  count_flop(0, 2 * GROUPS * GROUP); /* and its place in the maximum */
  hide<WARPS>(x, segment, n, -INFINITY);
}

FA_DEVICE float max_of(const held_t &x) {
  float m = -INFINITY;
  FOR_EACH_HELD m = fmaxf(m, x[k][e]); /* leaves NaN out; it comes back with the sum */
  return m;
}

/* x = exp(x - shift); returns the sum. The difference is taken before the factor log2(e): the largest logit
 * then gives exactly 1, however large it is. */
FA_DEVICE float exponentials(held_t &x, float shift) {
  float sum = 0;
  count_flop(0, 3 * GROUPS * GROUP);
  FOR_EACH_HELD sum += x[k][e] = exp2_approx(mul_rn(x[k][e] - shift, LOG2_E));
  return sum;
}

/* x = dP; 0 where the query may not look. */
template <int WARPS> FA_DEVICE void load_dp(held_t &x, const float *row, int segment, int n) {
  load_segment<WARPS>(x, row, segment, n);
  hide<WARPS>(x, segment, n, 0);
}

/* The exponentials of a row that was not kept in registers; returns their sum. */
template <int WARPS>
FA_DEVICE float load_exponentials(held_t &x, const float *row, int segment, int n, float scale, float shift) {
  load_logits<WARPS>(x, row, segment, n, scale);
  return exponentials(x, shift);
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
    softmax_forward(const fa_problem_t p, const softmax_data_t data, uint32_t blocks_per_head) {
  SHARED_DYN(partials_t, scratch);
  const score_row_t row = find_row<WARPS, ONE_SEGMENT>(p, blocks_per_head);
  const int64_t pitch = score_pitch(p.seq_k);
  const float *s_row = data.s + row.at * pitch;

  held_t x = {};
  float m = -INFINITY, l = 0;
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

  const float inverse = l == 0 ? 0 : 1 / l;
  for (int g = 0; g < row.last; g++) {
    if (!ONE_SEGMENT && g < row.segments) load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
    FOR_EACH_HELD x[k][e] *= inverse;
    /* Hidden keys have 0 by now, except in a row of NaN, and in segments that were not loaded. */
    if (!(l < INFINITY) || g >= row.segments) hide<WARPS>(x, g, row.n, 0);
    store_segment<WARPS>(data.dtype, data.prob, row.at * pitch, x, g, row.columns);
  }
}

template <int WARPS, bool ONE_SEGMENT>
static __global__ void __launch_bounds__(row_shape<WARPS>::THREADS)
    softmax_backward(const fa_problem_t p, const softmax_data_t data, uint32_t blocks_per_head) {
  SHARED_DYN(partials_t, scratch);
  const score_row_t row = find_row<WARPS, ONE_SEGMENT>(p, blocks_per_head);
  const int64_t pitch = score_pitch(p.seq_k), begin = row.at * pitch;
  const float *s_row = data.s + begin, *dp_row = data.dp + begin;

  held_t x = {}, y = {}; /* x: S, then P; y: dP, then dS */
  float m = -INFINITY, l = 0, d = 0;
  for (int g = 0; g < row.segments; g++) {
    load_logits<WARPS>(x, s_row, g, row.n, p.scale);
    if (ONE_SEGMENT) load_dp<WARPS>(y, dp_row, g, row.n);
    m = fmaxf(m, max_of(x));
  }
  m = reduce_row<WARPS, true>(m, scratch);

  const float shift = shift_of(m);
  for (int g = 0; g < row.segments; g++)
    l += ONE_SEGMENT ? exponentials(x, shift) : load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
  l = reduce_row<WARPS, false>(l, scratch);
  mark_if_empty<WARPS>(p, row, l, data.marked);
  const float inverse = l == 0 ? 0 : 1 / l;

  for (int g = 0; g < row.segments; g++) {
    if (!ONE_SEGMENT) {
      load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
      load_dp<WARPS>(y, dp_row, g, row.n);
    }
    FOR_EACH_HELD {
      x[k][e] *= inverse;
      d = fmaf(x[k][e], y[k][e], d);
    }
  }
  d = reduce_row<WARPS, false>(d, scratch);

  /* Hidden keys have P = dP = 0 by now, which gives dS = 0, except where l or D is not finite, and in segments
   * that were not loaded. In a row whose l is 0, all keys count as hidden. */
  const int n = l == 0 ? 0 : row.n;
  const bool usual = l > 0 && l < INFINITY && fabsf(d) < INFINITY;
  for (int g = 0; g < row.last; g++) {
    if (!ONE_SEGMENT && g < row.segments) {
      load_exponentials<WARPS>(x, s_row, g, row.n, p.scale, shift);
      load_dp<WARPS>(y, dp_row, g, row.n);
      FOR_EACH_HELD x[k][e] *= inverse;
    }
    FOR_EACH_HELD y[k][e] = x[k][e] * (y[k][e] - d);
    if (!usual || g >= row.segments) {
      hide<WARPS>(x, g, n, 0);
      hide<WARPS>(y, g, n, 0);
    }
    store_segment<WARPS>(data.dtype, data.prob, row.at * pitch, x, g, row.columns);
    store_segment<WARPS>(data.dtype, data.ds, row.at * pitch, y, g, row.columns);
  }
}

template <int WARPS, bool ONE_SEGMENT>
static fa_status_t launch_rows(const fa_problem_t *p, fa_pass_t pass, const softmax_data_t *x,
                               fa_reason_t *why) {
  const int rows = row_shape<WARPS>::ROWS;
  const uint32_t blocks_per_head = (uint32_t)((p->seq_q + rows - 1) / rows);
  auto *kernel =
      pass == FA_FORWARD ? softmax_forward<WARPS, ONE_SEGMENT> : softmax_backward<WARPS, ONE_SEGMENT>;
  LAUNCH(kernel, p->batch * p->heads_q * blocks_per_head, row_shape<WARPS>::THREADS, sizeof(partials_t),
         p->stream, *p, *x, blocks_per_head);
  return FA_OK;
}

fa_status_t launch_softmax(const fa_problem_t *p, fa_pass_t pass, const softmax_data_t *x, fa_reason_t *why) {
  const int many = LONG_ROW_WARPS;
  if (p->seq_k <= row_shape<1>::SEGMENT) return launch_rows<1, true>(p, pass, x, why);
  if (p->seq_k <= row_shape<many>::SEGMENT) return launch_rows<many, true>(p, pass, x, why);
  return launch_rows<many, false>(p, pass, x, why);
}

} // namespace FA_KERNEL_NAMESPACE
