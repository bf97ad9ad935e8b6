/* fast.h - step `fast`: what fast.c (who works on what, and where) and the *_simd.c files (the work) share. */
#ifndef FA_FAST_H
#define FA_FAST_H

#include "count.h"
#include "stage.h"

#define FA_FAST_WIDE 48 /* the widest panel (fast_simd.h); the narrower ones divide it */
#define FA_FAST_PAD 16  /* padded block dimensions are multiples of this */

/* Block sizes. What stays (forward: queries; backward: keys) is transposed once and then used against
 * everything that passes by, so large blocks save copying and main memory traffic; all buffers of a thread
 * together should stay within about half of a second-level cache of 1 to 2 MB. */
enum {
  FA_FAST_ROWS = 768,              /* forward B_r: at most; less for a large head_dim, or if there were */
  FA_FAST_ROW_FLOATS = 393216 / 4, /* too few blocks to share out. Q_i and O_i together: at most 384 KB */
  FA_FAST_KEYS = 128,              /* forward B_c */
  FA_FAST_BACK_KEYS = 192,         /* backward B_c */
  FA_FAST_BACK_ROWS = 128          /* backward B_r */
};
_Static_assert(FA_FAST_ROWS % FA_FAST_WIDE == 0 && FA_FAST_BACK_KEYS % FA_FAST_WIDE == 0,
               "what lies across vectors is a whole number of panels");
_Static_assert(FA_FAST_KEYS % FA_FAST_PAD == 0 && FA_FAST_BACK_ROWS % FA_FAST_PAD == 0,
               "what is taken strip by strip is a whole number of strips");

static inline int64_t fa_fast_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
/* Row stride of a block that is copied as it lies. The extra line keeps rows whose length is a power of two
 * from meeting in the same few sets of the cache. */
static inline int64_t fa_fast_stride(int64_t dim) {
  return fa_fast_up(dim, FA_FAST_PAD) + FA_FAST_PAD;
}

/* Where the buffers of one thread begin, in floats from their start. PANEL: as wide as the instruction set
 * makes it (fast_simd.h); padded(x): x rounded up to FA_FAST_PAD; ld: fa_fast_stride. */
typedef struct fa_fast_forward_map {
  int64_t rows;    /* B_r in use */
  int64_t Q;       /* [rows / PANEL][head_dim][PANEL]            Q_i^T, times scale */
  int64_t O;       /* [rows / PANEL][padded(head_dim_v)][PANEL]  O_i^T */
  int64_t K, V;    /* [FA_FAST_KEYS][ld]                         K_j, V_j */
  int64_t S;       /* [FA_FAST_KEYS][PANEL]                      S^T, then P^T, of one panel */
  int64_t m, l;    /* [rows] */
  int64_t visible; /* [rows] int64_t: keys that each query sees */
  int64_t floats;  /* all together */
} fa_fast_forward_map_t;

typedef struct fa_fast_backward_map {
  int64_t K, V;    /* [BACK_KEYS / PANEL][head_dim or head_dim_v][PANEL]   K_j^T, V_j^T */
  int64_t dK, dV;  /* [BACK_KEYS / PANEL][padded(...)][PANEL]              dK_j^T, dV_j^T */
  int64_t Ks;      /* [BACK_KEYS][ld]                                      K_j, times scale */
  int64_t Q, dO;   /* [BACK_ROWS][ld]                                      Q_i, times scale, and dO_i */
  int64_t P, dS;   /* [BACK_ROWS][BACK_KEYS]                               S, then P; dP, then dS */
  int64_t dQ;      /* [BACK_ROWS][ld]                                      this tile's share of dQ_i */
  int64_t lse, D;  /* [BACK_ROWS] */
  int64_t visible; /* [BACK_ROWS] int64_t */
  int64_t floats;
} fa_fast_backward_map_t;

/* Rows of a block of the forward pass with all threads: what one pass over K and V serves. */
int64_t fa_fast_queries(const fa_problem_t *p);

/* A block of query rows. The query heads that share a kv head count as one long list of rows: row r is query
 * r % seq_q of the group's head r / seq_q. Short queries (decoding) of several heads then fill one block. */
typedef struct fa_fast_rows {
  int64_t b, kv_head, begin, count;
} fa_fast_rows_t;

/* A block of keys, and what its dQ contributions have to wait for. */
typedef struct fa_fast_keys {
  int64_t b, kv_head, begin, count; /* count: rows of dK, dV, also those at or beyond kv_len */
  const float *D;                   /* [batch][heads_q][seq_q] */
  int64_t *turn; /* turn[0]: tiles that this block has finished; turn[-1]: the block before */
} fa_fast_keys_t;

/* The work, once per instruction set. D: of the n rows of head h from row `begin`. */
typedef void fa_fast_forward_fn(const fa_problem_t *p, const fa_fast_rows_t *w,
                                const fa_fast_forward_map_t *at, float *buffers, fa_count_t *count);
typedef void fa_fast_row_sums_fn(const fa_problem_t *p, int64_t b, int64_t h, int64_t begin, int64_t n,
                                 float *D, fa_count_t *count);
typedef void fa_fast_backward_fn(const fa_problem_t *p, const fa_fast_keys_t *w,
                                 const fa_fast_backward_map_t *at, float *buffers, fa_count_t *count);
#define FA_FAST_DECLARE(isa)                                                                                 \
  fa_fast_forward_fn fa_fast_forward_##isa;                                                                  \
  fa_fast_row_sums_fn fa_fast_row_sums_##isa;                                                                \
  fa_fast_backward_fn fa_fast_backward_##isa;
FA_FAST_DECLARE(baseline)
FA_FAST_DECLARE(avx2)
FA_FAST_DECLARE(avx512)

#endif
