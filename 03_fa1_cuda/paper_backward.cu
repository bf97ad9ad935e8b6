/* paper_backward.cu - step `paper`: Algorithm 4 of the FlashAttention paper (2205.14135) as printed, without dropout.
 *
 * The same two loops. K_j, V_j and their gradients stay on chip while all Q_i pass by; dQ_i comes from HBM and goes
 * back at every inner step, as O_i does forward:
 *
 *   HBM         Q O dO LSE           dQ           K V      dK dV
 *                |                   ^v at every   | once   ^ once a block j
 *   on chip     Q_i dO_i D_i  P dS   dQ_i  step    K_j V_j  dK_j dV_j (registers)
 *
 * P is not read but computed again: exp(S - LSE), where the paper's exp(S - m) / l has the two numbers apart. A thread
 * block does one kv head, so dK and dV sum up over the query heads of its group without a second kernel. */
#include "paper.cuh"
#include "paper.h"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

template <class T, int D> struct backward_sram_t {
  enum { Bc = paper_shape<D>::Bc, Br = paper_shape<D>::Br };
  T K[Bc][D + 2], V[Bc][D + 2], Q[Br][D + 2], dO[Br][D + 2], P[Br][Bc + 2], dS[Br][Bc + 2];
  float D_row[Br], lse[Br];
};

/* D_i = rowsum(dO_i o O_i), and LSE. A row that sees nothing gets LSE = +inf, which makes its P = exp(S - LSE) 0. */
template <class T, int D>
FA_DEVICE void load_rows(backward_sram_t<T, D> &sram, const T *O, int64_t stride, const float *lse, int i0,
                         const shape_t &s) {
  enum { LANES = PAPER_THREADS / backward_sram_t<T, D>::Br };
  const int row = threadIdx.x / LANES, lane = threadIdx.x % LANES, i = i0 + row;
  const bool there = i >= blind_queries(s) && i < s.queries;
  float sum = 0;
  for (int c = lane; c < D; c += LANES)
    if (there) sum += to_f32(sram.dO[row][c]) * to_f32(O[i * stride + c]);
  sum = sum_over(sum, LANES);
  if (lane == 0) {
    sram.D_row[row] = sum;
    sram.lse[row] = there && lse[i] != -INFINITY ? lse[i] : INFINITY;
  }
  count_flop(0, 2 * D / LANES);
}

template <class T, int D>
static __global__ void __launch_bounds__(PAPER_THREADS, 1) algorithm_4(const fa_problem_t p, float *dQ_hbm) {
  typedef backward_sram_t<T, D> sram_t;
  enum { Bc = sram_t::Bc, Br = sram_t::Br };
  static_assert(sizeof(sram_t) <= PAPER_SRAM_MOST,
                "PAPER_KEYS and PAPER_QUERIES: SRAM has no room for all of it");
  SHARED_DYN(sram_t, sram);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, group = (int)(p.heads_q / p.heads_kv);
  const int64_t b = blockIdx.x / p.heads_kv, kv_head = blockIdx.x % p.heads_kv;
  const shape_t s = shape_of(p, b);
  const int blind = blind_queries(s);
  const float tau = p.scale;

  /* Line 2: dQ = 0. Where a query sees no key, that is the end of it. */
  for (int g = 0; g < group; g++) {
    const int64_t h = kv_head * group + g;
    for (int64_t n = threadIdx.x; n < (int64_t)s.queries * D; n += PAPER_THREADS)
      if (n / D < blind)
        from_f32(0, head_of<T>(p.dq, b, h) + n / D * p.dq.stride_row + n % D);
      else
        dQ_hbm[(b * p.heads_q + h) * s.queries * D + n] = 0;
  }

  for (int j0 = 0; j0 < p.seq_k; j0 += Bc) { /* blocks beyond the last key too: their gradients are 0 */
    __syncthreads();                         /* the block before has read K and V, and line 2 is done */
    load_block<T, D>(sram.K, head_of<T>(p.k, b, kv_head), p.k.stride_row, j0, 0, s.keys);
    load_block<T, D>(sram.V, head_of<T>(p.v, b, kv_head), p.v.stride_row, j0, 0, s.keys);
    float dK[Bc / 16][D / 16] = {}, dV[Bc / 16][D / 16] = {};

    for (int g = 0; g < (j0 < s.keys ? group : 0); g++) {
      const int64_t h = kv_head * group + g, head = b * p.heads_q + h;
      float *dQ = dQ_hbm + head * s.queries * D;
      for (int i0 = first_query(s, j0) / Br * Br; i0 < s.queries; i0 += Br) {
        const bool last = j0 / Bc == last_key(s, i0, Br) / Bc;
        __syncthreads(); /* the step before has read Q_i, dO_i, P and dS */
        load_block<T, D>(sram.Q, head_of<T>(p.q, b, h), p.q.stride_row, i0, blind, s.queries);
        load_block<T, D>(sram.dO, head_of<T>(p.d_o, b, h), p.d_o.stride_row, i0, blind, s.queries);
        __syncthreads(); /* Q_i and dO_i are complete */
        load_rows<T, D>(sram, head_of<T>(p.o, b, h), p.o.stride_row, p.lse + head * s.queries, i0, s);
        __syncthreads(); /* D_i and LSE are complete */

        /* S = tau Q_i K_j^T, P = exp(S - LSE), dP = dO_i V_j^T, dS = P o (dP - D_i) */
        float x[Br / 16][Bc / 16] = {}, dP[Br / 16][Bc / 16] = {};
        add_rows_by_rows<D>(x, sram.Q, sram.K);
        add_rows_by_rows<D>(dP, sram.dO, sram.V);
        for (int r = 0; r < Br / 16; r++)
          for (int c = 0; c < Bc / 16; c++) {
            const int row = ty + 16 * r, column = tx + 16 * c;
            /* BEGIN SOLUTION */
            /* STUB: const float P = x[r][c], dS = dP[r][c]; */
            const bool seen = j0 + column < visible(s, i0 + row);
            const float P = seen ? expf(mul_rn(tau, x[r][c]) - sram.lse[row]) : 0;
            const float dS = seen ? P * (dP[r][c] - sram.D_row[row]) : 0;
            /* END SOLUTION */
            from_f32(P, &sram.P[row][column]);
            from_f32(dS, &sram.dS[row][column]);
          }
        count_flop(0, 4 * Br * Bc / PAPER_THREADS);
        count_exp(Br * Bc / PAPER_THREADS);
        __syncthreads(); /* P and dS are complete */

        /* dV_j += P^T dO_i, dK_j += dS^T Q_i (times tau at the end), dQ_i += tau dS K_j */
        add_rows_by_columns<Br, true>(dV, sram.P, sram.dO);
        add_rows_by_columns<Br, true>(dK, sram.dS, sram.Q);
        float dq[Br / 16][D / 16] = {};
        add_rows_by_columns<Bc, false>(dq, sram.dS, sram.K);
        for (int r = 0; r < Br / 16; r++)
          for (int c = 0; c < D / 16; c++) {
            const int i = i0 + ty + 16 * r, column = tx + 16 * c;
            if (i < blind || i >= s.queries) continue;
            const float sum = dQ[(int64_t)i * D + column] + tau * dq[r][c];
            if (last)
              from_f32(sum, head_of<T>(p.dq, b, h) + i * p.dq.stride_row + column);
            else
              dQ[(int64_t)i * D + column] = sum;
          }
      }
    }

    for (int r = 0; r < Bc / 16; r++)
      for (int c = 0; c < D / 16; c++) {
        const int j = j0 + ty + 16 * r, column = tx + 16 * c;
        if (j >= p.seq_k) continue;
        from_f32(j < s.keys ? tau * dK[r][c] : 0,
                 head_of<T>(p.dk, b, kv_head) + j * p.dk.stride_row + column);
        from_f32(j < s.keys ? dV[r][c] : 0, head_of<T>(p.dv, b, kv_head) + j * p.dv.stride_row + column);
      }
  }
}

template <class T, int D> static fa_status_t launch(const fa_problem_t *p, fa_reason_t *why) {
  LAUNCH((algorithm_4<T, D>), p->batch * p->heads_kv, PAPER_THREADS, sizeof(backward_sram_t<T, D>), p->stream,
         *p, (float *)p->workspace);
  return FA_OK;
}

fa_status_t paper_backward(const fa_problem_t *p, fa_reason_t *why) {
  LAUNCH_TYPED(FA1_HEAD_DIMS, launch, p, why);
}

} // namespace FA_KERNEL_NAMESPACE
