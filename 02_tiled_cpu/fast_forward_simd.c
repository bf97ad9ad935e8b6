/* fast_forward_simd.c - one block of query rows against all keys that it sees.
 *
 * S is kept transposed: a query is a lane of the vectors, a key is a row.
 *
 *      S^T = K_j Q_i^T         [keys][queries]         A = K_j as it lies, B = Q_i^T, transposed once
 *      m, l, P, rescaling      lane by lane: no sum and no maximum ever runs across a vector
 *      O_i^T += V_j^T P^T      [head_dim_v][queries]   A = V_j as it lies, B = P^T as it lies
 *
 * So only what stays, Q and O, is ever transposed; what streams past, K and V, is used as it is. */
#include "fast_blocks.h"

typedef struct blocks {
  float *Q, *O, *K, *V, *S, *m, *l;
  int64_t *visible;
  int64_t rows, d, dv, dv_padded; /* rows: those that exist */
  bool finite;                    /* all of V_j is */
} blocks_t;

static blocks_t carve(const fa_problem_t *p, const fa_fast_rows_t *w, const fa_fast_forward_map_t *at,
                      float *x) {
  return (blocks_t){.Q = x + at->Q,
                    .O = x + at->O,
                    .K = x + at->K,
                    .V = x + at->V,
                    .S = x + at->S,
                    .m = x + at->m,
                    .l = x + at->l,
                    .visible = (int64_t *)(void *)(x + at->visible),
                    .rows = w->count,
                    .d = p->head_dim,
                    .dv = p->head_dim_v,
                    .dv_padded = fa_fast_up(p->head_dim_v, FA_FAST_PAD)};
}

/* Row r of the work item, as a query of a head. */
typedef struct query {
  int64_t h, i;
} query_t;

static query_t query_of(const fa_problem_t *p, const fa_fast_rows_t *w, int64_t r) {
  int64_t group = p->heads_q / p->heads_kv, at = w->begin + (r < w->count ? r : w->count - 1);
  return (query_t){w->kv_head * group + at / p->seq_q, at % p->seq_q};
}

/* Q_i^T times scale, so that the maximum is taken of scaled scores. Lanes without a query hold 0 and see
 * what the last query sees. */
static void load_Q(const fa_problem_t *p, const fa_fast_rows_t *w, const blocks_t *x, int64_t lanes) {
  int64_t keys = fa_keys(p, w->b);
  for (int64_t first = 0; first < lanes; first += LANES) {
    const float *row[LANES];
    for (int a = 0; a < LANES; a++) {
      query_t q = query_of(p, w, first + a);
      row[a] = row_in(&p->q, w->b, q.h, q.i);
      x->visible[first + a] = fa_visible(p, keys, q.i);
    }
    rows_to_lanes(row, w->count - first, x->d, p->scale, lane(x->Q, first, x->d));
    store(x->m + first, splat(-INFINITY));
    store(x->l + first, splat(0));
  }
}

/* How many of the block's n keys each lane sees. */
static ivec seen(const int64_t *visible, int64_t begin, int64_t n) {
  ivec x = {0};
  for (int a = 0; a < LANES; a++) {
    int64_t k = visible[a] - begin;
    x[a] = (int32_t)(k < 0 ? 0 : k > n ? n : k);
  }
  return x;
}

/* S_ij = -inf where query i does not see key j. */
static void mask(float *S, int64_t n, ivec keys) {
  for (int64_t j = 0; j < n; j++, S += PANEL)
    store(S, choose(isplat((int32_t)j) < keys, load(S), splat(-INFINITY)));
}

/* The largest of n scores per lane and of m. Four running maxima, since each answers only after 4 cycles. */
static vec row_max(const float *S, int64_t n, vec m) {
  vec part[4] = {m, m, m, m};
  int64_t j = 0;
  for (; j + 4 <= n; j += 4)
    for (int a = 0; a < 4; a++) part[a] = greater(load(S + (j + a) * PANEL), part[a]);
  for (; j < n; j++) part[0] = greater(load(S + j * PANEL), part[0]);
  return greater(greater(part[0], part[1]), greater(part[2], part[3]));
}

/* The online softmax for LANES queries: S becomes P = exp(S - m), and m and l are brought up to date. The
 * result is alpha = exp(m_old - m), by which O must shrink if *rose.
 * The maximum passes over NaN, but P, and with it l and O, does not. A maximum of -inf (nothing seen yet)
 * is replaced by 0 in the differences alone: exp(-inf - 0) = 0 is right, -inf - -inf would be NaN. */
static vec online_softmax(float *S, int64_t n, float *m, float *l, bool *rose) {
  vec m_old = load(m), m_now = row_max(S, n, m_old);
  vec from = choose(m_now == splat(-INFINITY), splat(0), m_now), sum = splat(0);
  for (int64_t j = 0; j < n; j++, S += PANEL) {
    vec P = vexp(load(S) - from);
    sum += P;
    store(S, P);
  }
  vec alpha = vexp(m_old - from);
  store(l, load(l) * alpha + sum);
  store(m, m_now);
  *rose = any(m_now > m_old);
  return alpha;
}

/* How many of the first `rows` lanes had seen something that is now worth less. */
static int rescaled(vec m_old, vec m_now, int64_t rows) {
  ivec x = (m_old > splat(-INFINITY)) & (m_now > m_old);
  int n = 0;
  for (int a = 0; a < LANES && a < rows; a++) n += x[a] != 0;
  return n;
}

static void rescale(float *O, int64_t dv, vec alpha) {
  for (int64_t c = 0; c < dv; c++) store(O + c * PANEL, load(O + c * PANEL) * alpha);
}

/* O += P V for a tile in which some query does not see some key and V is not finite: what would be 0 times
 * NaN is left out. Such tiles are few, and speed does not matter. */
static void add_seen(const blocks_t *x, const float *P, int64_t n, ivec keys, float *O) {
  for (int64_t c = 0; c < x->dv; c++)
    for (int64_t j = 0; j < n; j++) {
      vec sum = load(O + c * PANEL), more = sum + load(P + j * PANEL) * x->V[j * fa_fast_stride(x->dv) + c];
      store(O + c * PANEL, choose(isplat((int32_t)j) < keys, more, sum));
    }
}

/* One panel of queries, rows first .. of the block, against keys begin .. begin+n. */
static void panel_step(const blocks_t *x, int vectors, int64_t first, int64_t begin, int64_t n,
                       fa_count_t *count) {
  const int64_t *visible = x->visible + first;
  int64_t least = visible[0], most = visible[0];
  for (int a = 1; a < vectors * LANES; a++) {
    least = visible[a] < least ? visible[a] : least;
    most = visible[a] > most ? visible[a] : most;
  }
  if (most - begin < n) n = most - begin; /* no query of this panel sees the rest */
  if (n <= 0) return;
  bool masked = least - begin < n;
  int64_t strips = fa_fast_up(n, STRIP), columns = fa_fast_up(x->dv, STRIP);
  float *O = x->O + first * x->dv_padded;

  product(vectors, x->K, fa_fast_stride(x->d), strips, x->Q + first * x->d, PANEL, x->d, x->S, PANEL, false);
  for (int v = 0; v < vectors; v++) {
    int64_t at = v * LANES;
    if (masked) mask(x->S + at, n, seen(visible + at, begin, n));
    bool rose;
    vec m_old = load(x->m + first + at);
    vec alpha = online_softmax(x->S + at, n, x->m + first + at, x->l + first + at, &rose);
    if (begin > 0 && rose) {
      rescale(O + at, x->dv, alpha);
      count->rescales += rescaled(m_old, load(x->m + first + at), x->rows - first - at);
      count->other_flop += (double)(LANES * x->dv);
    }
  }
  if (!masked || x->finite)
    product_transposed(vectors, x->V, fa_fast_stride(x->dv), columns, x->S, PANEL, n, O, PANEL, begin > 0);
  else
    for (int64_t at = 0; at < vectors * LANES; at += LANES) {
      for (int64_t c = 0; begin == 0 && c < x->dv; c++) store(O + at + c * PANEL, splat(0));
      add_seen(x, x->S + at, n, seen(visible + at, begin, n), O + at);
    }

  double lanes = vectors * LANES;
  count->matmul_flop += 2 * lanes * ((double)(strips * x->d) + (double)(n * columns));
  count->other_flop += 3 * lanes * (double)(n + 1); /* maximum, subtract, add; and alpha, l */
  count->exp += lanes * (double)(n + 1);
}

/* O_i = O_i / l, LSE_i = m + log l. l is 0 where a row sees nothing, or nothing but -inf. */
static void store_O(const fa_problem_t *p, const fa_fast_rows_t *w, const blocks_t *x, int64_t lanes) {
  for (int64_t first = 0; first < lanes; first += LANES) {
    float *row[LANES];
    int64_t n = w->count - first < LANES ? w->count - first : LANES;
    for (int a = 0; a < n; a++) {
      query_t q = query_of(p, w, first + a);
      float l = x->l[first + a];
      row[a] = row_out(&p->o, w->b, q.h, q.i);
      p->lse[(w->b * p->heads_q + q.h) * p->seq_q + q.i] = l == 0 ? -INFINITY : x->m[first + a] + logf(l);
    }
    vec l = load(x->l + first);
    lanes_to_rows(lane(x->O, first, x->dv_padded), 1 / l, l == splat(0), row, n, x->dv);
  }
}

void FA_SIMD(fa_fast_forward)(const fa_problem_t *p, const fa_fast_rows_t *w, const fa_fast_forward_map_t *at,
                              float *buffers, fa_count_t *count) {
  blocks_t x = carve(p, w, at, buffers);
  int64_t lanes = fa_fast_up(w->count, LANES), most = 0;
  load_Q(p, w, &x, lanes);
  for (int64_t r = 0; r < lanes; r++) most = x.visible[r] > most ? x.visible[r] : most;

  for (int64_t begin = 0; begin < most; begin += FA_FAST_KEYS) {
    int64_t n = most - begin < FA_FAST_KEYS ? most - begin : FA_FAST_KEYS;
    copy_rows(&p->k, w->b, w->kv_head, begin, n, x.d, 1, x.K);
    x.finite = copy_rows(&p->v, w->b, w->kv_head, begin, n, x.dv, 1, x.V);
    count->hbm_read += 4 * (double)(n * (x.d + x.dv));
    for (int64_t first = 0; first < lanes; first += PANEL) {
      int64_t vectors = (lanes - first) / LANES;
      panel_step(&x, vectors < VECTORS ? (int)vectors : VECTORS, first, begin, n, count);
    }
  }
  store_O(p, w, &x, lanes);
  count->hbm_read += 4 * (double)(w->count * x.d);
  count->hbm_written += 4 * (double)(w->count * (x.dv + 1));
  count->other_flop += (double)(w->count * (x.d + x.dv + 2)); /* scale Q; O, 1 / l and LSE */
  count->exp += (double)w->count;
}
