/* fast.c - step `fast`: who works on what, and where. The work itself is in the *_simd.c files.
 *
 * Forward: a work item is a block of query rows. Backward: a block of keys. Items are independent, except
 * that blocks of keys add to dQ in their order (see add_dQ); results do not depend on the number of threads.
 *
 * Threads take the next item when they are done with one. Items are numbered longest first: with a causal
 * mask the last queries see most keys, and the first keys are seen by most queries. A long item that starts
 * last would be waited for by all. */
#include "fast.h"
#include "simd.h"

#ifdef _OPENMP
#include <omp.h>
#endif

static int max_threads(void) {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}
static int thread_index(void) {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
static int64_t at_most(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Reserves n floats, in whole cache lines. */
static int64_t take(int64_t *floats, int64_t n) {
  int64_t at = *floats;
  *floats += fa_fast_up(n, FA_FAST_PAD);
  return at;
}

static fa_fast_forward_map_t forward_map(const fa_problem_t *p, int64_t rows) {
  fa_fast_forward_map_t m = {.rows = rows};
  m.Q = take(&m.floats, rows * p->head_dim);
  m.O = take(&m.floats, rows * fa_fast_up(p->head_dim_v, FA_FAST_PAD));
  m.K = take(&m.floats, FA_FAST_KEYS * fa_fast_stride(p->head_dim));
  m.V = take(&m.floats, FA_FAST_KEYS * fa_fast_stride(p->head_dim_v));
  m.S = take(&m.floats, FA_FAST_KEYS * FA_FAST_WIDE);
  m.m = take(&m.floats, rows);
  m.l = take(&m.floats, rows);
  m.visible = take(&m.floats, 2 * rows);
  return m;
}

static fa_fast_backward_map_t backward_map(const fa_problem_t *p) {
  int64_t d = p->head_dim, dv = p->head_dim_v, ld = fa_fast_stride(d), ldv = fa_fast_stride(dv);
  fa_fast_backward_map_t m = {0};
  m.K = take(&m.floats, FA_FAST_BACK_KEYS * d);
  m.V = take(&m.floats, FA_FAST_BACK_KEYS * dv);
  m.dK = take(&m.floats, FA_FAST_BACK_KEYS * fa_fast_up(d, FA_FAST_PAD));
  m.dV = take(&m.floats, FA_FAST_BACK_KEYS * fa_fast_up(dv, FA_FAST_PAD));
  m.Ks = take(&m.floats, FA_FAST_BACK_KEYS * ld);
  m.Q = take(&m.floats, FA_FAST_BACK_ROWS * ld);
  m.dO = take(&m.floats, FA_FAST_BACK_ROWS * ldv);
  m.P = take(&m.floats, FA_FAST_BACK_ROWS * FA_FAST_BACK_KEYS);
  m.dS = take(&m.floats, FA_FAST_BACK_ROWS * FA_FAST_BACK_KEYS);
  m.dQ = take(&m.floats, FA_FAST_BACK_ROWS * ld);
  m.lse = take(&m.floats, FA_FAST_BACK_ROWS);
  m.D = take(&m.floats, FA_FAST_BACK_ROWS);
  m.visible = take(&m.floats, 2 * FA_FAST_BACK_ROWS);
  return m;
}

/* The largest forward B_r for this head size. */
static int64_t most_rows(const fa_problem_t *p) {
  int64_t fit = FA_FAST_ROW_FLOATS / (p->head_dim + p->head_dim_v) / FA_FAST_WIDE * FA_FAST_WIDE;
  return fit < FA_FAST_WIDE ? FA_FAST_WIDE : at_most(fit, FA_FAST_ROWS);
}

/* Backward, before the block buffers: D, and the turn of every block of keys. */
static int64_t shared_floats(const fa_problem_t *p) {
  int64_t D = fa_fast_up(p->batch * p->heads_q * p->seq_q, FA_FAST_PAD);
  int64_t turns = p->batch * p->heads_kv * ceil_div(p->seq_k, FA_FAST_BACK_KEYS);
  return D + fa_fast_up(2 * turns, FA_FAST_PAD);
}

static size_t workspace_size(const fa_problem_t *p, fa_pass_t pass) {
  int64_t each = pass == FA_FORWARD ? forward_map(p, most_rows(p)).floats : backward_map(p).floats;
  int64_t shared = pass == FA_FORWARD ? 0 : shared_floats(p);
  return sizeof(float) * (size_t)(shared + max_threads() * each);
}

/* As many as there is workspace for, should the number have risen since workspace_size. */
static int threads_for(const fa_problem_t *p, int64_t shared, int64_t each) {
  int64_t fit = ((int64_t)(p->workspace_size / sizeof(float)) - shared) / each;
  return (int)at_most(max_threads(), fit);
}

/* The number of the next item; every item is taken once, in order. */
static int64_t next_item(int64_t *next) {
  return __atomic_fetch_add(next, 1, __ATOMIC_RELAXED);
}

/* B_r: large blocks load K and V less often, but there should be a few blocks for every thread. */
static int64_t forward_rows(const fa_problem_t *p, int64_t lists, int64_t list, int threads) {
  enum { ITEMS_PER_THREAD = 8 };
  int64_t blocks = ceil_div(ITEMS_PER_THREAD * threads, lists);
  int64_t rows = fa_fast_up(ceil_div(list, blocks), FA_FAST_WIDE);
  return at_most(rows, most_rows(p));
}

/* Heads that share a kv head form one list of rows where they are short, and a list each otherwise. */
static int64_t joined_heads(const fa_problem_t *p) {
  return p->seq_q < FA_FAST_WIDE ? p->heads_q / p->heads_kv : 1;
}

int64_t fa_fast_queries(const fa_problem_t *p) {
  int64_t joined = joined_heads(p);
  return forward_rows(p, p->batch * p->heads_q / joined, p->seq_q * joined, max_threads());
}

static fa_status_t forward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  if (p->seq_q == 0) return FA_OK;
  int64_t group = p->heads_q / p->heads_kv, joined = joined_heads(p);
  int64_t list = p->seq_q * joined, lists = p->batch * p->heads_q / joined;
  int threads = threads_for(p, 0, forward_map(p, most_rows(p)).floats);
  fa_fast_forward_map_t map = forward_map(p, forward_rows(p, lists, list, threads));
  int64_t blocks = ceil_div(list, map.rows), next = 0;
  fa_fast_forward_fn *work = FA_PICK(fa_fast_forward);
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
#endif
  {
    float *buffers = (float *)p->workspace + thread_index() * map.floats;
    fa_count_t count = {0};
    for (int64_t t; (t = next_item(&next)) < blocks * lists;) {
      int64_t first_head = t % lists * joined, begin = (blocks - 1 - t / lists) * map.rows;
      int64_t b = first_head / p->heads_q, h = first_head % p->heads_q;
      fa_fast_rows_t w = {b, h / group, h % group * p->seq_q + begin, at_most(list - begin, map.rows)};
      work(p, &w, &map, buffers, &count);
    }
    fa_count_add(&count);
  }
  return FA_OK;
}

static fa_status_t backward(const fa_problem_t *p, fa_reason_t *why) {
  (void)why;
  fa_fast_backward_map_t map = backward_map(p);
  int64_t shared = shared_floats(p), lists = p->batch * p->heads_kv, heads = p->batch * p->heads_q;
  int64_t blocks = ceil_div(p->seq_k, FA_FAST_BACK_KEYS), row_blocks = ceil_div(p->seq_q, FA_FAST_BACK_ROWS);
  float *D = p->workspace;
  int64_t *turns = (int64_t *)(void *)(D + fa_fast_up(heads * p->seq_q, FA_FAST_PAD));
  for (int64_t t = 0; t < lists * blocks; t++) turns[t] = 0;
  int64_t next_row_block = 0, next = 0;
  fa_fast_row_sums_fn *row_sums = FA_PICK(fa_fast_row_sums);
  fa_fast_backward_fn *work = FA_PICK(fa_fast_backward);
#ifdef _OPENMP
#pragma omp parallel num_threads(threads_for(p, shared, map.floats))
#endif
  {
    float *buffers = D + shared + thread_index() * map.floats;
    fa_count_t count = {0};
    for (int64_t t; (t = next_item(&next_row_block)) < heads * row_blocks;) {
      int64_t head = t / row_blocks, begin = t % row_blocks * FA_FAST_BACK_ROWS;
      row_sums(p, head / p->heads_q, head % p->heads_q, begin, at_most(p->seq_q - begin, FA_FAST_BACK_ROWS),
               D + head * p->seq_q + begin, &count);
    }
#ifdef _OPENMP
#pragma omp barrier
#endif
    for (int64_t t; (t = next_item(&next)) < blocks * lists;) {
      int64_t list = t % lists, block = t / lists, begin = block * FA_FAST_BACK_KEYS;
      fa_fast_keys_t w = {.b = list / p->heads_kv,
                          .kv_head = list % p->heads_kv,
                          .begin = begin,
                          .count = at_most(p->seq_k - begin, FA_FAST_BACK_KEYS),
                          .D = D,
                          .turn = turns + list * blocks + block};
      work(p, &w, &map, buffers, &count);
    }
    fa_count_add(&count);
  }
  return FA_OK;
}

const fa_kernels_t fa_kernels_fast = {workspace_size, forward, backward};
