/* split_q.cu - step `split_q`: four warps share a block's K_j and V_j, and each has its own queries.
 *
 * Section 3.3 of the FlashAttention-2 paper: what is split among warps is Q. A warp multiplies its 16 rows by all of K_j, has
 * whole rows of S, and needs nothing from the other warps: they meet only because they share the buffers of K_j and V_j. */
#include "forward.cuh"

namespace FA_KERNEL_NAMESPACE {

enum { SPLIT_Q_ROWS = 16 * SPLIT_WARPS, SPLIT_Q_THREADS = 32 * SPLIT_WARPS };

template <class T, int D> struct split_q_shared_t {
  plain_row<T, D> Q[SPLIT_Q_ROWS], K[FORWARD_KEYS], V[FORWARD_KEYS];
};

template <class T, int D>
static __global__ void __launch_bounds__(SPLIT_Q_THREADS)
    attend_split_q(const fa_problem_t p, int tiles, aligned_t aligned) {
  typedef split_q_shared_t<T, D> shared_t;
  SHARED_DYN(shared_t, m);
  const place_t at = place_of(p, blockIdx.x, tiles);
  const shape_t shape = shape_of(p, at.b);
  const int i0 = at.tile * SPLIT_Q_ROWS, kv_head = (int)fa_kv_head(&p, at.h), thread = threadIdx.x;
  const int row0 = thread / 32 * 16; /* of the warp, in the tile */
  const T *k = (const T *)p.k.data + fa_row(&p.k, at.b, kv_head, 0),
          *v = (const T *)p.v.data + fa_row(&p.v, at.b, kv_head, 0);
  forward_warp<T, D, 1, true> w;

  copy_rows<SPLIT_Q_ROWS, SPLIT_Q_THREADS>(m.Q, (const T *)p.q.data + fa_row(&p.q, at.b, at.h, 0),
                                           p.q.stride_row, i0, shape.queries, aligned.inputs, thread);
  cp_async_commit();
  cp_async_wait<0>();
  const float scale_log2 = take_scale<SPLIT_Q_ROWS, SPLIT_Q_THREADS>(m.Q, p.scale, thread);
  __syncthreads(); /* Q_i is complete */
  start(w, shape, i0 + row0);
  hold_q(w, m.Q + row0);

  const int keys = last_key(shape, i0, SPLIT_Q_ROWS) + 1;
  for (int j0 = 0; j0 < keys; j0 += FORWARD_KEYS) {
    copy_rows<FORWARD_KEYS, SPLIT_Q_THREADS>(m.K, k, p.k.stride_row, j0, shape.keys, aligned.inputs, thread);
    copy_rows<FORWARD_KEYS, SPLIT_Q_THREADS>(m.V, v, p.v.stride_row, j0, shape.keys, aligned.inputs, thread);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads(); /* K_j and V_j are complete, from all warps */
    scores(w, m.Q + row0, m.K);
    softmax<true>(w, scale_log2, j0);
    accumulate(w, m.V);
    __syncthreads(); /* all warps have read K_j and V_j: the next may come */
  }
  finish(w, m.Q + row0, p.scale);
  store_rows(w, m.Q + row0, p, at.b, at.h, i0 + row0, aligned.output);
}

template <class T, int D> static fa_status_t launch_split_q(const fa_problem_t *p, fa_reason_t *why) {
  const int64_t tiles = whole_rows(p->seq_q, SPLIT_Q_ROWS) / SPLIT_Q_ROWS;
  LAUNCH((attend_split_q<T, D>), p->batch * p->heads_q * tiles, SPLIT_Q_THREADS,
         sizeof(split_q_shared_t<T, D>), p->stream, *p, (int)tiles, alignment_of(p));
  return FA_OK;
}

static fa_status_t split_q(const fa_problem_t *p, fa_reason_t *why) {
  LAUNCH_TYPED(FA2_COMPARED_DIMS, launch_split_q, p, why);
}

} // namespace FA_KERNEL_NAMESPACE

extern "C" {
extern const fa_kernels_t FA_KERNEL_TABLE(fa2_split_q);
const fa_kernels_t FA_KERNEL_TABLE(fa2_split_q) = {NULL, FA_KERNEL_NAMESPACE::split_q, NULL};
}
