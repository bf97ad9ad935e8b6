/* suite_invariants.c - what must hold whatever the numbers are: order of keys, V = 1, linearity, scaling.
 * None of these looks at the oracle. */
#include "run_case.h"

#include <math.h>

static bool is_shape(const instance_t *i) {
  return (i->row->use & SHAPE) != 0;
}

/* A mask names keys by position, so only without one may they change places. */
static bool without_mask(const instance_t *i) {
  return is_shape(i) && !i->row->causal && !i->row->kv_len;
}

/* Key j goes to place (a j + 1) mod n, where a and n have no common factor. */
static int64_t place(int64_t j, int64_t n) {
  int64_t a = n * 5 / 8;
  for (;; a++) {
    int64_t x = a, y = n;
    while (y) {
      int64_t rest = x % y;
      x = y;
      y = rest;
    }
    if (a > 0 && x == 1) return (a * j + 1) % n;
  }
}

/* Row place(j) becomes what row j was; backwards: row j becomes what row place(j) was. */
static void permute(fa_tensors_t *t, int array, bool backwards) {
  copy_t old = copy_of(t, array);
  for (int64_t b = 0; b < old.size[0]; b++)
    for (int64_t h = 0; h < old.size[1]; h++)
      for (int64_t j = 0; j < old.size[2]; j++)
        for (int64_t c = 0; c < old.size[3]; c++) {
          int64_t moved = place(j, old.size[2]);
          set(t, array, b, h, backwards ? j : moved, c, at(&old, b, h, backwards ? moved : j, c));
        }
  free_copy(&old);
}

static void permute_keys(const subject_t *s, const instance_t *i, bool backward, report_t *r) {
  fa_tensors_t t;
  int arrays[5], count = output_arrays(backward, arrays);
  copy_t before[5] = {{0}};
  if (!make_instance(s, i, backward, &t, r)) return;
  bool ok = run(s, &t, i->name, r);
  for (int n = 0; n < count && ok; n++) before[n] = copy_of(&t, arrays[n]);
  permute(&t, FA_K, false);
  permute(&t, FA_V, false);
  ok = ok && run(s, &t, i->name, r);
  for (int n = 0; n < count && ok; n++) {
    if (arrays[n] == FA_DK || arrays[n] == FA_DV) permute(&t, arrays[n], true);
    copy_t after = copy_of(&t, arrays[n]);
    ok = near(&before[n], &after, tolerance_of(&t.host), arrays[n], i->name, r);
    free_copy(&after);
  }
  for (int n = 0; n < count; n++) free_copy(&before[n]);
  fa_tensors_free(&t);
}

static void permute_forward(const subject_t *s, const instance_t *i, report_t *r) {
  permute_keys(s, i, false, r);
}

static void permute_backward(const subject_t *s, const instance_t *i, report_t *r) {
  permute_keys(s, i, true, r);
}

/* The weights of a row sum to 1, or there are none. */
static void v_is_one(const subject_t *s, const instance_t *i, report_t *r) {
  fa_tensors_t t;
  fa_problem_t p = instance_problem(i);
  if (!make_tensors(s, &p, i->row->layout, false, i->name, &t, r)) return;
  if (fill_random(&t, "ones", 21, r) && run(s, &t, i->name, r)) {
    copy_t o = copy_of(&t, FA_O), sum = copy_of(&t, FA_O);
    for (int64_t b = 0; b < p.batch; b++)
      for (int64_t h = 0; h < p.heads_q; h++)
        for (int64_t x = 0; x < p.seq_q; x++)
          for (int64_t c = 0; c < p.head_dim_v; c++)
            sum.x[((b * p.heads_q + h) * p.seq_q + x) * p.head_dim_v + c] =
                fa_visible(&p, fa_keys(&p, b), x) ? 1 : 0;
    near(&sum, &o, tolerance_of(&p), FA_O, i->name, r);
    free_copy(&o);
    free_copy(&sum);
  }
  fa_tensors_free(&t);
}

/* Small integers, so that 2 V1 + V2 is exact in every type. */
static double v1(int64_t b, int64_t h, int64_t r, int64_t c) {
  return (double)((3 * b + 5 * h + 7 * r + c) % 7 - 3);
}
static double v2(int64_t b, int64_t h, int64_t r, int64_t c) {
  return (double)((b + h + 2 * r + 3 * c) % 5 - 1);
}
static double v12(int64_t b, int64_t h, int64_t r, int64_t c) {
  return 2 * v1(b, h, r, c) + v2(b, h, r, c);
}

/* O(2 V1 + V2) = 2 O(V1) + O(V2), and LSE does not know V. */
static void linear_in_v(const subject_t *s, const instance_t *i, report_t *r) {
  element_fn *const values[3] = {v1, v2, v12};
  fa_tensors_t t;
  if (!make_instance(s, i, false, &t, r)) return;
  copy_t o[3] = {{0}}, lse[3] = {{0}};
  bool ok = true;
  for (int n = 0; n < 3 && ok; n++) {
    set_all(&t, FA_V, values[n]);
    ok = run(s, &t, i->name, r);
    o[n] = copy_of(&t, FA_O);
    lse[n] = copy_of(&t, FA_LSE);
  }
  if (ok) {
    int64_t all = o[0].size[0] * o[0].size[1] * o[0].size[2] * o[0].size[3];
    for (int64_t k = 0; k < all; k++) o[0].x[k] = 2 * o[0].x[k] + o[1].x[k];
    near(&o[0], &o[2], 2 * tolerance_of(&t.host), FA_O, i->name, r);
    near(&lse[0], &lse[1], 1e-6, FA_LSE, i->name, r);
    near(&lse[0], &lse[2], 1e-6, FA_LSE, i->name, r);
  }
  for (int n = 0; n < 3; n++) {
    free_copy(&o[n]);
    free_copy(&lse[n]);
  }
  fa_tensors_free(&t);
}

static void multiply(fa_tensors_t *t, int array, double factor) {
  copy_t old = copy_of(t, array);
  for (int64_t b = 0; b < old.size[0]; b++)
    for (int64_t h = 0; h < old.size[1]; h++)
      for (int64_t r = 0; r < old.size[2]; r++)
        for (int64_t c = 0; c < old.size[3]; c++) set(t, array, b, h, r, c, factor * at(&old, b, h, r, c));
  free_copy(&old);
}

/* 2 Q with half the scale gives the same logits; so does -K with the scale's sign turned. */
static void scaled(const subject_t *s, const instance_t *i, report_t *r) {
  fa_tensors_t t;
  if (!make_instance(s, i, false, &t, r)) return;
  copy_t o[2] = {{0}}, lse[2] = {{0}};
  bool ok = true;
  for (int n = 0; n < 2 && ok; n++) {
    ok = run(s, &t, i->name, r);
    o[n] = copy_of(&t, FA_O);
    lse[n] = copy_of(&t, FA_LSE);
    multiply(&t, FA_Q, 2);
    multiply(&t, FA_K, -1);
    t.host.scale = t.dev.scale = -t.host.scale / 2;
  }
  if (ok) {
    near(&o[0], &o[1], tolerance_of(&t.host), FA_O, i->name, r);
    near(&lse[0], &lse[1], 1e-6, FA_LSE, i->name, r);
  }
  for (int n = 0; n < 2; n++) {
    free_copy(&o[n]);
    free_copy(&lse[n]);
  }
  fa_tensors_free(&t);
}

static const property_t properties[] = {
    {.name = "v_is_one", .each = v_is_one, .wants = is_shape},
    {.name = "permute_keys", .each = permute_forward, .wants = without_mask, .one_test = true},
    {.name = "linear_in_v", .each = linear_in_v, .wants = is_shape},
    {.name = "scaled", .each = scaled, .wants = is_shape},
    {.name = "permute_keys_backward",
     .pass = FA_BACKWARD,
     .each = permute_backward,
     .wants = without_mask,
     .one_test = true},
    {.name = NULL}};
const suite_t suite_invariants = {"invariants", properties};
