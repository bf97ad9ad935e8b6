/* loops.cu - step `loops`: the loops of FlashAttention-1, exchanged.
 *
 * Queries outside, keys inside (Algorithm 1 of the FlashAttention-2 paper). A thread block has one block of queries of one
 * head, meets all keys, and writes its O once: O never travels to HBM and back, at the price of reading K and V again for each
 * block of queries. And blocks of queries need nothing from one another: the grid is over them too, where 03 had one thread
 * block for a whole head.
 *
 *   for each head, for each i in parallel:        one thread block, here of one warp
 *     Q_i [16][d] from HBM
 *     for j:                                      K_j V_j [Bc][d] from HBM
 *       S = Q_i K_j^T, m, P~, l, O = diag(..) O + P~ V_j
 *     O_i = diag(l)^-1 O, L_i to HBM */
#include "forward.cuh"

namespace FA_KERNEL_NAMESPACE {

enum { LOOPS_ROWS = 16, LOOPS_THREADS = 32 };

template <class T, int D> struct loops_shared_t {
  plain_row<T, D> Q[LOOPS_ROWS], K[FORWARD_KEYS], V[FORWARD_KEYS];
};

template <class T, int D>
static __global__ void __launch_bounds__(LOOPS_THREADS)
    attend_loops(const fa_problem_t p, int tiles, aligned_t aligned) {
  typedef loops_shared_t<T, D> shared_t;
  SHARED_DYN(shared_t, m);
  const place_t at = place_of(p, blockIdx.x, tiles);
  const shape_t shape = shape_of(p, at.b);
  const int i0 = at.tile * LOOPS_ROWS, kv_head = (int)fa_kv_head(&p, at.h), thread = threadIdx.x;
  const T *k = (const T *)p.k.data + fa_row(&p.k, at.b, kv_head, 0),
          *v = (const T *)p.v.data + fa_row(&p.v, at.b, kv_head, 0);
  forward_warp<T, D, 1, true> w;

  copy_rows<LOOPS_ROWS, LOOPS_THREADS>(m.Q, (const T *)p.q.data + fa_row(&p.q, at.b, at.h, 0), p.q.stride_row,
                                       i0, shape.queries, aligned.inputs, thread);
  cp_async_commit();
  cp_async_wait<0>();
  const float scale_log2 = take_scale<LOOPS_ROWS, LOOPS_THREADS>(m.Q, p.scale, thread);
  __syncthreads(); /* Q_i is complete */
  start(w, shape, i0);
  hold_q(w, m.Q);

  const int keys = last_key(shape, i0, LOOPS_ROWS) + 1;
  for (int j0 = 0; j0 < keys; j0 += FORWARD_KEYS) {
    copy_rows<FORWARD_KEYS, LOOPS_THREADS>(m.K, k, p.k.stride_row, j0, shape.keys, aligned.inputs, thread);
    copy_rows<FORWARD_KEYS, LOOPS_THREADS>(m.V, v, p.v.stride_row, j0, shape.keys, aligned.inputs, thread);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads(); /* K_j and V_j are complete */
    scores(w, m.Q, m.K);
    softmax<true>(w, scale_log2, j0);
    accumulate(w, m.V);
    __syncthreads(); /* K_j and V_j have been read: the next may come */
  }
  finish(w, m.Q, p.scale);
  store_rows(w, m.Q, p, at.b, at.h, i0, aligned.output);
}

template <class T, int D> static fa_status_t launch_loops(const fa_problem_t *p, fa_reason_t *why) {
  const int64_t tiles = whole_rows(p->seq_q, LOOPS_ROWS) / LOOPS_ROWS;
  LAUNCH((attend_loops<T, D>), p->batch * p->heads_q * tiles, LOOPS_THREADS, sizeof(loops_shared_t<T, D>),
         p->stream, *p, (int)tiles, alignment_of(p));
  return FA_OK;
}

static fa_status_t loops(const fa_problem_t *p, fa_reason_t *why) {
  LAUNCH_TYPED(FA2_COMPARED_DIMS, launch_loops, p, why);
}

} // namespace FA_KERNEL_NAMESPACE

extern "C" {
extern const fa_kernels_t FA_KERNEL_TABLE(fa2_loops);
const fa_kernels_t FA_KERNEL_TABLE(fa2_loops) = {NULL, FA_KERNEL_NAMESPACE::loops, NULL};
}
