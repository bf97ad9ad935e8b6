/* unit_formulas.c - FLOP and bytes against numbers worked out by hand. */
#include "formulas.h"
#include "unit.h"

static fa_problem_t problem(int64_t batch, int64_t heads, int64_t n, int64_t d) {
  return (fa_problem_t){.batch = batch,
                        .heads_q = heads,
                        .heads_kv = heads,
                        .seq_q = n,
                        .seq_k = n,
                        .head_dim = d,
                        .head_dim_v = d,
                        .dtype = FA_FP16,
                        .dtype_out = FA_FP16};
}

/* bl57: 137.44, 68.72 and 343.60 GFLOP. */
START_TEST(flop_of_charts) {
  fa_problem_t p = problem(1, 16, 4096, 128);
  ck_assert_double_eq(fa_formula_flop(&p, FA_FORWARD), 137438953472.0);
  ck_assert_double_eq(fa_formula_flop(&p, FA_BACKWARD), 343597383680.0);
  p.causal = true;
  ck_assert_double_eq(fa_formula_flop(&p, FA_FORWARD), 68719476736.0);
  ck_assert_double_eq(fa_formula_flop(&p, FA_BACKWARD), 171798691840.0);
  p = problem(64, 16, 1024, 64); /* the lecture's workload: 274.88 GFLOP */
  ck_assert_double_eq(fa_formula_flop(&p, FA_FORWARD), 274877906944.0);
  p = (fa_problem_t){
      .batch = 3, .heads_q = 6, .heads_kv = 2, .seq_q = 10, .seq_k = 20, .head_dim = 7, .head_dim_v = 5};
  ck_assert_double_eq(fa_formula_flop(&p, FA_FORWARD), 2.0 * 3 * 6 * 10 * 20 * 12); /* query heads count */
}
END_TEST

/* Only pairs that the mask lets through. */
START_TEST(flop_exactly) {
  fa_problem_t p = problem(1, 1, 4, 8);
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 16 * 4 * 8.0);
  ck_assert_double_eq(fa_exact_flop(&p, FA_BACKWARD), 16 * 10 * 8.0);
  p.causal = true; /* 1 + 2 + 3 + 4 pairs */
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 10 * 4 * 8.0);
  p.seq_k = 2; /* 0 + 0 + 1 + 2 */
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 3 * 4 * 8.0);
  p.seq_q = 2, p.seq_k = 5; /* 4 + 5 */
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 9 * 4 * 8.0);
  static const int32_t kv_len[3] = {0, 2, 99};
  p.batch = 3, p.kv_len = kv_len; /* nothing; 1 + 2; 4 + 5 */
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 12 * 4 * 8.0);
  p.causal = false; /* 0; 2 + 2; 5 + 5 */
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 14 * 4 * 8.0);
  p = (fa_problem_t){
      .batch = 1, .heads_q = 2, .heads_kv = 1, .seq_q = 1, .seq_k = 1, .head_dim = 3, .head_dim_v = 5};
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 2.0 * (2 * 3 + 2 * 5));
  ck_assert_double_eq(fa_exact_flop(&p, FA_BACKWARD),
                      2.0 * (6 * 3 + 4 * 5)); /* three products over d, two over d_v */
}
END_TEST

/* The sums agree with a loop over all pairs for every small shape. */
START_TEST(flop_pair_by_pair) {
  fa_problem_t p = problem(1, 3, 1, 4);
  p.causal = true;
  for (p.seq_q = 1; p.seq_q < 9; p.seq_q++)
    for (p.seq_k = 0; p.seq_k < 9; p.seq_k++) {
      double pairs = 0;
      for (int64_t i = 0; i < p.seq_q; i++)
        for (int64_t j = 0; j < p.seq_k; j++) pairs += j <= i + p.seq_k - p.seq_q;
      ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), pairs * 3 * 16);
    }
}
END_TEST

/* The lecture's workload in fp16, one head: N d = 65,536 elements, N^2 = 1,048,576; 1024 heads. */
START_TEST(bytes_of_standard_attention) {
  fa_problem_t p = problem(64, 16, 1024, 64);
  /* S: 2 N d + N^2; P: 2 N^2; O: N^2 + 2 N d: 4 N d + 4 N^2 elements of 2 bytes, and N fp32 of LSE */
  ck_assert_double_eq(fa_formula_bytes_standard(&p, FA_FORWARD, 2),
                      1024.0 * (2 * (4 * 65536 + 4 * 1048576) + 4096));
  /* dV: N^2 + 2 N d; dP: 2 N d + N^2; dS: 3 N^2; dQ, dK: N^2 + 2 N d each */
  ck_assert_double_eq(fa_formula_bytes_standard(&p, FA_BACKWARD, 2), 1024.0 * 2 * (8 * 65536 + 7 * 1048576));
  /* S and P in fp32 */
  ck_assert_double_eq(fa_formula_bytes_standard(&p, FA_FORWARD, 4),
                      1024.0 * (2 * 4 * 65536 + 4 * 4 * 1048576 + 4096));
}
END_TEST

START_TEST(bytes_of_tiled_attention) {
  fa_problem_t p = problem(1, 2, 100, 64);
  ck_assert_double_eq(fa_formula_bytes_least(&p, FA_FORWARD), 2.0 * (4 * 6400 * 2 + 400));
  ck_assert_double_eq(fa_formula_bytes_least(&p, FA_BACKWARD), 2.0 * (8 * 6400 * 2 + 400));
  /* blocks of 30 queries: K and V four times */
  ck_assert_double_eq(fa_formula_bytes_tiled(&p, 30), 2.0 * ((2 + 2 * 4) * 6400 * 2 + 400));
  ck_assert_double_eq(fa_formula_bytes_tiled(&p, 100), fa_formula_bytes_least(&p, FA_FORWARD));
  p.heads_kv = 1; /* each of the two query heads streams the one kv head */
  ck_assert_double_eq(fa_formula_bytes_tiled(&p, 100), 2.0 * (4 * 6400 * 2 + 400));
  ck_assert_double_eq(fa_formula_bytes_least(&p, FA_FORWARD), 2.0 * (2 * 6400 * 2 + 400) + 2 * 6400 * 2);
  p = problem(1, 1, 1024, 64); /* N^2 d^2 / M elements: 1024^2 64^2 / 8192 = 524,288 */
  ck_assert_double_eq(fa_formula_bytes_fa1(&p, 8192), 2.0 * 524288);
}
END_TEST

/* FA1's order, from the formula in 03_fa1_cuda/README.md and Algorithm 4. as_printed comes second: O, l, m (backward: dQ)
 * make one round trip more, and backward O is read with dO, and LSE, instead of LSE and D. */
static void keys_outer(const fa_problem_t *p, int64_t block_k, const double forward[2],
                       const double backward[2]) {
  for (int as_printed = 0; as_printed < 2; as_printed++) {
    ck_assert_double_eq(fa_formula_bytes_keys_outer(p, FA_FORWARD, block_k, as_printed), forward[as_printed]);
    ck_assert_double_eq(fa_formula_bytes_keys_outer(p, FA_BACKWARD, block_k, as_printed),
                        backward[as_printed]);
  }
}

/* N = 100, d = 32, e = 2. A row of Q, K, V, O, dO or dQ is 64 bytes; of O, l, m in fp32 4 * 32 + 8 = 136, to and fro 272;
 * of dQ in fp32 128, to and fro 256. A row of {LSE, D} is 8 bytes, so that a step backward reads 64 + 64 + 8 = 136 a row,
 * as printed 3 * 64 + 4 = 196; the kernel before reads O, dO and LSE and writes {LSE, D}: 2 * 64 + 4 + 8 = 140. */
START_TEST(bytes_of_keys_outer) {
  fa_problem_t p = problem(1, 1, 100, 32);
  /* Full, B_c = 64, two blocks of keys:
   *   forward    K, V 2 * 100 * 64 = 12800; Q 2 * 100 * 64 = 12800; O, l, m 1 * 100 * 272 = 27200 (printed: 2 of them);
   *              result 100 * (64 + 4) = 6800
   *   backward   before 100 * 140 = 14000 (printed: nothing); steps 200 * 136 = 27200 (200 * 196 = 39200);
   *              dQ 100 * 256 = 25600 (2 of them) and 6400; K, V, dK, dV 4 * 6400 = 25600 */
  keys_outer(&p, 64, (double[2]){12800 + 12800 + 27200 + 6800, 12800 + 12800 + 54400 + 6800},
             (double[2]){14000 + 27200 + 25600 + 6400 + 25600, 39200 + 51200 + 6400 + 25600});
  /* One block: no round trip at all, but as printed. */
  keys_outer(&p, 100, (double[2]){12800 + 6400 + 6800, 12800 + 6400 + 27200 + 6800},
             (double[2]){14000 + 13600 + 6400 + 25600, 19600 + 25600 + 6400 + 25600});
  /* Causal: all 100 queries see keys of block 0, the last 36 of block 1. 136 visits, 36 of them not the first. */
  p.causal = true;
  keys_outer(&p, 64, (double[2]){12800 + 136 * 64 + 36 * 272 + 6800, 12800 + 136 * 64 + 136 * 272 + 6800},
             (double[2]){14000 + 136 * 136 + 36 * 256 + 6400 + 25600, 136 * 196 + 136 * 256 + 6400 + 25600});
  /* 130 rows of K and V, of which the first item has none and the second 70: query 30 is the first to see one, query 94
   * the first to see block 1. 70 + 6 visits. Results are written for all rows, dK and dV beyond kv_len too. */
  static const int32_t kv_len[2] = {0, 70};
  p.batch = 2, p.seq_k = 130, p.kv_len = kv_len;
  keys_outer(&p, 64,
             (double[2]){6800 + 2 * 70 * 64 + 76 * 64 + 6 * 272 + 6800,
                         6800 + 2 * 70 * 64 + 76 * 64 + 76 * 272 + 6800},
             (double[2]){14000 + 6400 + 2 * 130 * 64 /* the item without keys; then the other */
                             + 14000 + 76 * 136 + 6 * 256 + 6400 + 2 * (70 + 130) * 64,
                         6400 + 2 * 130 * 64 + 76 * 196 + 76 * 256 + 6400 + 2 * (70 + 130) * 64});
}
END_TEST

/* Heads 4 on 2, d = 32 (64 bytes), d_v = 16 (V 32 bytes; O and dO, in fp32, 64): three blocks of B_c = 8 for 20 keys, 10
 * queries. Forward reads K and V for each query head, backward for each kv head. */
START_TEST(bytes_of_keys_outer_in_groups) {
  fa_problem_t p = problem(1, 4, 10, 32);
  p.heads_kv = 2, p.seq_k = 20, p.head_dim_v = 16, p.dtype_out = FA_FP32;
  /* forward, a head: K, V 20 * 96 = 1920; Q 3 * 10 * 64 = 1920; O, l, m 2 (3) * 10 * 2 * (4 * 16 + 8) = 1440 each;
   * result 10 * (64 + 4) = 680.
   * backward, a query head: before 10 * (2 * 64 + 12) = 1400; steps 30 * (64 + 64 + 8) = 4080, or 30 * (3 * 64 + 4) =
   * 5880; dQ 2 (3) * 10 * 256 = 2560 each, and 640; a kv head: K, V, dK, dV 2 * 1920 = 3840 */
  keys_outer(
      &p, 8, (double[2]){4 * (1920 + 1920 + 2 * 1440 + 680.0), 4 * (1920 + 1920 + 3 * 1440 + 680.0)},
      (double[2]){4 * (1400 + 4080 + 2 * 2560 + 640.0) + 2 * 3840, 4 * (5880 + 3 * 2560 + 640.0) + 2 * 3840});
}
END_TEST

/* Sizes whose FLOP pass 2^63. */
START_TEST(no_overflow) {
  fa_problem_t p = problem(64, 128, 1 << 20, 128);
  ck_assert_double_eq(fa_formula_flop(&p, FA_FORWARD), 4.0 * 64 * 128 * 0x1p40 * 128);
  ck_assert_double_eq(fa_exact_flop(&p, FA_FORWARD), 4.0 * 64 * 128 * 0x1p40 * 128);
}
END_TEST

Suite *unit_formulas(void) {
  const TTest *const tests[] = {flop_of_charts,
                                flop_exactly,
                                flop_pair_by_pair,
                                bytes_of_standard_attention,
                                bytes_of_tiled_attention,
                                bytes_of_keys_outer,
                                bytes_of_keys_outer_in_groups,
                                no_overflow,
                                NULL};
  return suite_of("formulas", tests);
}
