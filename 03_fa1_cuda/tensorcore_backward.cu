/* tensorcore_backward.cu - step `tensorcore`, backward: Algorithm 4 of the FlashAttention paper on tensor cores.
 *
 * The loops and the traffic are the paper's: K_j, V_j, dK_j and dV_j stay on chip while all Q_i and dO_i pass by, and
 * dQ_i comes from HBM and goes back at every inner step. Each warp has its own keys, and computes transposed:
 *
 *     S^T = K Q^T    dP^T = V dO^T    P^T = exp(tau S^T - LSE)    dS^T = P^T o (dP^T - D)
 *     dV += P^T dO   dK += dS^T Q     where P^T and dS^T are A operands as they lie in registers
 *
 * so that dK and dV of its keys never leave its registers. Only dQ = dS K sums over the keys of all warps: dS^T goes
 * through shared memory, and each warp takes another part of dQ_i.
 *
 *   shared memory   K V [Bc][d]   Q dO [2][Br][d]: these and the next   dS^T [Bc][Br]   {LSE, D} [2][Br]
 *   registers       dK dV 32 keys x d of each warp (16 from d = 96), S^T and dP^T of 32 queries
 *
 * D = rowsum(dO o O) is computed once in a kernel before (tensorcore_backward_stats.cu), where the paper computes it
 * again for every j. */
#include "tensorcore_backward.cuh"

namespace FA_KERNEL_NAMESPACE {

template <class T, int D, int WARPS> struct backward_shared_t {
  typedef backward_shape<T, D, WARPS> S;
  row_t<T, D> K[S::Bc], V[S::Bc], Q[2][S::Br], dO[2][S::Br];
  row_t<T, S::Br> dS[S::Bc]; /* transposed: a row for each key */
  row_stats_t stats[2][S::Br];
};

/* dS^T of the warp's keys and a chunk of queries to shared memory: 4 bytes are two queries. */
template <class T, int BR, int TILES>
FA_DEVICE void store_ds(row_t<T, BR> *rows, int column, const uint32_t (&ds)[TILES][QUERY_TILES / 2][4]) {
#pragma unroll
  for (int t = 0; t < TILES; t++)
#pragma unroll
    for (int k = 0; k < QUERY_TILES / 2; k++)
#pragma unroll
      for (int r = 0; r < 4; r++)
        st_shared_b32(
            &rows[16 * t + 8 * (r % 2) + lane_id() / 4].x[column + 16 * k + 8 * (r / 2) + lane_id() % 4 * 2],
            ds[t][k][r]);
}

/* One chunk of queries: what the warp's keys get from it, and dS^T for dQ. */
template <class T, int D, int WARPS>
FA_DEVICE void inner_step(backward_warp<T, D, WARPS> &w, backward_shared_t<T, D, WARPS> &m, int stage, int q0,
                          int key0, int i, int key, const shape_t &shape, float tau) {
  typedef backward_shape<T, D, WARPS> S;
  /* q0, key0: within the tiles; i, key: the same rows in their sequences. */
  row_t<T, S::Br> *ds_rows = m.dS + key0;
  if (key >=
      visible(shape, min_of(i + BACKWARD_CHUNK, shape.queries) - 1)) { /* no query sees any of the keys */
    clear(w.ds);
    store_ds(ds_rows, q0, w.ds);
    return;
  }
  const bool partly = key + S::KEYS > visible(shape, i); /* the first query sees the least */
  keys_by_queries<S::DEPTH>(w.p, m.K + key0, m.Q[stage] + q0);
  probabilities(w.p, m.stats[stage] + q0, tau);
  if (partly) hide(w.p, shape, i, key);
  pack(w.pt, w.p, T{});
  add_product(w.dv, w.pt, m.dO[stage] + q0);

  keys_by_queries<S::DEPTH>(w.x, m.V + key0, m.dO[stage] + q0);
  score_gradients(w.x, w.p, m.stats[stage] + q0);
  if (partly) hide(w.x, shape, i, key); /* 0, even where dP is NaN */
  pack(w.ds, w.x, T{});
  store_ds(ds_rows, q0, w.ds);
  add_product(w.dk, w.ds, m.Q[stage] + q0);
  count_flop(0, S::TILES * QUERY_TILES * 4 * 5);
}

/* dQ_i += dS K, by parts. `keys`: how many of the block's are seen at all. first, last: of the blocks that dQ_i meets. */
template <class T, int D, int WARPS>
FA_DEVICE void update_dq(const backward_shared_t<T, D, WARPS> &m, float *dq, T *result, int64_t stride,
                         int i0, const shape_t &shape, int keys, float tau, bool first, bool last,
                         bool pairs) {
  typedef backward_shape<T, D, WARPS> S;
#pragma unroll 1
  for (int part = threadIdx.x / 32; part < S::DQ_PARTS; part += WARPS) {
    const int row = part / S::DQ_ACROSS * 16, column = part % S::DQ_ACROSS * S::DQ_COLUMNS;
    float *place = dq + ((int64_t)part * S::DQ_TILES * 32 + lane_id()) * 4;
    float sum[S::DQ_TILES][4], old[S::DQ_TILES][4];
#pragma unroll
    for (int n = 0; n < S::DQ_TILES; n++) {
      sum[n][0] = sum[n][1] = sum[n][2] = sum[n][3] = 0;
      if (first)
        old[n][0] = old[n][1] = old[n][2] = old[n][3] = 0;
      else
        ld_global_f32x4(old[n], place + n * 32 * 4); /* on its way while the product is computed */
    }
#pragma unroll S::DEPTH
    for (int k = 0; k < keys; k += 16) {
      uint32_t a[4], b[4];
      ldmatrix_x4_trans(a, by_columns(m.dS, k, row));
#pragma unroll
      for (int n = 0; n < S::DQ_TILES; n += 2) {
        ldmatrix_x4_trans(b, by_rows(m.K, k, column + 8 * n));
        multiply(sum[n], a, b[0], b[1], T{});
        multiply(sum[n + 1], a, b[2], b[3], T{});
      }
    }
#pragma unroll
    for (int n = 0; n < S::DQ_TILES; n++) {
#pragma unroll
      for (int e = 0; e < 4; e++) sum[n][e] += old[n][e];
      if (!last) {
        st_global_f32x4(place + n * 32 * 4, sum[n]);
        continue;
      }
#pragma unroll
      for (int k = 0; k < 2; k++) {
        const int i = i0 + row + 8 * k + lane_id() / 4;
        if (i < shape.queries)
          store_pair(result + i * stride + column + 8 * n + lane_id() % 4 * 2, tau * sum[n][2 * k],
                     tau * sum[n][2 * k + 1], pairs);
      }
    }
  }
}

/* dK or dV of the warp's keys, with 0 for keys that do not exist. */
template <class T, int TILES, int D_TILES>
FA_DEVICE void store_keys(const float (&x)[TILES][D_TILES][4], T *head, int64_t stride, int key, int keys,
                          int rows, float factor, bool pairs) {
#pragma unroll
  for (int s = 0; s < 2 * TILES; s++) {
    const int j = key + 8 * s + lane_id() / 4;
    if (j >= rows) continue;
    T *to = head + j * stride + lane_id() % 4 * 2;
#pragma unroll
    for (int n = 0; n < D_TILES; n++)
      store_pair(to + 8 * n, j < keys ? factor * x[s / 2][n][s % 2 * 2] : 0,
                 j < keys ? factor * x[s / 2][n][s % 2 * 2 + 1] : 0, pairs);
  }
}

/* Queries i0 .. of one head: Q, dO, LSE and D on their way to shared memory. */
template <class T, int D, int WARPS>
FA_DEVICE void copy_queries(backward_shared_t<T, D, WARPS> &m, int stage, const fa_problem_t &p,
                            const row_stats_t *stats, int b, int h, int i0, const shape_t &shape,
                            bool aligned) {
  typedef backward_shape<T, D, WARPS> S;
  const int blind = blind_queries(shape); /* not read: their gradients are 0 even if they are NaN */
  copy_rows(m.Q[stage], S::Br, (const T *)p.q.data + fa_row(&p.q, b, h, 0), p.q.stride_row, i0, blind,
            shape.queries, aligned, threadIdx.x, S::THREADS);
  copy_rows(m.dO[stage], S::Br, (const T *)p.d_o.data + fa_row(&p.d_o, b, h, 0), p.d_o.stride_row, i0, blind,
            shape.queries, aligned, threadIdx.x, S::THREADS);
  const row_stats_t *from = stats + (b * p.heads_q + h) * whole_rows(p.seq_q, STATS_BLOCK) + i0;
  for (int n = 2 * (int)threadIdx.x; n < S::Br; n += 2 * S::THREADS)
    if (target_sm() >= 80) {
      cp_async_16(&m.stats[stage][n], from + n, 16);
    } else {
      uint32_t piece[4];
      ld_global_b32x4(piece, from + n);
      st_shared_b32x4(&m.stats[stage][n], piece);
    }
  commit_copies();
}

template <class T, int D, int WARPS>
static __global__ void __launch_bounds__(32 * WARPS, 1)
    backpropagate(const fa_problem_t p, access_t access, const row_stats_t *stats, float *dq_hbm) {
  typedef backward_shape<T, D, WARPS> S;
  typedef backward_shared_t<T, D, WARPS> shared_t;
  SHARED_DYN(shared_t, m);
  const int key0 = threadIdx.x / 32 * S::KEYS;
  const int b = blockIdx.x / (unsigned)p.heads_kv, own_head = blockIdx.x % (unsigned)p.heads_kv;
  const int group = (int)(p.heads_q / p.heads_kv);
  const shape_t shape = shape_of(p, b);

  /* dQ of rows that see no key, as far as they fill whole blocks: no block of keys would ever visit them. */
  const int empty = shape.keys == 0 ? shape.queries : blind_queries(shape) / S::Br * S::Br;
  for (int g = 0; g < group; g++)
    for (int64_t n = threadIdx.x; n < (int64_t)empty * D; n += S::THREADS)
      from_f32(0, (T *)p.dq.data + fa_row(&p.dq, b, own_head * group + g, n / D) + n % D);

  for (int j0 = 0; j0 < p.seq_k; j0 += S::Bc) { /* blocks beyond the last key too: their gradients are 0 */
    const int kv_head = not_ahead(own_head);
    const int begin = j0 < shape.keys ? first_query(shape, j0) / S::Br * S::Br : shape.queries;
    backward_warp<T, D, WARPS> w;
    clear(w.dk);
    clear(w.dv);

    __syncthreads(); /* all warps are done with K of the block before */
    if (begin < shape.queries) {
      copy_rows(m.K, S::Bc, (const T *)p.k.data + fa_row(&p.k, b, kv_head, 0), p.k.stride_row, j0, 0,
                shape.keys, access.aligned, threadIdx.x, S::THREADS);
      copy_rows(m.V, S::Bc, (const T *)p.v.data + fa_row(&p.v, b, kv_head, 0), p.v.stride_row, j0, 0,
                shape.keys, access.aligned, threadIdx.x, S::THREADS);
      copy_queries(m, 0, p, stats, b, kv_head * group, begin, shape, access.aligned);
    }

    int stage = 0;
    for (int g = 0; g < group; g++)
      for (int i0 = begin; i0 < shape.queries; i0 += S::Br, stage ^= 1) {
        const int h = not_ahead(kv_head * group + g);
        wait_for_copies();
        __syncthreads(); /* Q_i and dO_i are complete; dS and the other stage have been read */
        const bool same_head = i0 + S::Br < shape.queries; /* are the next queries in this head? */
        if (same_head || g + 1 < group)
          copy_queries(m, stage ^ 1, p, stats, b, same_head ? h : h + 1, same_head ? i0 + S::Br : begin,
                       shape, access.aligned);

#pragma unroll 1
        for (int q0 = 0; q0 < S::Br; q0 += BACKWARD_CHUNK)
          inner_step(w, m, stage, q0, key0, i0 + q0, j0 + key0, shape, p.scale);
        __syncthreads(); /* dS of all warps is complete */

        const int end = last_key(shape, i0, S::Br) + 1;
        update_dq(m, dq_hbm + ((b * p.heads_q + h) * whole_rows(p.seq_q, S::Br) + i0) * D,
                  (T *)p.dq.data + fa_row(&p.dq, b, h, 0), p.dq.stride_row, i0, shape,
                  min_of(end - j0, (int)S::Bc), p.scale, j0 == 0, end <= j0 + S::Bc, access.pairs);
      }

    store_keys(w.dk, (T *)p.dk.data + fa_row(&p.dk, b, kv_head, 0), p.dk.stride_row, j0 + key0, shape.keys,
               (int)p.seq_k, p.scale, access.pairs);
    store_keys(w.dv, (T *)p.dv.data + fa_row(&p.dv, b, kv_head, 0), p.dv.stride_row, j0 + key0, shape.keys,
               (int)p.seq_k, 1, access.pairs);
  }
}

/* --- launchers --------------------------------------------------------------------------------------------- */

static size_t stats_bytes(const fa_problem_t *p) {
  return (size_t)(p->batch * p->heads_q * whole_rows(p->seq_q, STATS_BLOCK)) * sizeof(row_stats_t);
}

size_t backward_workspace(const fa_problem_t *p) {
  return stats_bytes(p) + stats_bytes(p) / sizeof(row_stats_t) * (size_t)p->head_dim * sizeof(float);
}

template <class T, int D, int WARPS>
static fa_status_t launch_blocks(const fa_problem_t *p, fa_reason_t *why) {
  typedef backward_shared_t<T, D, WARPS> shared_t;
  if (sizeof(shared_t) != backward_bytes(D, WARPS))
    return fa_say(why, FA_FAILED, "backward_bytes in config.h does not fit the kernel's %zu",
                  sizeof(shared_t));
  const access_t access = {rows_aligned(&p->q, 16) && rows_aligned(&p->k, 16) && rows_aligned(&p->v, 16) &&
                               rows_aligned(&p->d_o, 16),
                           rows_aligned(&p->dq, 4) && rows_aligned(&p->dk, 4) && rows_aligned(&p->dv, 4)};
  row_stats_t *stats = (row_stats_t *)p->workspace;
  const fa_status_t status = launch_stats(p, stats, why);
  if (status) return status;
  LAUNCH((backpropagate<T, D, WARPS>), p->batch * p->heads_kv, 32 * WARPS, sizeof(shared_t), p->stream, *p,
         access, stats, (float *)((char *)p->workspace + stats_bytes(p)));
  return FA_OK;
}

template <class T, int D>
static fa_status_t launch(const fa_problem_t *p, int Bc, size_t shared_bytes, fa_reason_t *why) {
  const int warps = backward_warps(D, Bc, shared_bytes);
  if (warps == 8) return launch_blocks<T, D, 8>(p, why);
  if (warps == 4) return launch_blocks<T, D, 4>(p, why);
  return launch_blocks<T, D, 2>(p, why);
}

fa_status_t tensorcore_backward(const fa_problem_t *p, int Bc, fa_reason_t *why) {
  fa_limits_t limits;
  fa_status_t status = ask_limits(&limits, why);
  if (status) return status;
  LAUNCH_TYPED(FA1_HEAD_DIMS, launch, p, Bc, limits.shared_bytes, why);
}

} // namespace FA_KERNEL_NAMESPACE
