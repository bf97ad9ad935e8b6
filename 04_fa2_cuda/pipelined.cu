/* pipelined.cu - step `pipelined`, forward: split_q as fast as mma.sync allows.
 *
 *   copies    The next K and V are on their way (cp.async) while this block is computed (config.h: one or two buffers).
 *   swizzle   Chunks of rows lie in shared memory so that no two of a request share a bank (tile.cuh).
 *   masks     Keys are visited from the last backwards: blocks that some row of the tile does not see whole come first, and
 *             only they are masked; the loop for the others has no comparison in it.
 *   rows      A warp has 32 rows up to d = 64 (config.h): each fragment of K and V is used twice.
 *   order     The last queries of a head, which see most keys, start first. */
#include "forward.cuh"

namespace FA_KERNEL_NAMESPACE {

template <class TYPE, int DIM, int WARPS> struct pipelined_shape {
  typedef TYPE T;
  typedef swizzled_row<T, DIM> row_t;
  enum {
    D = DIM,
    ROWS = FORWARD_ROWS(D), /* of a warp */
    TILES = ROWS / 16,
    Br = WARPS * ROWS,
    Bc = FORWARD_KEYS,
    STAGES = FORWARD_STAGES(D),
    HOLDS_Q = FORWARD_HOLDS_Q(D),
    THREADS = 32 * WARPS
  };
  typedef forward_warp<T, D, TILES, HOLDS_Q> warp_t;
  typedef struct shared {
    row_t Q[Br], K[STAGES][Bc], V[STAGES][Bc];
  } shared_t;
};

/* Where a thread block's keys are, and how they come. */
template <class S> struct source {
  const typename S::T *k, *v; /* [keys][d], of one head */
  int64_t k_stride, v_stride;
  int keys;
  bool aligned;
};
template <class S> FA_DEVICE void copy_k(typename S::shared_t &m, const source<S> &from, int j) {
  copy_rows<S::Bc, S::THREADS>(m.K[j % S::STAGES], from.k, from.k_stride, j * S::Bc, from.keys, from.aligned,
                               threadIdx.x);
}
template <class S> FA_DEVICE void copy_v(typename S::shared_t &m, const source<S> &from, int j) {
  copy_rows<S::Bc, S::THREADS>(m.V[j % S::STAGES], from.v, from.v_stride, j * S::Bc, from.keys, from.aligned,
                               threadIdx.x);
}

/* One block of keys. `works`: a row of this warp sees a key of it; a warp that has nothing to do copies and meets the others
 * all the same. Before: K_j (two buffers: and V_j) is complete. After: the same of j - 1. */
template <bool MASKED, class S>
FA_DEVICE void step(typename S::warp_t &w, typename S::shared_t &m, const source<S> &from, int row0, int j,
                    bool works, float scale_log2) {
  if (S::STAGES == 2) {
    if (j > 0) copy_k<S>(m, from, j - 1), copy_v<S>(m, from, j - 1);
  } else {
    copy_v<S>(m, from, j);
  }
  cp_async_commit();
  if (works) scores(w, m.Q + row0, m.K[j % S::STAGES]);
  if (S::STAGES == 1) {
    cp_async_wait<0>();
    __syncthreads(); /* V_j is complete; K_j has been read by all warps */
    if (j > 0) copy_k<S>(m, from, j - 1);
    cp_async_commit();
  }
  if (works) {
    softmax<MASKED>(w, scale_log2, j * S::Bc);
    accumulate(w, m.V[j % S::STAGES]);
  }
  cp_async_wait<0>();
  __syncthreads(); /* what comes next is complete; V_j (two buffers: and K_j) has been read by all warps */
}

template <class S, int BLOCKS>
static __global__ void __launch_bounds__(S::THREADS, BLOCKS)
    attend(const fa_problem_t p, int tiles, aligned_t aligned) {
  typedef typename S::T T;
  typedef typename S::shared_t shared_t;
  SHARED_DYN(shared_t, m);
  const place_t at = place_of(p, blockIdx.x, tiles);
  const shape_t shape = shape_of(p, at.b);
  const int i0 = at.tile * S::Br, row0 = threadIdx.x / 32 * S::ROWS, kv_head = (int)fa_kv_head(&p, at.h);
  const source<S> from = {(const T *)p.k.data + fa_row(&p.k, at.b, kv_head, 0),
                          (const T *)p.v.data + fa_row(&p.v, at.b, kv_head, 0),
                          p.k.stride_row,
                          p.v.stride_row,
                          shape.keys,
                          aligned.inputs};
  const int seen = last_key(shape, i0, S::Br) + 1; /* by the tile's last row: the most */
  const int seen_by_all = visible(shape, i0);      /* by its first row: the least */
  const bool exists = i0 + row0 < shape.queries;
  const int seen_by_warp = exists ? last_key(shape, i0 + row0, S::ROWS) + 1 : 0;
  int j = (seen + S::Bc - 1) / S::Bc - 1;

  copy_rows<S::Br, S::THREADS>(m.Q, (const T *)p.q.data + fa_row(&p.q, at.b, at.h, 0), p.q.stride_row, i0,
                               shape.queries, aligned.inputs, threadIdx.x);
  if (j >= 0) {
    copy_k<S>(m, from, j);
    if (S::STAGES == 2) copy_v<S>(m, from, j);
  }
  cp_async_commit();
  cp_async_wait<0>();
  const float scale_log2 = take_scale<S::Br, S::THREADS>(m.Q, p.scale, threadIdx.x);
  __syncthreads(); /* Q_i and the first keys are complete */

  typename S::warp_t w;
  start(w, shape, i0 + row0);
  hold_q(w, m.Q + row0);
#pragma unroll 1
  for (; j >= 0 && (j + 1) * S::Bc > seen_by_all; j--)
    step<true, S>(w, m, from, row0, j, j * S::Bc < seen_by_warp, scale_log2);
#pragma unroll 1
  for (; j >= 0; j--) step<false, S>(w, m, from, row0, j, exists, scale_log2);

  if (!exists) return;
  finish(w, m.Q + row0, p.scale);
  const place_t end =
      place_of(p, (unsigned)not_ahead((int)blockIdx.x), tiles); /* needs no registers until here */
  store_rows(w, m.Q + row0, p, end.b, end.h, end.tile * S::Br + row0, aligned.output);
}

template <class T, int D, int WARPS>
static fa_status_t launch_warps(const fa_problem_t *p, fa_reason_t *why) {
  typedef pipelined_shape<T, D, WARPS> S;
  typedef typename S::shared_t shared_t;
  static_assert(sizeof(shared_t) <= 160 * 1024, "FORWARD_WARPS: sm_80 has 163 KB of shared memory");
  const int64_t tiles = whole_rows(p->seq_q, S::Br) / S::Br;
  LAUNCH((attend<S, FORWARD_BLOCKS(D)>), p->batch * p->heads_q * tiles, S::THREADS, sizeof(shared_t),
         p->stream, *p, (int)tiles, alignment_of(p));
  return FA_OK;
}

template <class T, int D>
static fa_status_t launch_pipelined(const fa_problem_t *p, size_t shared_bytes, fa_reason_t *why) {
  if (forward_warps(D, shared_bytes) == FORWARD_WARPS(D)) return launch_warps<T, D, FORWARD_WARPS(D)>(p, why);
  return launch_warps<T, D, FORWARD_WARPS_LEAST>(p, why);
}

static fa_status_t pipelined(const fa_problem_t *p, fa_reason_t *why) {
  fa_limits_t limits;
  fa_status_t status = ask_limits(&limits, why);
  if (status) return status;
  LAUNCH_TYPED(FA2_HEAD_DIMS, launch_pipelined, p, limits.shared_bytes, why);
}

} // namespace FA_KERNEL_NAMESPACE

extern "C" {
extern const fa_kernels_t FA_KERNEL_TABLE(fa2_pipelined);
const fa_kernels_t FA_KERNEL_TABLE(fa2_pipelined) = {NULL, FA_KERNEL_NAMESPACE::pipelined, NULL};
}
