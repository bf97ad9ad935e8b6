/* unit_problem.c - which problems mean something: every message, and the index helpers of fa.h. */
#include "unit.h"

#include <math.h>
#include <string.h>

static float some_lse[1024];
/* Tensors and their gradients, with room behind each; and how many elements Q and K have. */
enum { ROOM = 512, Q = 2 * 4 * 5 * 8, K = 2 * 2 * 7 * 8 };
static float some_q[2][ROOM], some_k[2][ROOM], some_v[2][ROOM], some_o[2][ROOM];

/* A small problem with every pointer set. */
static fa_problem_t good(void) {
  fa_problem_t p = {.batch = 2,
                    .heads_q = 4,
                    .heads_kv = 2,
                    .seq_q = 5,
                    .seq_k = 7,
                    .head_dim = 8,
                    .head_dim_v = 6,
                    .scale = 0.5f,
                    .lse = some_lse};
  p.q = p.dq = (fa_tensor_t){some_q[0], 4 * 5 * 8, 5 * 8, 8};
  p.k = p.dk = (fa_tensor_t){some_k[0], 2 * 7 * 8, 7 * 8, 8};
  p.v = p.dv = (fa_tensor_t){some_v[0], 2 * 7 * 6, 7 * 6, 6};
  p.o = p.d_o = (fa_tensor_t){some_o[0], 4 * 5 * 6, 5 * 6, 6};
  p.dq.data = some_q[1];
  p.dk.data = some_k[1];
  p.dv.data = some_v[1];
  p.d_o.data = some_o[1];
  return p;
}

static void expect(const fa_problem_t *p, fa_pass_t pass, const char *part) {
  fa_reason_t why = {""};
  fa_status_t status = fa_problem_check(p, pass, true, &why);
  fa_status_t right = part ? FA_INVALID : FA_OK;
  ck_assert_msg(status == right && (!part || strstr(why.text, part)), "status %d, \"%s\"; wanted %d, \"%s\"",
                (int)status, why.text, (int)right, part ? part : "");
  ck_assert_int_eq(fa_problem_check(p, pass, true, NULL), right);
}

#define BAD(change, part)                                                                                    \
  do {                                                                                                       \
    fa_problem_t p = good();                                                                                 \
    change;                                                                                                  \
    expect(&p, FA_FORWARD, part);                                                                            \
  } while (0)
#define BAD_BACK(change, part)                                                                               \
  do {                                                                                                       \
    fa_problem_t p = good();                                                                                 \
    change;                                                                                                  \
    expect(&p, FA_BACKWARD, part);                                                                           \
  } while (0)

START_TEST(good_ones) {
  fa_problem_t p = good();
  expect(&p, FA_FORWARD, NULL);
  expect(&p, FA_BACKWARD, NULL);
  p.scale = 0;
  expect(&p, FA_FORWARD, NULL);
  p.scale = -1;
  expect(&p, FA_FORWARD, NULL);
  p = good();
  p.q.stride_batch = p.q.stride_head = p.q.stride_row = 0; /* an input may be broadcast */
  p.d_o.stride_batch = p.d_o.stride_head = p.d_o.stride_row = 0;
  expect(&p, FA_FORWARD, NULL);
  expect(&p, FA_BACKWARD, NULL);
}
END_TEST

START_TEST(bad_sizes) {
  fa_reason_t why = {""};
  ck_assert_int_eq(fa_problem_check(NULL, FA_FORWARD, true, &why), FA_INVALID);
  BAD(p.batch = -1, "batch is -1");
  BAD(p.seq_q = -2, "seq_q is -2");
  BAD(p.seq_k = -3, "seq_k is -3");
  BAD(p.heads_q = 0, "heads_q is 0");
  BAD(p.heads_kv = 0, "heads_kv is 0");
  BAD(p.head_dim = 0, "head_dim is 0");
  BAD(p.head_dim_v = -1, "head_dim_v is -1");
  BAD((p.heads_q = 3, p.heads_kv = 2), "heads_q (3) must be a multiple of heads_kv (2)");
  BAD((p.heads_q = 33, p.heads_kv = 2), "multiple");
  BAD((p.heads_q = 2, p.heads_kv = 4), "multiple");
  BAD((p.heads_q = 4, p.heads_kv = 0), "heads_kv is 0");
  BAD((p.seq_q = (int64_t)1 << 31, p.seq_k = (int64_t)1 << 31), "too large");
  BAD(p.batch = INT64_MAX, "too large");
  BAD((p.head_dim = (int64_t)1 << 31, p.seq_k = 0), "head_dim is too large: 2147483648");
  BAD((p.head_dim_v = (int64_t)1 << 55, p.batch = 0), "head_dim_v is too large");
  BAD((p.heads_q = (int64_t)1 << 58, p.heads_kv = 1, p.seq_q = 0), "heads_q is too large");
  BAD((p.heads_q = p.heads_kv = (int64_t)1 << 31, p.seq_q = p.seq_k = 0), "is too large");
}
END_TEST

START_TEST(bad_types_and_numbers) {
  BAD(p.dtype = (fa_dtype_t)4, "dtype 4 is unknown");
  BAD(p.dtype = (fa_dtype_t)-1, "unknown");
  BAD(p.dtype_out = FA_E4M3, "dtype_out must be");
  BAD(p.dtype_out = (fa_dtype_t)7, "dtype_out must be");
  BAD(p.scale = NAN, "scale");
  BAD(p.scale = -INFINITY, "scale");
  BAD(p.splits = -1, "splits is -1");
  BAD(p.kv_len = (const int32_t *)(const void *)((const char *)some_lse + 2),
      "kv_len begins at no multiple of 4");
  BAD(p.descale_q.data = some_lse, "descale");
  BAD(p.descale_k.data = some_lse, "descale");
  BAD((p.dtype = FA_FP16, p.descale_v.data = some_lse), "descale");
  BAD((p.dtype = FA_E4M3, p.descale_v.data = some_lse), NULL);
}
END_TEST

START_TEST(missing_pointers) {
  BAD(p.q.data = NULL, "pointer of q is");
  BAD(p.k.data = NULL, "pointer of k is");
  BAD(p.v.data = NULL, "pointer of v is");
  BAD(p.o.data = NULL, "pointer of o is");
  BAD(p.lse = NULL, "pointer of lse is");
  BAD((p.d_o.data = NULL, p.dq.data = NULL, p.dk.data = NULL, p.dv.data = NULL),
      NULL); /* forward needs none */
  BAD_BACK(p.d_o.data = NULL, "pointer of do is");
  BAD_BACK(p.dq.data = NULL, "pointer of dq is");
  BAD_BACK(p.dk.data = NULL, "pointer of dk is");
  BAD_BACK(p.dv.data = NULL, "pointer of dv is");
  BAD_BACK(p.o.data = NULL, "pointer of o is");
  BAD_BACK(p.lse = NULL, "pointer of lse is");
  BAD((p.batch = 0, p.q.data = p.k.data = p.v.data = p.o.data = NULL, p.lse = NULL), NULL);
  BAD((p.seq_q = 0, p.q.data = p.o.data = NULL, p.lse = NULL), NULL);
  BAD((p.seq_k = 0, p.k.data = p.v.data = NULL), NULL);
  fa_problem_t shape = good();
  shape.q.data = shape.k.data = shape.v.data = shape.o.data = NULL;
  shape.lse = NULL;
  ck_assert_int_eq(fa_problem_check(&shape, FA_FORWARD, false, NULL), FA_OK);
}
END_TEST

START_TEST(bad_strides) {
  BAD(p.q.stride_row = -8, "q has a negative stride");
  BAD(p.k.stride_head = -1, "k has a negative stride");
  BAD(p.v.stride_batch = -1, "v has a negative stride");
  BAD(p.o.stride_row = -6, "o has a negative stride");
  BAD(p.k.stride_row = INT64_MAX, "k has a stride that is too large");
  BAD(p.o.stride_row = 5, "o is written");
  BAD(p.o.stride_row = 0, "o is written");
  BAD(p.o.stride_head = 29, "o is written");
  BAD(p.o.stride_batch = 119, "o is written");
  BAD_BACK(p.dq.stride_row = 7, "dq is written");
  BAD_BACK(p.dk.stride_head = 0, "dk is written");
  BAD_BACK(p.dv.stride_batch = 1, "dv is written");
  BAD_BACK(p.o.stride_row = 0, NULL); /* O is read by the backward pass */
  BAD((p.o.stride_head = 6, p.o.stride_row = 24, p.o.stride_batch = 120),
      NULL); /* [batch][rows][heads][dim] */
  BAD((p.o.stride_head = 6, p.o.stride_row = 23), "o is written");
  BAD(p.q.data = (char *)p.q.data + 2, "q does not begin at a multiple");
  BAD(p.o.data = (char *)p.o.data + 1, "o does not begin at a multiple");
  BAD_BACK(p.dv.data = (char *)p.dv.data + 3, "dv does not begin at a multiple");
  BAD(p.lse = (float *)(void *)((char *)p.lse + 2), "lse does not begin at a multiple");
  BAD((p.dtype = p.dtype_out = FA_FP16, p.q.data = (char *)p.q.data + 2), NULL);
  BAD((p.dtype = FA_FP16, p.o.data = (char *)p.o.data + 2), "o does not begin at a multiple");
  BAD((p.batch = 1, p.o.stride_batch = 0), NULL); /* a dimension of 1 may have any stride */
}
END_TEST

/* One buffer [batch][rows][3][heads][dim] for dQ, dK and dV, as where one product makes Q, K and V; and how it may not be. */
static fa_problem_t in_one_buffer(void) {
  enum { ROWS = 5, HEADS = 4, DIM = 8, ROW = 3 * HEADS * DIM };
  static float buffer[2 * ROWS * ROW], all_lse[2 * HEADS * ROWS];
  fa_problem_t p = good();
  p.heads_kv = HEADS;
  p.seq_k = ROWS;
  p.head_dim_v = DIM;
  p.lse = all_lse;
  fa_tensor_t *parts[3] = {&p.dq, &p.dk, &p.dv};
  for (int n = 0; n < 3; n++) *parts[n] = (fa_tensor_t){buffer + n * HEADS * DIM, ROWS * ROW, DIM, ROW};
  static float k[2 * HEADS * ROWS * DIM], v[2 * HEADS * ROWS * DIM], o[2][2 * HEADS * ROWS * DIM];
  p.k = p.v = p.o = p.d_o = (fa_tensor_t){k, HEADS * ROWS * DIM, ROWS * DIM, DIM};
  p.v.data = v;
  p.o.data = o[0];
  p.d_o.data = o[1];
  return p;
}

START_TEST(shared_memory_of_tensors) {
  BAD(p.o.data = p.q.data, "o is written, but shares memory with q");
  BAD(p.o.data = p.k.data, "o is written, but shares memory with k");
  BAD(p.o.data = p.v.data, "with v");
  BAD(p.lse = some_q[0] + Q - 1, "lse is written, but shares memory with q");
  BAD(p.lse = some_o[0], "o is written, but shares memory with lse");
  BAD(p.q.data = p.k.data = p.v.data, NULL);                /* inputs may share all they like */
  BAD(p.d_o.data = p.dq.data = p.dk.data = p.o.data, NULL); /* forward has none of these */
  BAD_BACK(p.d_o.data = p.o.data, NULL);
  BAD_BACK(p.dk.data = p.dv.data, "dk is written, but shares memory with dv");
  BAD_BACK(p.dq.data = p.q.data, "dq is written, but shares memory with q");
  BAD_BACK(p.dv.data = p.d_o.data, "dv is written, but shares memory with do");
  BAD_BACK(p.dk.data = p.lse, "dk is written, but shares memory with lse");
  /* one element in common, at either end; and none */
  BAD_BACK((p.dq.data = some_k[1] + K / 2 - 1, p.seq_q = 1, p.batch = 1),
           "dq is written, but shares memory with dk");
  BAD_BACK(p.dk.data = some_k[0] + K - 1, "dk is written, but shares memory with k");
  BAD_BACK(p.dk.data = some_k[0] + K, NULL);
  /* a broadcast row of 6, with and without one of dQ's elements; dQ has gaps of one row after each */
  BAD_BACK((p.d_o = (fa_tensor_t){some_q[1] + Q - 1, 0, 0, 0}), "dq is written, but shares memory with do");
  BAD_BACK((p.d_o = (fa_tensor_t){some_q[1] + 8, 0, 0, 0}, p.batch = 1, p.heads_q = p.heads_kv = 2,
            p.dq.stride_row = 16, p.dq.stride_head = 80),
           NULL);
  /* nothing is shared with what has no elements */
  BAD_BACK((p.seq_k = 0, p.dk.data = p.dv.data = p.dq.data), NULL);
  fa_problem_t p = in_one_buffer();
  expect(&p, FA_BACKWARD, NULL);
  p.q = p.dq; /* Q, K and V in one buffer as well, and not in the same */
  expect(&p, FA_BACKWARD, "dq is written, but shares memory with q");
  p = in_one_buffer();
  p.dv.data = p.dk.data;
  expect(&p, FA_BACKWARD, "dk is written, but shares memory with dv");
}
END_TEST

/* --- helpers of fa.h ---------------------------------------------------------------------------------- */

/* The picture beside `causal`, and the general rule from both sides. */
START_TEST(visible_keys) {
  fa_problem_t p = {.batch = 1, .seq_q = 2, .seq_k = 5, .causal = true};
  ck_assert_int_eq(fa_visible(&p, 5, 0), 4);
  ck_assert_int_eq(fa_visible(&p, 5, 1), 5);
  p.seq_q = 4, p.seq_k = 2;
  static const int64_t seen[4] = {0, 0, 1, 2};
  for (int i = 0; i < 4; i++) ck_assert_int_eq(fa_visible(&p, 2, i), seen[i]);
  for (p.seq_q = 0; p.seq_q < 7; p.seq_q++)
    for (p.seq_k = 0; p.seq_k < 7; p.seq_k++)
      for (int causal = 0; causal < 2; causal++)
        for (int64_t j = 0; j < p.seq_k; j++) {
          p.causal = causal;
          int64_t first = fa_first_query(&p, p.seq_k, j);
          for (int64_t i = 0; i < p.seq_q; i++) {
            bool sees = !causal || j <= i + (p.seq_k - p.seq_q);
            ck_assert_int_eq(j < fa_visible(&p, p.seq_k, i), sees);
            ck_assert_int_eq(i >= first, sees);
          }
        }
}
END_TEST

START_TEST(valid_keys) {
  static const int32_t kv_len[4] = {-3, 0, 5, 100};
  fa_problem_t p = {.batch = 4, .seq_k = 9};
  for (int b = 0; b < 4; b++) ck_assert_int_eq(fa_keys(&p, b), 9);
  p.kv_len = kv_len;
  static const int64_t right[4] = {0, 0, 5, 9};
  for (int b = 0; b < 4; b++) ck_assert_int_eq(fa_keys(&p, b), right[b]);
}
END_TEST

/* bl40: heads 0 .. 5 on two read 0 0 0 1 1 1. */
START_TEST(kv_heads) {
  fa_problem_t p = {.heads_q = 6, .heads_kv = 2};
  for (int h = 0; h < 6; h++) ck_assert_int_eq(fa_kv_head(&p, h), h / 3);
}
END_TEST

/* bl34, bl36: offsets of 2^31 elements and more, grids of more than 65,535 blocks. */
START_TEST(large_offsets) {
  fa_tensor_t t = {NULL, 32 * 257 * 128, 257 * 128, 128};
  ck_assert_int_eq(fa_row(&t, 2046, 31, 256), (int64_t)2047 * 32 * 257 * 128 - 128);
  ck_assert_int_gt(fa_row(&t, 2046, 31, 256), INT32_MAX);
  t = (fa_tensor_t){NULL, 1, 1, (int64_t)1 << 33};
  ck_assert_int_eq(fa_row(&t, 0, 0, 3), (int64_t)3 << 33);
  t = (fa_tensor_t){NULL, 16 * 64, 16 * 64, 64};
  ck_assert_int_eq(fa_row(&t, 65536, 0, 15), (int64_t)65536 * 1024 + 960);
}
END_TEST

START_TEST(names) {
  ck_assert_str_eq(fa_dtype_name(FA_FP32), "fp32");
  ck_assert_str_eq(fa_dtype_name(FA_E4M3), "e4m3");
  ck_assert_str_eq(fa_dtype_name((fa_dtype_t)12), "?");
  ck_assert_str_eq(fa_device_name(FA_CPU), "cpu");
  ck_assert_str_eq(fa_device_name(FA_EMU), "emu");
  ck_assert_str_eq(fa_device_name((fa_device_t)-2), "?");
  ck_assert_float_eq(fa_default_scale(64), 0.125f);
  ck_assert_double_eq_tol(fa_default_scale(128), 1 / sqrt(128), 1e-8);
}
END_TEST

Suite *unit_problem(void) {
  const TTest *const tests[] = {good_ones,        bad_sizes,   bad_types_and_numbers,
                                missing_pointers, bad_strides, shared_memory_of_tensors,
                                visible_keys,     valid_keys,  kv_heads,
                                large_offsets,    names,       NULL};
  return suite_of("the problem", tests);
}
