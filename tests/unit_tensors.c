/* unit_tensors.c - the fences around every array see whatever is written outside it. */
#include "dtype.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const fa_layout_t layouts[3] = {FA_BHND, FA_BNHD, FA_PADDED};
static const int outputs[5] = {FA_O, FA_LSE, FA_DQ, FA_DK, FA_DV};

static fa_problem_t shape(fa_dtype_t dtype) {
  return (fa_problem_t){.batch = 2,
                        .heads_q = 4,
                        .heads_kv = 2,
                        .seq_q = 5,
                        .seq_k = 7,
                        .head_dim = 6,
                        .head_dim_v = 3,
                        .dtype = dtype,
                        .dtype_out = dtype,
                        .scale = 1};
}

/* Which elements of an allocation belong to the tensor? */
static bool *owned(const fa_tensors_t *t, int array, int64_t *total) {
  fa_problem_t p = t->host;
  int64_t size[4], element = (int64_t)fa_dtype_size(fa_array_dtype(&p, array));
  fa_array_size(&p, array, size);
  *total = (int64_t)t->block[array].bytes / element;
  bool *mine = calloc((size_t)*total, 1);
  ck_assert_ptr_nonnull(mine);
  const fa_tensor_t *tensor = fa_array_tensor(&p, array);
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++)
      for (int64_t r = 0; r < size[2]; r++)
        for (int64_t c = 0; c < size[3]; c++) {
          int64_t at = tensor ? fa_row(tensor, b, h, r) + c : (b * size[1] + h) * size[2] + r;
          int64_t n = (int64_t)t->block[array].guard / element + at;
          ck_assert_int_lt(n, *total);
          ck_assert_msg(!mine[n], "two elements of %s share a place", fa_array_name(array));
          mine[n] = true;
        }
  return mine;
}

START_TEST(layouts_are_what_they_say) {
  fa_problem_t p = shape(FA_FP32);
  fa_tensors_t t;
  host_tensors(&t, &p, true, FA_BHND);
  ck_assert_int_eq(t.host.k.stride_row, 6);
  ck_assert_int_eq(t.host.k.stride_head, 7 * 6);
  ck_assert_int_eq(t.host.k.stride_batch, 2 * 7 * 6);
  fa_tensors_free(&t);
  host_tensors(&t, &p, true, FA_BNHD);
  ck_assert_int_eq(t.host.o.stride_head, 3);
  ck_assert_int_eq(t.host.o.stride_row, 4 * 3);
  ck_assert_int_eq(t.host.o.stride_batch, 5 * 4 * 3);
  fa_tensors_free(&t);
  host_tensors(&t, &p, true, FA_PADDED);
  ck_assert_int_gt(t.host.q.stride_row, 6);
  ck_assert_int_gt(t.host.q.stride_head, 5 * t.host.q.stride_row);
  fa_tensors_free(&t);
}
END_TEST

/* Before a run: outputs hold the sentinel everywhere, inputs NaN wherever they do not hold data. */
START_TEST(fences_are_set) {
  for (int l = 0; l < 3; l++)
    for (fa_dtype_t dtype = FA_FP32; dtype <= FA_BF16; dtype++) {
      fa_problem_t p = shape(dtype);
      fa_tensors_t t;
      host_tensors(&t, &p, true, layouts[l]);
      for (int a = 0; a < FA_KV_LEN; a++) {
        int64_t total;
        bool *mine = owned(&t, a, &total), output = false;
        for (int n = 0; n < 5; n++) output = output || outputs[n] == a;
        fa_dtype_t its = fa_array_dtype(&t.host, a);
        for (int64_t n = 0; n < total; n++) {
          float x = fa_load(its, t.block[a].host, n);
          if (output)
            ck_assert_float_eq(x, fa_round_to(its, FA_SENTINEL));
          else
            ck_assert_msg(mine[n] ? isfinite(x) : isnan(x), "%s element %d is %g", fa_array_name(a), (int)n,
                          (double)x);
        }
        free(mine);
      }
      fa_reason_t why = {""};
      ck_assert_int_eq(fa_tensors_guards(&t, &why), FA_OK);
      fa_tensors_free(&t);
    }
}
END_TEST

/* A run never sees what the one before it left in an output. */
START_TEST(outputs_begin_anew) {
  fa_problem_t p = shape(FA_BF16);
  fa_tensors_t t;
  fa_reason_t why = {""};
  host_tensors(&t, &p, true, FA_PADDED);
  for (int k = 0; k < 5; k++) memset(t.block[outputs[k]].host, 0, t.block[outputs[k]].bytes);
  ck_assert_int_eq(fa_tensors_upload(&t, &why), FA_OK);
  for (int k = 0; k < 5; k++) {
    fa_dtype_t its = fa_array_dtype(&t.host, outputs[k]);
    for (int64_t n = 0; n < (int64_t)(t.block[outputs[k]].bytes / fa_dtype_size(its)); n++)
      ck_assert_float_eq(fa_load(its, t.block[outputs[k]].host, n), fa_round_to(its, FA_SENTINEL));
  }
  fa_tensors_free(&t);
}
END_TEST

/* Every single element outside an output: written, it is reported by name; inside, it is not. */
START_TEST(every_stray_write_is_reported) {
  for (int l = 0; l < 3; l++)
    for (fa_dtype_t dtype = FA_FP32; dtype <= FA_FP16; dtype++) {
      fa_problem_t p = shape(dtype);
      fa_tensors_t t;
      host_tensors(&t, &p, true, layouts[l]);
      for (int k = 0; k < 5; k++) {
        int a = outputs[k];
        int64_t total;
        bool *mine = owned(&t, a, &total);
        fa_dtype_t its = fa_array_dtype(&t.host, a);
        for (int64_t n = 0; n < total; n++)
          for (int bad = 0; bad < 2; bad++) {
            fa_reason_t why = {""};
            fa_store(its, t.block[a].host, n, bad ? NAN : 0.0f);
            fa_status_t status = fa_tensors_guards(&t, &why);
            fa_store(its, t.block[a].host, n, FA_SENTINEL);
            ck_assert_msg(status == (mine[n] ? FA_OK : FA_FAILED),
                          "layout %d, %s element %d: status %d, \"%s\"", l, fa_array_name(a), (int)n,
                          (int)status, why.text);
            size_t length = strlen(fa_array_name(a));
            if (status) ck_assert(!strncmp(why.text, fa_array_name(a), length) && why.text[length] == ':');
          }
        free(mine);
      }
      fa_tensors_free(&t);
    }
}
END_TEST

START_TEST(kv_len_is_copied) {
  static const int32_t kv_len[2] = {3, -1};
  fa_problem_t p = shape(FA_FP32);
  fa_tensors_t t;
  p.kv_len = kv_len;
  host_tensors(&t, &p, false, FA_BHND);
  ck_assert_ptr_ne(t.host.kv_len, kv_len);
  ck_assert_int_eq(t.host.kv_len[0], 3);
  ck_assert_int_eq(t.host.kv_len[1], -1);
  ck_assert_ptr_null(t.host.d_o.data);
  ck_assert(isnan(load_at(&t.host, FA_K, 0, 1, 3, 0))); /* beyond kv_len */
  ck_assert(isfinite(load_at(&t.host, FA_K, 0, 1, 2, 0)));
  fa_tensors_free(&t);
}
END_TEST

/* bl35: memory that is not there is refused with the bytes, and nothing stays behind (see the leak checker). */
START_TEST(too_much_memory) {
  fa_problem_t p = shape(FA_FP32);
  p.seq_q = (int64_t)1 << 46;
  fa_tensors_t t;
  fa_reason_t why = {""};
  ck_assert_int_eq(fa_tensors_new(&t, &p, true, FA_BHND, &fa_machine_cpu, &why), FA_REFUSED);
  ck_assert_ptr_nonnull(strstr(why.text, "bytes"));
  ck_assert_ptr_null(t.block[FA_Q].host);
  p.heads_kv = 3;
  ck_assert_int_eq(fa_tensors_new(&t, &p, true, FA_BHND, &fa_machine_cpu, &why), FA_INVALID);
  void *memory;
  ck_assert_int_eq(fa_machine_cpu.alloc(&memory, (size_t)1 << 60, &why), FA_REFUSED);
  ck_assert_ptr_null(memory);
  ck_assert_int_eq(fa_machine_cpu.alloc(&memory, 0, &why), FA_OK);
  ck_assert_ptr_nonnull(memory);
  ck_assert_uint_eq((uintptr_t)memory % 256, 0);
  fa_machine_cpu.release(memory);
}
END_TEST

Suite *unit_tensors(void) {
  const TTest *const tests[] = {layouts_are_what_they_say,
                                fences_are_set,
                                every_stray_write_is_reported,
                                outputs_begin_anew,
                                kv_len_is_copied,
                                too_much_memory,
                                NULL};
  return suite_of("tensors and fences", tests);
}
