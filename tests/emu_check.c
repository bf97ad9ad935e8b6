/* emu_check.c - the emulator's words for every vector, against the definition's and against those of a GPU. */
#include "emu_check.h"
#include "emu_vectors.h"

#include <stdlib.h>
#include <string.h>

static uint32_t *emulated(const vector_t *v, const uint32_t *in) {
  fa_reason_t why = {""};
  uint32_t *out = malloc(vector_out(v) * sizeof *out);
  ck_assert_ptr_nonnull(out);
  ck_assert_msg(!vector_run(v, &fa_machine_emu, run_wrapper_emu, in, out, &why), "%s: %s", v->name, why.text);
  return out;
}

static void must_be_equal(const vector_t *v, const char *whose, const uint32_t *ours, const uint32_t *right,
                          size_t count, vector_kind_t kind, int out_of_block) {
  int64_t most, at = words_differ(kind, v->ulps, ours, right, count, &most);
  ck_assert_msg(at < 0, "%s: block %d word %d is %08x, by %s it is %08x", v->name, (int)(at / out_of_block),
                (int)(at % out_of_block), ours[at < 0 ? 0 : at], whose, right[at < 0 ? 0 : at]);
}

START_TEST(as_defined) {
  const vector_t *v = &vectors[_i];
  fa_emu_gpu(90, 4);
  uint32_t *in = vector_inputs(v);
  ck_assert_ptr_nonnull(in);
  uint32_t *ours = emulated(v, in), *right = vector_defined(v, in);
  ck_assert_ptr_nonnull(right);
  const wrapper_t *w = &wrappers[v->kernel];
  must_be_equal(v, "definition", ours, right, vector_out(v), w->kind, w->out);
  count_ran(1);
  free(in), free(ours), free(right);
}
END_TEST

/* The least architecture is enough, and on an older one the instruction is not there. */
START_TEST(from_its_architecture_on) {
  static const int archs[] = {75, 80, 86, 89, 90, 100, 120};
  const vector_t *v = &vectors[_i];
  const wrapper_t *w = &wrappers[v->kernel];
  if (v->blocks > 64) return;
  for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
    if (archs[a] < w->sm) continue;
    fa_emu_gpu(archs[a], 4);
    uint32_t *in = vector_inputs(v), *ours = emulated(v, in), *right = vector_defined(v, in);
    must_be_equal(v, "definition", ours, right, vector_out(v), w->kind, w->out);
    free(in), free(ours), free(right);
  }
}
END_TEST

static const vector_t **recorded;
static int recorded_count;

START_TEST(as_a_gpu_does) {
  const vector_t *v = recorded[_i];
  char source[160];
  fa_reason_t why = {""};
  size_t count;
  fa_emu_gpu(90, 4);
  uint32_t *in = vector_inputs(v);
  ck_assert_ptr_nonnull(in);
  uint32_t *ours = emulated(v, in), *words = golden_words(v, ours, &count);
  ck_assert_ptr_nonnull(words);
  uint32_t *right = golden_read(v, digest_of(WORDS, in, vector_in(v)), count, source, &why);
  ck_assert_msg(right != NULL, "%s", why.text);
  vector_kind_t kind = v->digest ? WORDS : wrappers[v->kernel].kind;
  must_be_equal(v, source, words, right, count, kind, v->digest ? (int)count : wrappers[v->kernel].out);
  count_ran(1);
  free(in), free(ours), free(words), free(right);
}
END_TEST

/* --- that the comparison is one ------------------------------------------------------------------------------ */

START_TEST(every_kernel_has_a_vector) {
  for (int k = 0; k < KERNELS; k++) {
    int with = 0;
    for (int i = 0; i < vector_count; i++) with += vectors[i].kernel == k;
    ck_assert_msg(with > 0, "kernel %d", k);
  }
  for (int i = 0; i < vector_count; i++)
    for (int j = 0; j < i; j++) ck_assert_str_ne(vectors[i].name, vectors[j].name);
}
END_TEST

/* One bit of one word: in a number, and in a digest. */
START_TEST(one_bit_is_seen) {
  for (int i = 0; i < vector_count; i++) {
    const vector_t *v = &vectors[i];
    if (v->ulps) continue;
    uint32_t *in = vector_inputs(v), *right = vector_defined(v, in), *wrong = vector_defined(v, in);
    size_t count, at = vector_out(v) - 1;
    wrong[at] = 0x12345; /* not what any of them ends with */
    uint32_t *a = golden_words(v, right, &count), *b = golden_words(v, wrong, &count);
    int64_t most;
    vector_kind_t kind = v->digest ? WORDS : wrappers[v->kernel].kind;
    ck_assert_msg(words_differ(kind, 0, a, b, count, &most) == (int64_t)count - 1, "%s", v->name);
    free(in), free(right), free(wrong), free(a), free(b);
  }
}
END_TEST

START_TEST(distances) {
  static const struct {
    vector_kind_t kind;
    int ulps;
    uint32_t a, b;
    bool differ;
  } pairs[] = {
      {ONE_FP32, 0, 0x3f800000, 0x3f800000, false}, {ONE_FP32, 0, 0x3f800000, 0x3f800001, true},
      {ONE_FP32, 2, 0x3f800000, 0x3f7ffffe, false}, {ONE_FP32, 2, 0x3f800000, 0x3f800003, true},
      {ONE_FP32, 0, 0x7fc00000, 0xffc12345, false}, {ONE_FP32, 9, 0x7fc00000, 0x7f800000, true},
      {ONE_FP32, 0, 0x00000000, 0x80000000, true},  {ONE_FP32, 1, 0x00000000, 0x80000000, false},
      {ONE_FP32, 2, 0x00000001, 0x80000001, false}, {ONE_FP32, 9, 0x7f7fffff, 0xff7fffff, true},
      {TWO_FP16, 0, 0x7e003c00, 0x7fff3c00, false}, {TWO_FP16, 0, 0x3c013c00, 0x3c003c00, true},
      {TWO_FP16, 0, 0x3c003c01, 0x3c003c00, true},  {TWO_BF16, 0, 0x7fc0ffc0, 0x7f817fff, false},
      {ONE_BF16, 0, 0x7f80, 0x7f81, true},          {WORDS, 0, 0x7fc00000, 0xffc00000, true},
  };
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    int64_t most;
    bool differ = words_differ(pairs[i].kind, pairs[i].ulps, &pairs[i].a, &pairs[i].b, 1, &most) == 0;
    ck_assert_msg(differ == pairs[i].differ, "%08x and %08x", pairs[i].a, pairs[i].b);
  }
}
END_TEST

Suite *emu_definition_suite(void) {
  const TTest *const tests[] = {every_kernel_has_a_vector, one_bit_is_seen, distances, NULL};
  Suite *suite = suite_of("wrappers as defined", tests);
  TCase *each = tcase_create("every vector");
  tcase_set_timeout(each, TEST_TIMEOUT);
  tcase_add_loop_test(each, as_defined, 0, vector_count);
  tcase_add_loop_test(each, from_its_architecture_on, 0, vector_count);
  suite_add_tcase(suite, each);
  return suite;
}

Suite *emu_golden_suite(void) {
  recorded = calloc((size_t)vector_count, sizeof *recorded);
  for (int i = 0; recorded && i < vector_count; i++)
    if (golden_exists(&vectors[i])) recorded[recorded_count++] = &vectors[i];
  Suite *suite = suite_create("wrappers as on a GPU");
  TCase *each = tcase_create("every recorded vector");
  tcase_set_timeout(each, TEST_TIMEOUT);
  if (recorded_count) tcase_add_loop_test(each, as_a_gpu_does, 0, recorded_count);
  suite_add_tcase(suite, each);
  return suite;
}

void say_what_was_not_recorded(void) {
  int missing = vector_count - recorded_count;
  if (missing) printf("check_emu: %d of %d vectors were not recorded on a GPU", missing, vector_count);
  for (int i = 0, n = 0; missing < vector_count && i < vector_count; i++)
    if (!golden_exists(&vectors[i])) printf("%s %s", n++ ? "," : ":", vectors[i].name);
  if (missing) printf("; those were compared with definitions only (make record-golden)\n");
  free(recorded);
}
