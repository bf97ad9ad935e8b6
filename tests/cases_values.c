/* cases_values.c - rows whose result was worked out by hand, in double precision.
 *
 * Logit trick: with head_dim 64, the default scale 1/8 and q = (8, 0, ..., 0), the scaled logit of key j is
 * exactly component 0 of K row j. "v_j = j" means that component 0 of V row j holds j. Components that are
 * not mentioned are 0. Names say which report the row answers. */
#include "cases.h"

#include <math.h>

typedef const fa_problem_t *problem_t;
#define INPUT(name) static float name(problem_t p, int array, int64_t b, int64_t h, int64_t r, int64_t c)
#define RESULT(name) static double name(problem_t p, int array, int64_t b, int64_t h, int64_t r, int64_t c)
#define UNUSED (void)p, (void)b, (void)h, (void)r, (void)c

/* q = 0 (so that every visible key has the same weight), k = 0, component 0 of V is `v`. */
#define UNIFORM(name, v)                                                                                     \
  INPUT(name) {                                                                                              \
    UNUSED;                                                                                                  \
    if (array == FA_DO) return plain_d_o(b, h, r, c);                                                        \
    return array == FA_V && c == 0 ? (float)(v) : 0;                                                         \
  }
UNIFORM(v_is_row, r)
UNIFORM(v_alternates, r % 2)
UNIFORM(v_is_1_3, r ? 3 : 1)
UNIFORM(v_is_20, 20)

/* What a uniform row gives where the first n values have the mean `mean`: O, and LSE = ln n. */
static double uniform(problem_t p, int array, int64_t b, int64_t r, int64_t c, double mean) {
  int64_t n = fa_visible(p, fa_keys(p, b), r);
  if (array == FA_LSE) return n ? log((double)n) : -INFINITY;
  if (array == FA_O) return c || !n ? 0 : mean;
  return NAN;
}
static double seen(problem_t p, int64_t b, int64_t r) {
  return (double)fa_visible(p, fa_keys(p, b), r);
}
RESULT(mean_of_rows) {
  (void)h;
  return uniform(p, array, b, r, c, (seen(p, b, r) - 1) / 2);
}
RESULT(mean_of_alternating) {
  (void)h;
  return uniform(p, array, b, r, c, floor(seen(p, b, r) / 2) / seen(p, b, r));
}
RESULT(mean_is_20) {
  (void)h;
  return uniform(p, array, b, r, c, 20);
}

/* q = k = 0 without a mask: every P is 1 / N_k, so dV is the sum of dO over that, and dQ = dK = 0. */
RESULT(every_output) {
  double sum = 0;
  if (array == FA_DQ || array == FA_DK) return 0;
  if (array != FA_DV) return mean_of_rows(p, array, b, h, r, c);
  for (int64_t i = 0; i < p->seq_q; i++) sum += (double)plain_d_o(b, h, i, c);
  return sum / (double)p->seq_k;
}

/* bl01: four queries, two keys, causal: the first two see nothing. */
RESULT(bl01_out) {
  static const double o[4] = {0, 0, 1, 2}, lse[4] = {-INFINITY, -INFINITY, 0, 0.6931471805599453};
  UNUSED;
  if (array == FA_DQ && r < 2) return 0;
  return array == FA_LSE ? lse[r] : array == FA_O ? (c ? 0 : o[r]) : NAN;
}

/* bl08: every logit is -80000, far below any finite "minus infinity". */
INPUT(bl08_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return array == FA_Q ? 100 : array == FA_K ? -100 : c ? 0 : r ? 3.0f : 1.0f;
}
RESULT(bl08_out) {
  UNUSED;
  return array == FA_LSE ? -79999.30685281944 : array == FA_O ? (c ? 0 : 2) : NAN;
}

/* bl09: one key with an enormous logit; O is V itself. */
INPUT(bl09_large_in) {
  UNUSED;
  return array == FA_DO ? plain_d_o(b, h, r, c) : 133120;
}
INPUT(bl09_half_in) {
  UNUSED;
  return array == FA_DO ? plain_d_o(b, h, r, c) : array == FA_V ? 5 : 200;
}
RESULT(bl09_large_out) {
  UNUSED;
  return array == FA_O ? 133120 : NAN;
}
RESULT(bl09_half_out) {
  UNUSED;
  return array == FA_O ? 5 : array == FA_LSE ? 320000 : NAN;
}

/* bl10: the natural log-sum-exp, with the maximum in it. (a) logit 8, five keys; (b) logit 3, 1024 keys. */
INPUT(bl10a_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return array != FA_V ? 1 : c ? 0 : (float)r;
}
RESULT(bl10a_out) {
  UNUSED;
  return array == FA_LSE ? 9.609437912434101 : array == FA_O ? (c ? 0 : 2) : NAN;
}
INPUT(bl10b_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return c ? 0 : array == FA_Q ? 8 : array == FA_K ? 3 : (float)(r % 2);
}
RESULT(bl10b_out) {
  UNUSED;
  return array == FA_LSE ? 9.931471805599453 : array == FA_O ? (c ? 0 : 0.5) : NAN;
}

/* bl11: the maximum rises in every group of 64 keys: 0, 5, 10, 15. */
INPUT(bl11_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return c ? 0 : array == FA_Q ? 8 : array == FA_K ? (float)(5 * (r / 64)) : (float)(1 + r / 64);
}
RESULT(bl11_out) {
  UNUSED;
  return array == FA_LSE ? 19.165643830748007 : array == FA_O ? (c ? 0 : 3.9932163533383096) : NAN;
}

/* bl14: every logit is -20; keys that pad the last tile would have 0 and take the whole row. */
INPUT(bl14_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return c ? 0 : array == FA_Q ? 8 : array == FA_K ? -20 : 1;
}
RESULT(bl14_out) {
  UNUSED;
  return array == FA_LSE ? log(65) - 20 : array == FA_O ? (c ? 0 : 1) : NAN;
}

/* bl16b: the raw dot product, 131072, is beyond fp16. */
INPUT(bl16b_in) {
  UNUSED;
  return array == FA_DO ? plain_d_o(b, h, r, c) : array == FA_V ? 3 : 32;
}
RESULT(bl16b_out) {
  UNUSED;
  return array == FA_O ? 3 : array == FA_LSE ? 131072 / sqrt(128) : NAN;
}

/* bl21: a negative scale; the maximum must be taken after it is applied. */
static const float minus_half = -0.5f, minus_one = -1, zero = 0;
INPUT(bl21a_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return c ? 0 : array == FA_Q ? 1 : array == FA_K ? (r ? 2.197225f : 0) : r ? 4.0f : 0;
}
RESULT(bl21a_out) {
  UNUSED;
  return array == FA_LSE ? 0.2876820196188126 : array == FA_O ? (c ? 0 : 1) : NAN;
}
INPUT(bl21b_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return c ? 0 : array == FA_Q ? 1 : array == FA_K ? (r ? 400.0f : 0) : r ? 4.0f : 7.0f;
}
RESULT(bl21b_out) {
  UNUSED;
  return array == FA_LSE ? 0 : array == FA_O ? (c ? 0 : 7) : NAN;
}

/* bl22: scale 0 means 0: all visible keys weigh the same, whatever q and k are. */
INPUT(bl22_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  return array == FA_Q ? 3 : array == FA_K ? 2 : c ? 0 : (float)r;
}
RESULT(bl22_out) {
  (void)h;
  if (array == FA_DQ || array == FA_DK) return 0;
  return uniform(p, array, b, r, c, (double)r / 2);
}

/* bl24: one query, one key. dV = dO, and dQ = dK = 0 because P is 1 whatever q and k are. */
INPUT(bl24_in) {
  UNUSED;
  return array == FA_V ? (float)c : 1;
}
RESULT(bl24_out) {
  UNUSED;
  if (array == FA_LSE) return sqrt((double)p->head_dim);
  return array == FA_O ? (double)c : array == FA_DV ? 1 : 0;
}

/* bl26: all that matters sits in the last component: logits 0 and ln 3, values 0 and 4. */
INPUT(bl26_in) {
  UNUSED;
  if (array == FA_DO) return plain_d_o(b, h, r, c);
  if (c != (array == FA_V ? p->head_dim_v : p->head_dim) - 1) return 0;
  if (array == FA_Q) return sqrtf((float)p->head_dim);
  return r == 0 ? 0 : array == FA_K ? 1.0986122887f : 4;
}
RESULT(bl26_out) {
  UNUSED;
  return array == FA_LSE ? 1.3862943611198906 : array == FA_O ? (c == p->head_dim_v - 1 ? 3 : 0) : NAN;
}

/* bl38 and bl40: V is constant in each kv head, so that O names the head that was read. */
INPUT(bl38_in) {
  UNUSED;
  return array == FA_DO ? plain_d_o(b, h, r, c) : array == FA_V ? (h ? 101.0f : 1.0f) : 0;
}
RESULT(bl38_out) {
  UNUSED;
  return array == FA_LSE ? log((double)p->seq_k) : array == FA_O ? (h ? 101 : 1) : NAN;
}
INPUT(bl40_in) {
  UNUSED;
  return array == FA_DO ? plain_d_o(b, h, r, c) : array == FA_V ? (float)(h + 1) : 0;
}
RESULT(bl40_out) {
  UNUSED;
  if (array == FA_LSE) return log((double)p->seq_k);
  return array == FA_O ? (double)(h / (p->heads_q / p->heads_kv) + 1) : NAN;
}

static const int32_t bl05_len[] = {32};

/* A row is read across, not down. */
/* clang-format off */
#define BL23(n)                                                                                             \
  {.name = "bl23_n" #n, .group = "bl23_ragged", .seq_q = n, .element = v_alternates,                        \
   .expect = mean_of_alternating},                                                                          \
  {.name = "bl23_n" #n "_causal", .group = "bl23_ragged", .seq_q = n, .causal = true,                       \
   .element = v_alternates, .expect = mean_of_alternating}
/* As many keys for few queries, in the emulator: the square ones would take it too long. */
#define BL23_EMULATED(nq, n)                                                                                \
  {.name = "bl23_q" #nq "_n" #n, .group = "bl23_ragged", .seq_q = nq, .seq_k = n, .head_dim = 32,           \
   .element = v_alternates, .expect = mean_of_alternating, .devices = BIT(FA_EMU)},                         \
  {.name = "bl23_q" #nq "_n" #n "_causal", .group = "bl23_ragged", .seq_q = nq, .seq_k = n, .head_dim = 32, \
   .causal = true, .element = v_alternates, .expect = mean_of_alternating, .devices = BIT(FA_EMU)}
#define BL26(d)                                                                                             \
  {.name = "bl26_d" #d, .group = "bl26_last_component", .seq_q = 2, .head_dim = d, .element = bl26_in,      \
   .expect = bl26_out, .exact = FP32}

const fa_case_t value_cases[] = {
    {.name = "bl01_no_key", .group = "bl01_no_key", .seq_q = 4, .seq_k = 2, .causal = true,
     .types = ALL_TYPES, .element = v_is_1_3, .expect = bl01_out, .use = SANITIZED},
    {.name = "bl01_no_key_in_tile", .group = "bl01_no_key", .heads_q = 2, .seq_q = 150, .seq_k = 5,
     .causal = true, .element = v_is_row, .expect = mean_of_rows},
    {.name = "bl03_one_query", .group = "bl03_bottom_right", .seq_q = 1, .seq_k = 8, .causal = true,
     .types = ALL_TYPES, .element = v_is_row, .expect = mean_of_rows, .use = SANITIZED},
    {.name = "bl03_two_of_five", .group = "bl03_bottom_right", .seq_q = 2, .seq_k = 5, .causal = true,
     .types = ALL_TYPES, .element = v_is_row, .expect = mean_of_rows},
    {.name = "bl05_nan_tail", .group = "bl05_nan_tail", .seq_q = 4, .seq_k = 128, .kv_len = bl05_len,
     .element = v_is_row, .expect = mean_of_rows, .use = SANITIZED},
    {.name = "bl05_nan_tail_causal", .group = "bl05_nan_tail", .seq_q = 4, .seq_k = 128,
     .kv_len = bl05_len, .causal = true, .element = v_is_row, .expect = mean_of_rows},
    {.name = "bl08_logit_-80000", .group = "bl08_very_negative", .seq_q = 2, .element = bl08_in,
     .expect = bl08_out, .lse_tolerance = 0.01, .use = FORWARD_ONLY},
    {.name = "bl09_logit_1e11", .group = "bl09_very_large", .seq_q = 1, .types = FP32 | BF16,
     .element = bl09_large_in, .expect = bl09_large_out, .use = FORWARD_ONLY},
    {.name = "bl09_logit_320000", .group = "bl09_very_large", .seq_q = 1, .element = bl09_half_in,
     .expect = bl09_half_out, .lse_tolerance = 0.32},
    {.name = "bl10a_natural_log", .group = "bl10_log_sum_exp", .seq_q = 5, .types = ALL_TYPES,
     .element = bl10a_in, .expect = bl10a_out},
    {.name = "bl10b_with_maximum", .group = "bl10_log_sum_exp", .seq_q = 3, .seq_k = 1024,
     .element = bl10b_in, .expect = bl10b_out},
    {.name = "bl11_rising_maximum", .group = "bl11_rescaling", .seq_q = 2, .seq_k = 256,
     .types = ALL_TYPES, .element = bl11_in, .expect = bl11_out, .use = SANITIZED},
    {.name = "bl14_padded_tail", .group = "bl14_padded_tail", .seq_q = 65, .element = bl14_in,
     .expect = bl14_out, .use = SANITIZED},
    {.name = "bl16a_sum_of_pv", .group = "bl16_range_of_fp16", .seq_q = 4096, .types = FP16,
     .element = v_is_20, .expect = mean_is_20, .use = FORWARD_ONLY},
    {.name = "bl16a_few_queries", .group = "bl16_range_of_fp16", .seq_q = 2, .seq_k = 4096, .head_dim = 32,
     .types = FP16, .element = v_is_20, .expect = mean_is_20, .devices = BIT(FA_EMU)},
    {.name = "bl16b_sum_of_qk", .group = "bl16_range_of_fp16", .seq_q = 1, .head_dim = 128, .types = FP32
     | FP16, .element = bl16b_in, .expect = bl16b_out, .lse_tolerance = 0.02, .use = FORWARD_ONLY},
    {.name = "bl21a_scale_-0.5", .group = "bl21_negative_scale", .seq_q = 2, .scale = &minus_half,
     .element = bl21a_in, .expect = bl21a_out, .exact = FP32},
    {.name = "bl21b_scale_-1", .group = "bl21_negative_scale", .seq_q = 2, .scale = &minus_one,
     .element = bl21b_in, .expect = bl21b_out},
    {.name = "bl22_scale_0", .group = "bl22_scale_zero", .seq_q = 4, .scale = &zero, .causal = true,
     .types = ALL_TYPES, .element = bl22_in, .expect = bl22_out, .use = SANITIZED},
    BL23(1), BL23(15), BL23(31), BL23(33), BL23(63), BL23(64), BL23(65), BL23(127), BL23(129), BL23(192),
    BL23(250), BL23_EMULATED(33, 192), BL23_EMULATED(17, 250), BL23_EMULATED(9, 1025),
    {.name = "bl23_n1025", .group = "bl23_ragged", .seq_q = 1025, .element = v_alternates,
     .expect = mean_of_alternating, .use = FORWARD_ONLY},
    {.name = "bl23_n1025_causal", .group = "bl23_ragged", .seq_q = 1025, .causal = true,
     .element = v_alternates, .expect = mean_of_alternating, .use = FORWARD_ONLY},
    {.name = "bl23_n1025_backward", .group = "bl23_ragged", .seq_q = 1025, .causal = true,
     .element = v_alternates, .expect = mean_of_alternating, .tier = SLOW},
    {.name = "bl24_one_by_one", .group = "bl24_one_by_one", .seq_q = 1, .element = bl24_in,
     .expect = bl24_out, .use = SANITIZED},
    {.name = "bl24_one_by_one_causal", .group = "bl24_one_by_one", .seq_q = 1, .causal = true,
     .element = bl24_in, .expect = bl24_out},
    BL26(1), BL26(4), BL26(8), BL26(16), BL26(32), BL26(40), BL26(63), BL26(64), BL26(72), BL26(80),
    BL26(96), BL26(104), BL26(128), BL26(160), BL26(192), BL26(256),
    {.name = "bl36_many_batches", .group = "bl36_many_blocks", .batch = 65537, .seq_q = 1, .seq_k = 3,
     .head_dim = 8, .use = ALL_BY_HAND, .element = v_is_row, .expect = every_output, .devices = BIT(FA_CPU) | BIT(FA_GPU)},
    {.name = "bl36_many_heads", .group = "bl36_many_blocks", .heads_q = 65537, .seq_q = 1, .seq_k = 3,
     .head_dim = 8, .use = ALL_BY_HAND, .element = v_is_row, .expect = every_output, .devices = BIT(FA_CPU) | BIT(FA_GPU)},
    {.name = "bl36_65536_batches", .group = "bl36_many_blocks", .batch = 65536, .seq_q = 16,
     .use = ALL_BY_HAND, .element = v_is_row, .expect = every_output, .devices = BIT(FA_GPU), .types = FP16, .tier = ON_CARD},
    {.name = "bl36_65536_heads", .group = "bl36_many_blocks", .heads_q = 65536, .seq_q = 16,
     .use = ALL_BY_HAND, .element = v_is_row, .expect = every_output, .devices = BIT(FA_GPU), .types = FP16, .tier = ON_CARD},
    {.name = "bl38_heads_inside_rows", .group = "bl38_layout", .heads_q = 2, .seq_q = 62,
     .layout = FA_BNHD, .element = bl38_in, .expect = bl38_out, .use = SANITIZED},
    {.name = "bl38_padded", .group = "bl38_layout", .heads_q = 2, .seq_q = 62, .layout = FA_PADDED,
     .element = bl38_in, .expect = bl38_out},
    {.name = "bl38_mixed", .group = "bl38_layout", .heads_q = 2, .seq_q = 62, .layout = MIXED,
     .element = bl38_in, .expect = bl38_out},
    {.name = "bl38_do_broadcast", .group = "bl38_layout", .heads_q = 2, .seq_q = 62,
     .layout = DO_BROADCAST, .element = bl38_in, .expect = bl38_out},
    {.name = "bl40_six_on_two", .group = "bl40_grouped_heads", .heads_q = 6, .heads_kv = 2, .seq_q = 65,
     .element = bl40_in, .expect = bl40_out, .use = SANITIZED},
    {.name = "bl40_eight_on_two", .group = "bl40_grouped_heads", .heads_q = 8, .heads_kv = 2, .seq_q = 1,
     .seq_k = 300, .element = bl40_in, .expect = bl40_out},
    {.name = NULL}};
/* clang-format on */
