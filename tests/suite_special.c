/* suite_special.c - how far NaN and infinity reach, and that what may not be seen never leaks.
 *
 * Forward, a NaN in Q or K reaches exactly the rows that may see it; in V at least those, and at most rows
 * of the same diagonal tile; backward it may spread within the diagonal tile. Stages 01 and 02 are exact. */
#include "run_case.h"

#include <math.h>
#include <string.h>

static bool is_exact(const subject_t *s) {
  return only_tile(s, 64, FA_BACKWARD).keys == 1;
}

/* Are query i and key j computed together: does the tile's last query see the first key of the block that j is in? */
static bool meet(const fa_problem_t *p, tile_t tile, int64_t b, int64_t i, int64_t j) {
  const int64_t end = (i / tile.queries + 1) * tile.queries, last = (end < p->seq_q ? end : p->seq_q) - 1;
  return fa_visible(p, fa_keys(p, b), last) > j / tile.keys * tile.keys;
}

static bool is_shape(const instance_t *i) {
  return (i->row->use & SHAPE) && !(i->row->use & SMALL);
}

/* Where tiles are computed whole, an infinity in V is NaN for rows of the tile that do not see it. */
static bool has_classes(const subject_t *s, const instance_t *i) {
  return is_exact(s) || !i->row->causal;
}

/* Where they are, dS = 0 times Q = -inf is NaN. */
static bool has_no_tiles(const subject_t *s, const instance_t *i) {
  (void)i;
  return is_exact(s);
}

static bool has_tail(const instance_t *i) {
  return i->row->kv_len != NULL;
}

/* Where the bad element sits. Row and column are spread; batch and head are the last that have the row. */
typedef struct place {
  int array;
  int64_t b, h, r, c;
} place_t;

enum { PLACES_PER_ARRAY = 4 };
static bool choose(const fa_problem_t *p, int array, int n, place_t *x) {
  int64_t size[4];
  fa_array_size(p, array, size);
  bool of_keys = array == FA_K || array == FA_V;
  x->array = array;
  x->b = size[0] - 1;
  x->h = size[1] - 1 - n % 2 * (size[1] > 1);
  int64_t rows = of_keys ? fa_keys(p, x->b) : size[2];
  const int64_t spread[PLACES_PER_ARRAY] = {0, rows / 2, rows - 1, rows * 2 / 3};
  x->r = spread[n];
  x->c = (size[3] - 1) * n / (PLACES_PER_ARRAY - 1);
  return rows > 0;
}

/* Does query row i of head h in batch b use the element at x? */
static bool uses(const fa_problem_t *p, const place_t *x, int64_t b, int64_t h, int64_t i) {
  if (b != x->b) return false;
  int64_t visible = fa_visible(p, fa_keys(p, b), i);
  if (x->array == FA_Q || x->array == FA_DO) return h == x->h && i == x->r && visible > 0;
  return fa_kv_head(p, h) == x->h && x->r < visible;
}

/* The tiles of both passes. */
typedef struct tiles {
  tile_t forward, backward;
} tiles_t;

/* May row i of O have a NaN? In V it is multiplied by the 0 of rows that do not see it. */
static bool may_reach_o(const fa_problem_t *p, const place_t *x, const tiles_t *tiles, int64_t b, int64_t h,
                        int64_t i) {
  return uses(p, x, b, h, i) ||
         (x->array == FA_V && b == x->b && fa_kv_head(p, h) == x->h && meet(p, tiles->forward, b, i, x->r));
}

/* May row i of dQ have one? Beside those of O, which D takes along, rows that have a dS = 0 for the key, or P = 0. */
static bool may_reach_dq(const fa_problem_t *p, const place_t *x, const tiles_t *tiles, int64_t b, int64_t h,
                         int64_t i) {
  const bool of_keys = x->array == FA_K || x->array == FA_V;
  return may_reach_o(p, x, tiles, b, h, i) ||
         (of_keys && b == x->b && fa_kv_head(p, h) == x->h && meet(p, tiles->backward, b, i, x->r));
}

static void says(const subject_t *s, const char *name, const place_t *x, const char *what, int array,
                 const int64_t w[4], double got, double clean, report_t *r) {
  wrong(r,
        "%s, step %s, case %s: NaN in %s (head %lld, row %lld, column %lld): %s %s at head %lld, row %lld, "
        "column %lld: %g, without it %g",
        s->stage->name, s->step->name, name, fa_array_name(x->array), (long long)x->h, (long long)x->r,
        (long long)x->c, fa_array_name(array), what, (long long)w[1], (long long)w[2], (long long)w[3], got,
        clean);
}

static bool agree(double a, double b, double tolerance) {
  return a == b || fabs(a - b) <= tolerance * fmax(1, fabs(b));
}

/* What is wrong with one element that must, or may, be NaN; NULL: nothing. */
static const char *fault(bool must, bool may, double now, double before, double tolerance) {
  if (must && !isnan(now)) return "missed it";
  if (agree(now, before, tolerance)) return NULL;
  return !may ? "was reached" : isnan(now) ? NULL : "changed";
}

/* Looks at one array with a row per query: NaN where the place is used, unchanged where it is not. */
static bool query_rows(const subject_t *s, const char *name, const fa_tensors_t *t, const place_t *x,
                       const tiles_t *tiles, int array, const copy_t *clean, report_t *r) {
  const fa_problem_t *p = &t->host;
  bool one_column = x->array == FA_V && array == FA_O, untouched = x->array == FA_V && array == FA_LSE;
  const fa_view_t view = fa_array_view(p, array);
  int64_t w[4];
  for (w[0] = 0; w[0] < clean->size[0]; w[0]++)
    for (w[1] = 0; w[1] < clean->size[1]; w[1]++)
      for (w[2] = 0; w[2] < clean->size[2]; w[2]++) {
        const bool must = !untouched && uses(p, x, w[0], w[1], w[2]);
        const bool may =
            !untouched && (array == FA_DQ ? may_reach_dq : may_reach_o)(p, x, tiles, w[0], w[1], w[2]);
        for (w[3] = 0; w[3] < clean->size[3]; w[3]++) {
          double now = fa_view_load(&view, w[0], w[1], w[2], w[3]),
                 before = at(clean, w[0], w[1], w[2], w[3]);
          const bool column = !one_column || w[3] == x->c;
          const char *what = fault(must && column, may && column, now, before, tolerance_of(p));
          if (!what) continue;
          says(s, name, x, what, array, w, now, before, r);
          return false;
        }
      }
  return true;
}

/* dK and dV: NaN for the keys that a spoiled query sees, unchanged for those that it does not even meet. A NaN in V
 * spoils D, and so dK; P, and so dV, has no part of it. In dO it spoils one column of dV. */
static bool key_rows(const subject_t *s, const char *name, const fa_tensors_t *t, const place_t *x,
                     const tiles_t *tiles, int array, const copy_t *clean, report_t *r) {
  const fa_problem_t *p = &t->host;
  const fa_view_t view = fa_array_view(p, array);
  const bool one_column = x->array == FA_DO && array == FA_DV, untouched = x->array == FA_V && array == FA_DV;
  int64_t group = p->heads_q / p->heads_kv, w[4];
  for (w[0] = 0; w[0] < clean->size[0]; w[0]++)
    for (w[1] = 0; w[1] < clean->size[1]; w[1]++)
      for (w[2] = 0; w[2] < clean->size[2]; w[2]++) {
        bool must = false, may = false;
        const int64_t keys = fa_keys(p, w[0]);
        for (int64_t h = w[1] * group; h < (w[1] + 1) * group && !untouched && w[2] < keys; h++)
          for (int64_t i = 0; i < p->seq_q; i++) {
            must = must || (w[2] < fa_visible(p, keys, i) && uses(p, x, w[0], h, i));
            may = may || (may_reach_o(p, x, tiles, w[0], h, i) && meet(p, tiles->backward, w[0], i, w[2]));
          }
        for (w[3] = 0; w[3] < clean->size[3]; w[3]++) {
          double now = fa_view_load(&view, w[0], w[1], w[2], w[3]),
                 before = at(clean, w[0], w[1], w[2], w[3]);
          const bool column = !one_column || w[3] == x->c;
          const char *what = fault(must && column, may && column, now, before, tolerance_of(p));
          if (!what) continue;
          says(s, name, x, what, array, w, now, before, r);
          return false;
        }
      }
  return true;
}

/* Puts a NaN there, runs, and looks at all outputs. */
static bool reach(const subject_t *s, const char *name, fa_tensors_t *t, const place_t *x,
                  const copy_t *clean, report_t *r) {
  const int64_t d = t->host.head_dim;
  const tiles_t tiles = {only_tile(s, d, FA_FORWARD), only_tile(s, d, FA_BACKWARD)};
  int arrays[5], count = output_arrays(t->backward, arrays);
  double before = get(t, x->array, x->b, x->h, x->r, x->c);
  set(t, x->array, x->b, x->h, x->r, x->c, NAN);
  bool ok = run(s, t, name, r);
  for (int a = 0; a < count && ok; a++) {
    bool of_keys = arrays[a] == FA_DK || arrays[a] == FA_DV;
    if (x->array == FA_DO && (arrays[a] == FA_O || arrays[a] == FA_LSE)) continue;
    ok = (of_keys ? key_rows : query_rows)(s, name, t, x, &tiles, arrays[a], &clean[a], r);
  }
  if (ok && is_exact(s)) ok = right(s, t, name, r); /* exact: the oracle's own NaN, and no other */
  set(t, x->array, x->b, x->h, x->r, x->c, before);
  return ok;
}

static void nan_reach(const subject_t *s, const instance_t *i, bool backward, report_t *r) {
  static const int inputs[4] = {FA_Q, FA_K, FA_V, FA_DO};
  fa_tensors_t t;
  if (!make_instance(s, i, backward, &t, r)) return;
  if (run(s, &t, i->name, r)) {
    int arrays[5], count = output_arrays(backward, arrays);
    copy_t clean[5];
    for (int n = 0; n < count; n++) clean[n] = copy_of(&t, arrays[n]);
    bool ok = true;
    for (int n = 0; n < (backward ? 4 : 3) * PLACES_PER_ARRAY && ok; n += every(s, PLACES_PER_ARRAY + 1)) {
      place_t x;
      if (choose(&t.host, inputs[n / PLACES_PER_ARRAY], n % PLACES_PER_ARRAY, &x))
        ok = reach(s, i->name, &t, &x, clean, r);
    }
    for (int n = 0; n < count; n++) free_copy(&clean[n]);
  }
  fa_tensors_free(&t);
}

/* Two tiles of queries, two blocks of keys, one row more than one each; the first tile does not see the last key:
 *
 *                     block 0   | key Bc         A NaN in query 0 must not reach the last key, one in the last key not the
 *     tile 0          x x x ..  |   .            queries of tile 0. The last query, which sees everything, takes that NaN to
 *     query Br        x x x x x |   x            all of dK, and in K to all of dV. */
static void nan_tiles(const subject_t *s, report_t *r) {
  const tile_t tile = only_tile(s, 32, FA_BACKWARD);
  fa_problem_t p = {.batch = 1,
                    .heads_q = 1,
                    .heads_kv = 1,
                    .seq_q = tile.queries + 1,
                    .seq_k = tile.keys + 1,
                    .head_dim = 32,
                    .head_dim_v = 32,
                    .dtype = FA_FP16,
                    .dtype_out = FA_FP16,
                    .causal = true,
                    .scale = fa_default_scale(32)};
  const place_t places[] = {
      {FA_Q, 0, 0, 0, 31}, {FA_DO, 0, 0, 0, 5}, {FA_K, 0, 0, tile.keys, 0}, {FA_V, 0, 0, tile.keys, 7}};
  fa_tensors_t t;
  fa_reason_t why;
  if (fa_stage_supports(s->stage, s->step, &p, FA_BACKWARD, s->device, &why))
    return not_run(r, "the step does not offer head_dim 32 in fp16");
  if (!make_tensors(s, &p, FA_BHND, true, "nan_tiles", &t, r)) return;
  bool ok = fill_random(&t, "normal", 1, r) && run(s, &t, "nan_tiles", r);
  int arrays[5], count = output_arrays(true, arrays);
  copy_t clean[5];
  for (int n = 0; n < count; n++) clean[n] = copy_of(&t, arrays[n]);
  for (size_t n = 0; n < sizeof places / sizeof *places && ok; n++)
    ok = reach(s, "nan_tiles", &t, &places[n], clean, r);
  for (int n = 0; n < count; n++) free_copy(&clean[n]);
  fa_tensors_free(&t);
}

/* What is exact has no tiles. */
static bool has_tiles(const subject_t *s, const instance_t *i) {
  return !has_no_tiles(s, i);
}

static void nan_forward(const subject_t *s, const instance_t *i, report_t *r) {
  nan_reach(s, i, false, r);
}

static void nan_backward(const subject_t *s, const instance_t *i, report_t *r) {
  nan_reach(s, i, true, r);
}

/* Infinities in Q, K and V: the same class as the oracle everywhere. */
static void infinity(const subject_t *s, const instance_t *i, report_t *r) {
  static const int inputs[3] = {FA_Q, FA_K, FA_V};
  fa_tensors_t t;
  if (!make_instance(s, i, false, &t, r)) return;
  bool ok = true;
  for (int n = 0; n < 3 * PLACES_PER_ARRAY * 2 && ok; n += every(s, 7)) {
    place_t x;
    if (!choose(&t.host, inputs[n / 2 / PLACES_PER_ARRAY], n / 2 % PLACES_PER_ARRAY, &x)) continue;
    double before = get(&t, x.array, x.b, x.h, x.r, x.c);
    set(&t, x.array, x.b, x.h, x.r, x.c, n % 2 ? -INFINITY : INFINITY);
    ok = run_right(s, &t, i->name, r);
    set(&t, x.array, x.b, x.h, x.r, x.c, before);
  }
  fa_tensors_free(&t);
}

/* A query that sees keys, but whose logits are all -inf, is a row without keys: O = 0, LSE = -inf, and it adds
 * nothing to any gradient, not even 0 times its own infinity. */
static void all_minus_infinity(const subject_t *s, const instance_t *i, bool backward, report_t *r) {
  fa_tensors_t t;
  if (!make_instance(s, i, backward, &t, r)) return;
  const fa_problem_t *p = &t.host;
  int64_t b = p->batch - 1, h = p->heads_q - 1, row = p->seq_q - 1; /* the last row sees every key */
  for (int64_t j = 0; j < fa_keys(p, b); j++) set(&t, FA_K, b, fa_kv_head(p, h), j, 0, 0.5);
  set(&t, FA_Q, b, h, row, 0, -INFINITY);
  if (run(s, &t, i->name, r) && right(s, &t, i->name, r)) {
    double o = get(&t, FA_O, b, h, row, 0), lse = get(&t, FA_LSE, b, h, row, 0);
    double dq = backward ? get(&t, FA_DQ, b, h, row, 0) : 0;
    if (o != 0 || lse != -INFINITY || dq != 0)
      wrong(r, "%s, step %s, case %s: a row of logits -inf has O %g, LSE %g, dQ %g", s->stage->name,
            s->step->name, i->name, o, lse, dq);
  }
  fa_tensors_free(&t);
}

static void minus_infinity_forward(const subject_t *s, const instance_t *i, report_t *r) {
  all_minus_infinity(s, i, false, r);
}

static void minus_infinity_backward(const subject_t *s, const instance_t *i, report_t *r) {
  all_minus_infinity(s, i, true, r);
}

/* bl05: whatever lies beyond kv_len, the outputs are the same bits. */
static void set_tail(fa_tensors_t *t, double x) {
  static const int inputs[2] = {FA_K, FA_V};
  for (int n = 0; n < 2; n++) {
    int64_t size[4];
    fa_array_size(&t->host, inputs[n], size);
    for (int64_t b = 0; b < size[0]; b++)
      for (int64_t h = 0; h < size[1]; h++)
        for (int64_t j = fa_keys(&t->host, b); j < size[2]; j++)
          for (int64_t c = 0; c < size[3]; c++) set(t, inputs[n], b, h, j, c, x);
  }
}

static void tail(const subject_t *s, const instance_t *i, bool backward, report_t *r) {
  static const double fillings[4] = {NAN, 0, 777, INFINITY};
  fa_tensors_t t;
  if (!make_instance(s, i, backward, &t, r)) return;
  int arrays[5], count = output_arrays(backward, arrays);
  copy_t first[5];
  bool ok = true;
  for (int n = 0; n < 4 && ok; n++) {
    set_tail(&t, fillings[n]);
    ok = run(s, &t, i->name, r);
    for (int a = 0; a < count; a++) {
      copy_t now = copy_of(&t, arrays[a]);
      if (n == 0)
        first[a] = now;
      else {
        ok = ok && same_bits(&first[a], &now, arrays[a], i->name, r);
        free_copy(&now);
      }
    }
  }
  for (int a = 0; a < count; a++) free_copy(&first[a]);
  fa_tensors_free(&t);
}

static void tail_forward(const subject_t *s, const instance_t *i, report_t *r) {
  tail(s, i, false, r);
}

static void tail_backward(const subject_t *s, const instance_t *i, report_t *r) {
  tail(s, i, true, r);
}

static const property_t properties[] = {
    {.name = "tail", .each = tail_forward, .wants = has_tail, .one_test = true},
    {.name = "nan", .each = nan_forward, .wants = is_shape},
    {.name = "infinity", .each = infinity, .wants = is_shape, .fits = has_classes},
    {.name = "minus_infinity", .each = minus_infinity_forward, .wants = is_shape, .one_test = true},
    {.name = "minus_infinity_backward",
     .pass = FA_BACKWARD,
     .each = minus_infinity_backward,
     .wants = is_shape,
     .fits = has_no_tiles,
     .one_test = true},
    {.name = "tail_backward",
     .pass = FA_BACKWARD,
     .each = tail_backward,
     .wants = has_tail,
     .one_test = true},
    {.name = "nan_backward", .pass = FA_BACKWARD, .each = nan_backward, .wants = is_shape},
    {.name = "nan_tiles", .pass = FA_BACKWARD, .once = nan_tiles, .fits = has_tiles},
    {.name = NULL}};
const suite_t suite_special = {"NaN, infinity and the unused tail", properties};
