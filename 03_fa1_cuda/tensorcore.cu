/* tensorcore.cu - step `tensorcore`, forward: Algorithm 1 of the FlashAttention paper on tensor cores.
 *
 * The loops and the traffic are those of step `paper`: K_j and V_j stay in shared memory while all Q_i pass by, and
 * O_i, l_i and m_i come from HBM and go back at every inner step. What differs:
 *
 *   warps     Each warp has its own rows of Q_i and walks through them at its own pace: no barrier within block j.
 *             (The paper's kernel split K_j among the warps and had to sum up their parts of O_i through shared memory.)
 *   chunks    A row of S_ij does not fit into registers. Bc keys are taken 64 at a time, and m, l and O_i are brought
 *             forward chunk by chunk, by the same rule as block by block.
 *   copies    Q of the next rows is on its way (cp.async) while these are computed.
 *   order     O_i lies in HBM in the order of registers: each lane reads and writes 16 bytes next to its neighbour's.
 *
 *                 K_j, V_j  [Bc][d]  shared by all warps           registers of a warp, for 32 rows (16 from d = 96):
 *   warp 0..3:    Q rows    [32][d]  each warp its own             Q 16-bit, S and P [32][64] fp32, O [32][d] fp32 */
#include "tensorcore.h"
#include "tensorcore_forward.cuh"

namespace FA_KERNEL_NAMESPACE {

/* Of one row, between two blocks of keys. m is the maximum of the scores before the scale. */
typedef struct row_state {
  float m, l;
} row_state_t;

/* Queries i0 .. of one head on their way to the warp's part of shared memory. */
template <class T, int D>
FA_DEVICE void copy_queries(row_t<T, D> *Q, const fa_problem_t &p, int b, int h, int i0, const shape_t &shape,
                            bool aligned) {
  copy_rows(Q, FORWARD_ROWS(D), (const T *)p.q.data + fa_row(&p.q, b, h, 0), p.q.stride_row, i0, 0,
            shape.queries, aligned, lane_id(), 32);
}

/* O, m and l of a tile between HBM and registers: 16 bytes of each lane, side by side. */
template <class T, int D>
FA_DEVICE void load_state(forward_warp<T, D> &w, const float *o_hbm, const row_state_t *state_hbm,
                          int64_t tile, bool first) {
  typedef forward_shape<T, D> S;
  const float *o = o_hbm + tile * S::ROWS * D;
  const row_state_t *state = state_hbm + tile * S::ROWS;
#pragma unroll
  for (int t = 0; t < S::TILES; t++)
#pragma unroll
    for (int n = 0; n < S::D_TILES; n++)
      if (first)
        w.o[t][n][0] = w.o[t][n][1] = w.o[t][n][2] = w.o[t][n][3] = 0;
      else
        ld_global_f32x4(w.o[t][n], o + ((t * S::D_TILES + n) * 32 + lane_id()) * 4);
#pragma unroll
  for (int s = 0; s < S::STATES; s++) {
    row_state_t x = {-INFINITY, 0};
    if (!first && lane_id() % 4 == 0) x = state[8 * s + lane_id() / 4];
    w.m[s] = shfl_f32(x.m, lane_id() / 4 * 4); /* one lane of four reads, all need it */
    w.weight[s] = shfl_f32(x.l, lane_id() / 4 * 4);
    w.l[s] = x.l;
  }
}

template <class T, int D>
FA_DEVICE void store_state(const forward_warp<T, D> &w, float *o_hbm, row_state_t *state_hbm, int64_t tile) {
  typedef forward_shape<T, D> S;
  float *o = o_hbm + tile * S::ROWS * D;
  row_state_t *state = state_hbm + tile * S::ROWS;
#pragma unroll
  for (int t = 0; t < S::TILES; t++)
#pragma unroll
    for (int n = 0; n < S::D_TILES; n++)
      st_global_f32x4(o + ((t * S::D_TILES + n) * 32 + lane_id()) * 4, w.o[t][n]);
#pragma unroll
  for (int s = 0; s < S::STATES; s++)
    if (lane_id() % 4 == 0) state[8 * s + lane_id() / 4] = {w.m[s], w.l[s]};
}

/* The result of rows i0 .., when no key is left. */
template <class T, int D>
FA_DEVICE void store_result(const forward_warp<T, D> &w, const fa_problem_t &p, int b, int h, int i0,
                            int queries, access_t access) {
  typedef forward_shape<T, D> S;
  const int64_t o_head = fa_row(&p.o, b, h, 0);
  float *lse = p.lse + (b * p.heads_q + h) * queries;
#pragma unroll
  for (int s = 0; s < S::STATES; s++) {
    const int i = i0 + 8 * s + lane_id() / 4;
    if (i >= queries) continue;
    if (lane_id() % 4 == 0) lse[i] = w.l[s] == 0 ? -INFINITY : mul_rn(fabsf(p.scale), w.m[s]) + logf(w.l[s]);
    const int64_t at = o_head + i * p.o.stride_row + lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < S::D_TILES; n++) {
      const float x = w.o[s / 2][n][s % 2 * 2], y = w.o[s / 2][n][s % 2 * 2 + 1];
      store_pair((T *)p.o.data + at + 8 * n, x, y, access.pairs);
    }
  }
}

/* Rows that see no key, as far as they fill whole tiles of a warp: no block of keys would ever visit them. */
template <int D> FA_DEVICE void store_empty(const fa_problem_t &p, int b, int h, int rows) {
  const int64_t o_head = fa_row(&p.o, b, h, 0);
  float *lse = p.lse + (b * p.heads_q + h) * p.seq_q;
  for (int64_t n = threadIdx.x; n < (int64_t)rows * D; n += blockDim.x)
    store_element(p.dtype_out, p.o.data, o_head + n / D * p.o.stride_row + n % D, 0);
  for (int i = (int)threadIdx.x; i < rows; i += (int)blockDim.x) lse[i] = -INFINITY;
}

template <class T, int D>
static __global__ void __launch_bounds__(32 * FORWARD_WARPS, 2)
    attend(const fa_problem_t p, int Bc, access_t access, float *o_hbm, row_state_t *state_hbm) {
  typedef forward_shape<T, D> S;
  typedef row_t<T, D> tile_row_t;
  SHARED_DYN(tile_row_t, first_tile_row);
  const int warp = threadIdx.x / 32;
  tile_row_t *K = &first_tile_row, *V = K + Bc, *Q = V + Bc + warp * S::ROWS;

  const int b = blockIdx.x / (unsigned)p.heads_q, h = blockIdx.x % (unsigned)p.heads_q;
  const shape_t shape = shape_of(p, b);
  const int tiles = (shape.queries + S::ROWS - 1) / S::ROWS;

  /* A negative scale is taken into Q, so that the largest score has the largest logit. */
  const float scale_log2 = fabsf(p.scale) * LOG2E;
  const uint32_t signs = p.scale < 0 ? 0x80008000u : 0;

  store_empty<D>(p, b, h, shape.keys == 0 ? shape.queries : blind_queries(shape) / S::ROWS * S::ROWS);

  for (int j0 = 0; j0 < shape.keys; j0 += Bc) {
    const int loaded = min_of(Bc, (shape.keys - j0 + FORWARD_CHUNK - 1) / FORWARD_CHUNK * FORWARD_CHUNK);
    const int begin = first_query(shape, j0) / S::ROWS;
    int tile = begin + warp;

    /* All warps are done with the block before: K and V may be overwritten, and what they wrote of O, m and l may be
     * read, by whichever warp has the tile now. */
    __syncthreads();
    const int kv_head = (int)fa_kv_head(&p, not_ahead(h));
    copy_rows(K, loaded, (const T *)p.k.data + fa_row(&p.k, b, kv_head, 0), p.k.stride_row, j0, 0, shape.keys,
              access.aligned, threadIdx.x, S::THREADS);
    copy_rows(V, loaded, (const T *)p.v.data + fa_row(&p.v, b, kv_head, 0), p.v.stride_row, j0, 0, shape.keys,
              access.aligned, threadIdx.x, S::THREADS);
    if (tile < tiles) copy_queries(Q, p, b, not_ahead(h), tile * S::ROWS, shape, access.aligned);
    commit_copies();
    wait_for_copies();
    __syncthreads(); /* K_j, V_j and each warp's first rows of Q are complete */

    for (; tile < tiles; tile += FORWARD_WARPS) {
      const int i0 = tile * S::ROWS, end = last_key(shape, i0, S::ROWS) + 1;
      const bool first = j0 == 0, last = end <= j0 + Bc;
      forward_warp<T, D> w;

#pragma unroll
      for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int k = 0; k < D / 16; k++) {
          ldmatrix_x4(w.q[t][k], by_rows(Q, 16 * t, 16 * k));
#pragma unroll
          for (int r = 0; r < 4; r++) w.q[t][k][r] ^= signs;
        }
      __syncwarp(); /* all lanes have their part of Q: the next rows may come */
      if (tile + FORWARD_WARPS < tiles)
        copy_queries(Q, p, b, not_ahead(h), i0 + FORWARD_WARPS * S::ROWS, shape, access.aligned);
      commit_copies();
      load_state(w, o_hbm, state_hbm, (int64_t)blockIdx.x * tiles + tile, first);

      for (int c0 = j0; c0 < min_of(end, j0 + Bc); c0 += FORWARD_CHUNK) {
        float x[S::TILES][KEY_TILES][4];
        scores(x, w, K + (c0 - j0));
        softmax(x, w, scale_log2, shape, i0, c0);
        accumulate(w, x, V + (c0 - j0));
      }

      normalise(w);
      if (last)
        store_result(w, p, b, not_ahead(h), i0, shape.queries, access);
      else
        store_state(w, o_hbm, state_hbm, (int64_t)blockIdx.x * tiles + not_ahead(tile));
      wait_for_copies();
      __syncwarp(); /* the next rows of Q are complete */
    }
  }
}

template <class T, int D>
static fa_status_t launch(const fa_problem_t *p, int Bc, size_t shared_bytes, fa_reason_t *why) {
  const int64_t heads = p->batch * p->heads_q, rows = heads * whole_rows(p->seq_q, FORWARD_ROWS(D));
  if (Bc == 0) Bc = forward_keys(D, shared_bytes);
  const access_t access = {rows_aligned(&p->q, 16) && rows_aligned(&p->k, 16) && rows_aligned(&p->v, 16),
                           rows_aligned(&p->o, 4)};
  float *o = (float *)p->workspace;
  LAUNCH((attend<T, D>), heads, 32 * FORWARD_WARPS, forward_bytes(D, Bc), p->stream, *p, Bc, access, o,
         (row_state_t *)(o + rows * D));
  return FA_OK;
}

fa_status_t tensorcore_forward(const fa_problem_t *p, int Bc, fa_reason_t *why) {
  fa_limits_t limits;
  fa_status_t status = ask_limits(&limits, why);
  if (status) return status;
  LAUNCH_TYPED(FA1_HEAD_DIMS, launch, p, Bc, limits.shared_bytes, why);
}

size_t tensorcore_workspace(const fa_problem_t *p, fa_pass_t pass) {
  const size_t d = (size_t)p->head_dim, heads = (size_t)(p->batch * p->heads_q);
  if (pass == FA_FORWARD)
    return heads * (size_t)whole_rows(p->seq_q, FORWARD_ROWS(d)) * (d * sizeof(float) + sizeof(row_state_t));
  return backward_workspace(p);
}

template <int Bc> static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  static_assert(Bc % FORWARD_CHUNK == 0,
                "FORWARD_CHUNK must divide the Bc of steps keys_64, keys_128 and keys_256");
  return tensorcore_forward(p, Bc, why);
}
template <int Bc> static fa_status_t backward(const fa_problem_t *p, fa_reason_t *why) {
  return tensorcore_backward(p, Bc, why);
}

} // namespace FA_KERNEL_NAMESPACE

#define TABLE(name, Bc)                                                                                      \
  extern const fa_kernels_t FA_KERNEL_TABLE(name);                                                           \
  const fa_kernels_t FA_KERNEL_TABLE(name) = {FA_KERNEL_NAMESPACE::tensorcore_workspace,                     \
                                              FA_KERNEL_NAMESPACE::forward<Bc>,                              \
                                              FA_KERNEL_NAMESPACE::backward<Bc>}
extern "C" {
TABLE(fa1_keys_64, 64);
TABLE(fa1_keys_128, 128);
TABLE(fa1_keys_256, 256);
TABLE(fa1_tensorcore, 0);
}
