/* paper.cu - step `paper`: Algorithm 1 of the FlashAttention paper (2205.14135) as printed, to be read beside it.
 *
 * A thread block does one head. K_j and V_j stay in SRAM (shared memory) while all Q_i pass by; O_i, l_i and m_i come
 * from HBM (global memory) and go back at every inner step:
 *
 *   HBM    Q K V                     O  l  m                        O is divided by l at every step: at any time it is
 *           |  \__ once a block j    ^v ^v ^v  at every step        the attention of the keys seen so far
 *   SRAM   Q_i  K_j V_j              S_ij (becomes P~_ij)           tau is the problem's scale
 *
 * All arithmetic on CUDA cores in fp32: this step is for reading, `tensorcore` for speed. */
#include "paper.h"
#include "paper.cuh"

#include <math.h>

namespace FA_KERNEL_NAMESPACE {

template <class T, int D> struct forward_sram_t {
  enum { Bc = paper_shape<D>::Bc, Br = paper_shape<D>::Br };
  /* Rows of 16-bit elements take an odd number of 4-byte banks, so that 16 rows lie in 16 banks. */
  T K[Bc][D + 2], V[Bc][D + 2], Q[Br][D + 2];
  float S[Br][Bc + 4]; /* the rows that a warp sums up lie 4 banks apart */
  float keep[Br], add[Br];
};

template <class T, int D>
static __global__ void __launch_bounds__(PAPER_THREADS, 1)
    algorithm_1(const fa_problem_t p, float *O_hbm, float *l_hbm, float *m_hbm) {
  typedef forward_sram_t<T, D> sram_t;
  enum { Bc = sram_t::Bc, Br = sram_t::Br, LANES = PAPER_THREADS / Br }; /* LANES threads share a row of S */
  static_assert(sizeof(sram_t) <= PAPER_SRAM_MOST,
                "PAPER_KEYS and PAPER_QUERIES: SRAM has no room for all of it");
  SHARED_DYN(sram_t, sram);
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row = threadIdx.x / LANES,
            lane = threadIdx.x % LANES;
  const int64_t b = blockIdx.x / p.heads_q, h = blockIdx.x % p.heads_q, kv_head = fa_kv_head(&p, h);
  const shape_t s = shape_of(p, b);
  const int blind = blind_queries(s);
  const float tau = p.scale;
  const int64_t o_head = fa_row(&p.o, b, h, 0);
  float *O = O_hbm + (int64_t)blockIdx.x * s.queries * D, *lse = p.lse + (int64_t)blockIdx.x * s.queries;
  float *l = l_hbm + (int64_t)blockIdx.x * s.queries, *m = m_hbm + (int64_t)blockIdx.x * s.queries;

  /* Line 2: O = 0, l = 0, m = -inf. A row that sees no key takes no part and is finished here. */
  for (int64_t n = threadIdx.x; n < (int64_t)s.queries * D; n += PAPER_THREADS)
    if (n / D < blind)
      store_element(p.dtype_out, p.o.data, o_head + n / D * p.o.stride_row + n % D, 0);
    else
      O[n] = 0;
  for (int i = (int)threadIdx.x; i < s.queries; i += PAPER_THREADS) {
    l[i] = 0;
    m[i] = -INFINITY;
    if (i < blind) lse[i] = -INFINITY;
  }

  for (int j0 = 0; j0 < s.keys; j0 += Bc) {
    __syncthreads(); /* V of the block before has been read, and line 2 is done */
    load_block<T, D>(sram.K, head_of<T>(p.k, b, kv_head), p.k.stride_row, j0, 0, s.keys);
    load_block<T, D>(sram.V, head_of<T>(p.v, b, kv_head), p.v.stride_row, j0, 0, s.keys);

    for (int i0 = first_query(s, j0) / Br * Br; i0 < s.queries; i0 += Br) {
      const bool last = j0 / Bc == last_key(s, i0, Br) / Bc;
      load_block<T, D>(sram.Q, head_of<T>(p.q, b, h), p.q.stride_row, i0, 0, s.queries);
      __syncthreads(); /* K_j, V_j and Q_i are complete; the step before has read S, keep and add */

      /* S_ij = tau Q_i K_j^T, -inf where the query may not look */
      float x[Br / 16][Bc / 16] = {};
      add_rows_by_rows<D>(x, sram.Q, sram.K);
      for (int r = 0; r < Br / 16; r++)
        for (int c = 0; c < Bc / 16; c++)
          sram.S[ty + 16 * r][tx + 16 * c] =
              j0 + tx + 16 * c < visible(s, i0 + ty + 16 * r) ? mul_rn(tau, x[r][c]) : -INFINITY;
      __syncthreads(); /* S_ij is complete */

      /* m~ = rowmax(S), P~ = exp(S - m~), l~ = rowsum(P~). With m~ = -inf nothing is subtracted: exp(-inf) is 0. */
      float m_block = -INFINITY, l_block = 0;
      for (int c = lane; c < Bc; c += LANES) m_block = fmaxf(m_block, sram.S[row][c]); /* leaves NaN out */
      m_block = max_over(m_block, LANES);
      for (int c = lane; c < Bc; c += LANES)
        l_block += sram.S[row][c] = expf(sram.S[row][c] - (m_block == -INFINITY ? 0 : m_block));
      l_block = sum_over(l_block, LANES);
      count_flop(0, 3 * Bc / LANES);
      count_exp(Bc / LANES);

      if (lane == 0 && i0 + row < s.queries) {
        const int i = i0 + row;
        const float m_old = m[i];
        /* BEGIN SOLUTION */
        /* STUB: const float m_new = m_block, l_new = l_block; */
        /* STUB: sram.keep[row] = 0; */
        /* STUB: sram.add[row] = 1; */
        const float m_new = fmaxf(m_old, m_block);
        /* While m is -inf, l is 0, or NaN, which must not be lost. */
        const float old_part = m_old == -INFINITY ? l[i] : expf(m_old - m_new) * l[i];
        const float scale_new = m_block == -INFINITY ? 0 : expf(m_block - m_new);
        const float l_new = old_part + scale_new * l_block;
        sram.keep[row] =
            l_new == 0 ? 0 : old_part / l_new; /* both 0: no key so far, or only logits of -inf */
        sram.add[row] = l_new == 0 ? 0 : scale_new / l_new;
        /* END SOLUTION */
        count_exp(2);
        count_rescale(true, m_old, m_new);
        if (last) {
          lse[i] = l_new == 0 ? -INFINITY : m_new + logf(l_new);
        } else {
          l[i] = l_new;
          m[i] = m_new;
        }
      }
      __syncthreads(); /* P~_ij, keep and add are complete */

      /* O_i = diag(l_new)^-1 (diag(l) e^(m - m_new) O_i + e^(m~ - m_new) P~_ij V_j) */
      float pv[Br / 16][D / 16] = {};
      add_rows_by_columns<Bc, false>(pv, sram.S, sram.V);
      for (int r = 0; r < Br / 16; r++)
        for (int c = 0; c < D / 16; c++) {
          const int i = i0 + ty + 16 * r, column = tx + 16 * c;
          if (i < blind || i >= s.queries) continue;
          const float keep = sram.keep[ty + 16 * r], add = sram.add[ty + 16 * r],
                      O_old = O[(int64_t)i * D + column];
          const float O_new = keep == 0 && add == 0 ? 0 : keep * O_old + add * pv[r][c];
          if (last)
            store_element(p.dtype_out, p.o.data, o_head + i * p.o.stride_row + column, O_new);
          else
            O[(int64_t)i * D + column] = O_new;
        }
      count_flop(0, 3 * Br * D / PAPER_THREADS);
    }
  }
}

template <class T, int D> static fa_status_t launch(const fa_problem_t *p, fa_reason_t *why) {
  const int64_t heads = p->batch * p->heads_q, rows = heads * p->seq_q;
  float *O = (float *)p->workspace, *l = O + rows * D, *m = l + rows;
  LAUNCH((algorithm_1<T, D>), heads, PAPER_THREADS, sizeof(forward_sram_t<T, D>), p->stream, *p, O, l, m);
  return FA_OK;
}

fa_status_t paper_forward(const fa_problem_t *p, fa_reason_t *why) {
  LAUNCH_TYPED(FA1_HEAD_DIMS, launch, p, why);
}

} // namespace FA_KERNEL_NAMESPACE

extern "C" {
extern const fa_kernels_t FA_KERNEL_TABLE(fa1_paper);
const fa_kernels_t FA_KERNEL_TABLE(fa1_paper) = {FA_KERNEL_NAMESPACE::paper_workspace,
                                                 FA_KERNEL_NAMESPACE::paper_forward,
                                                 FA_KERNEL_NAMESPACE::paper_backward};
}
