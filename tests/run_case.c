/* run_case.c - see run_case.h. */
#include "run_case.h"
#include "dtype.h"
#include "input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Turns a packed [batch][heads][rows][dim] array into [batch][rows][heads][dim], in place. */
static void swap_strides(fa_problem_t *p, int array) {
  fa_tensor_t *t = fa_array_tensor(p, array);
  int64_t size[4];
  fa_array_size(p, array, size);
  t->stride_head = size[3];
  t->stride_row = size[1] * size[3];
}

static void mix_layouts(fa_tensors_t *t) {
  static const int swapped[] = {FA_K, FA_O, FA_DQ, FA_DV};
  for (size_t n = 0; n < sizeof swapped / sizeof *swapped; n++) {
    swap_strides(&t->host, swapped[n]);
    swap_strides(&t->dev, swapped[n]);
  }
}

/* One element further: the guard behind the array has room. */
static void move_array(fa_problem_t *p, int array) {
  fa_tensor_t *t = fa_array_tensor(p, array);
  if (t->data) t->data = (char *)t->data + fa_dtype_size(fa_array_dtype(p, array));
}

bool make_tensors(const subject_t *s, const fa_problem_t *p, int layout, bool backward, const char *what,
                  fa_tensors_t *t, report_t *r) {
  fa_reason_t why = {""};
  fa_layout_t base = layout <= FA_PADDED ? (fa_layout_t)layout : FA_BHND;
  if (fa_tensors_new(t, p, backward, base, s->machine, &why)) {
    wrong(r, "%s, step %s, case %s: no memory for the tensors: %s", s->stage->name, s->step->name, what,
          why.text);
    return false;
  }
  if (layout == MIXED) mix_layouts(t);
  if (layout >= MOVED) {
    move_array(&t->host, layout - MOVED);
    move_array(&t->dev, layout - MOVED);
  }
  return true;
}

bool fill_random(fa_tensors_t *t, const char *dist, uint64_t seed, report_t *r) {
  fa_reason_t why = {""};
  if (!fa_fill(t, dist, seed, &why)) return true;
  wrong(r, "inputs: %s", why.text);
  return false;
}

static void fill_elements(const fa_case_t *row, fa_tensors_t *t) {
  static const int inputs[] = {FA_Q, FA_K, FA_V, FA_DO};
  for (int n = 0; n < (t->backward ? 4 : 3); n++) {
    int64_t size[4];
    fa_array_size(&t->host, inputs[n], size);
    bool of_keys = inputs[n] == FA_K || inputs[n] == FA_V;
    const fa_view_t view = fa_array_view(&t->host, inputs[n]);
#pragma omp parallel for collapse(2) if (WORTH_THREADS(size))
    for (int64_t b = 0; b < size[0]; b++)
      for (int64_t h = 0; h < size[1]; h++) {
        /* Beyond kv_len the NaN stays that a new tensor holds. */
        int64_t rows = of_keys ? fa_keys(&t->host, b) : size[2];
        for (int64_t i = 0; i < rows; i++)
          for (int64_t c = 0; c < size[3]; c++)
            fa_view_store(&view, b, h, i, c, row->element(&t->host, inputs[n], b, h, i, c));
      }
  }
}

bool fill_instance(const instance_t *i, fa_tensors_t *t, report_t *r) {
  if (i->row->element)
    fill_elements(i->row, t);
  else if (!fill_random(t, i->row->dist, i->row->seed, r))
    return false;
  if (i->row->layout == DO_BROADCAST && t->backward) {
    fa_tensor_t *both[] = {&t->host.d_o, &t->dev.d_o};
    for (int n = 0; n < 2; n++) both[n]->stride_batch = both[n]->stride_head = both[n]->stride_row = 0;
  }
  return true;
}

bool make_instance(const subject_t *s, const instance_t *i, bool backward, fa_tensors_t *t, report_t *r) {
  fa_problem_t p = instance_problem(i);
  if (!make_tensors(s, &p, i->row->layout, backward, i->name, t, r)) return false;
  if (fill_instance(i, t, r)) return true;
  fa_tensors_free(t);
  return false;
}

const instance_t *supported_instance(const subject_t *s, fa_pass_t pass, unsigned use, report_t *r) {
  int count;
  const instance_t *all = all_instances(&count);
  for (int n = 0; n < count; n++) {
    fa_problem_t p = instance_problem(&all[n]);
    fa_reason_t why;
    if ((all[n].row->use & use) == use && !fa_stage_supports(s->stage, s->step, &p, pass, s->device, &why))
      return &all[n];
  }
  not_run(r, "no case of this kind is supported");
  return NULL;
}

bool run(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r) {
  fa_reason_t why = {""};
  fa_status_t status = fa_tensors_run(t, s->stage, s->step, &why);
  if (!status) return true;
  wrong(r, "%s, step %s, case %s: status %d: %s", s->stage->name, s->step->name, what, (int)status, why.text);
  return false;
}

bool right(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r) {
  fa_expected_t e;
  fa_reason_t why = {""};
  if (fa_expected_new(&e, &t->host, t->backward, &why)) {
    wrong(r, "case %s: %s", what, why.text);
    return false;
  }
  fa_comparison_t c;
  fa_compare(&t->host, &e, &c);
  for (int n = 0; n < c.count; n++) {
    if (c.tensor[n].ok) continue;
    char line[400];
    fa_verdict_line(&c.tensor[n], line, sizeof line);
    wrong(r, "%s, step %s, case %s: %s", s->stage->name, s->step->name, what, line);
  }
  fa_expected_free(&e);
  return c.ok;
}

bool run_right(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r) {
  return run(s, t, what, r) && right(s, t, what, r);
}

double get(const fa_tensors_t *t, int array, int64_t b, int64_t h, int64_t r, int64_t c) {
  const fa_view_t view = fa_array_view(&t->host, array);
  return fa_view_load(&view, b, h, r, c);
}

void set(fa_tensors_t *t, int array, int64_t b, int64_t h, int64_t r, int64_t c, double x) {
  const fa_view_t view = fa_array_view(&t->host, array);
  fa_view_store(&view, b, h, r, c, x);
}

void set_all(fa_tensors_t *t, int array, element_fn *f) {
  int64_t size[4];
  fa_array_size(&t->host, array, size);
  const fa_view_t view = fa_array_view(&t->host, array);
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++)
      for (int64_t r = 0; r < size[2]; r++)
        for (int64_t c = 0; c < size[3]; c++) fa_view_store(&view, b, h, r, c, f(b, h, r, c));
}

double at(const copy_t *c, int64_t b, int64_t h, int64_t r, int64_t col) {
  return c->x[((b * c->size[1] + h) * c->size[2] + r) * c->size[3] + col];
}

static int64_t elements(const copy_t *c) {
  return c->size[0] * c->size[1] * c->size[2] * c->size[3];
}

copy_t copy_of(const fa_tensors_t *t, int array) {
  copy_t copy = {0};
  fa_array_size(&t->host, array, copy.size);
  copy.x = malloc(sizeof *copy.x * (size_t)elements(&copy) + 1);
  if (!copy.x) abort(); /* a test without memory can only fail */
  const fa_view_t view = fa_array_view(&t->host, array);
  int64_t n = 0;
  for (int64_t b = 0; b < copy.size[0]; b++)
    for (int64_t h = 0; h < copy.size[1]; h++)
      for (int64_t r = 0; r < copy.size[2]; r++)
        for (int64_t c = 0; c < copy.size[3]; c++) copy.x[n++] = fa_view_load(&view, b, h, r, c);
  return copy;
}

void free_copy(copy_t *c) {
  free(c->x);
  c->x = NULL;
}

int output_arrays(bool backward, int arrays[5]) {
  static const int all[5] = {FA_O, FA_LSE, FA_DQ, FA_DK, FA_DV};
  memcpy(arrays, all, sizeof all);
  return backward ? 5 : 2;
}

bool batch_may_show(const subject_t *s) {
  /* cuBLAS chooses its kernel by the number of products in one call. */
  return !strcmp(s->stage->name, "01_naive") && !strcmp(s->step->name, "cublas");
}

/* Says where element n of a copy is. */
static void differs(const copy_t *a, const copy_t *b, int64_t n, int array, const char *what, report_t *r) {
  int64_t dim = a->size[3], rows = a->size[2], heads = a->size[1];
  wrong(r, "%s: %s differs at batch %lld, head %lld, row %lld, column %lld: %.9g and %.9g", what,
        fa_array_name(array), (long long)(n / dim / rows / heads), (long long)(n / dim / rows % heads),
        (long long)(n / dim % rows), (long long)(n % dim), a->x[n], b->x[n]);
}

bool same_bits(const copy_t *a, const copy_t *b, int array, const char *what, report_t *r) {
  for (int64_t n = 0; n < elements(a); n++) {
    bool same = isnan(a->x[n]) ? isnan(b->x[n]) : a->x[n] == b->x[n] && signbit(a->x[n]) == signbit(b->x[n]);
    if (same) continue;
    differs(a, b, n, array, what, r);
    return false;
  }
  return true;
}

bool near(const copy_t *a, const copy_t *b, double tolerance, int array, const char *what, report_t *r) {
  double largest = 1;
  for (int64_t n = 0; n < elements(a); n++)
    if (isfinite(a->x[n])) largest = fmax(largest, fabs(a->x[n]));
  for (int64_t n = 0; n < elements(a); n++) {
    if (a->x[n] == b->x[n]) continue; /* also equal infinities */
    if (fabs(a->x[n] - b->x[n]) <= tolerance * largest) continue;
    differs(a, b, n, array, what, r);
    return false;
  }
  return true;
}

double tolerance_of(const fa_problem_t *p) {
  for (int n = 0; n < TYPE_PAIRS; n++)
    if (type_pairs[n].in == p->dtype) return type_pairs[n].tolerance;
  return 0;
}

bool outputs_untouched(const fa_tensors_t *t) {
  int arrays[5], count = output_arrays(t->backward, arrays);
  for (int n = 0; n < count; n++) {
    fa_dtype_t dtype = fa_array_dtype(&t->host, arrays[n]);
    float sentinel = fa_round_to(dtype, FA_SENTINEL);
    int64_t all = (int64_t)(t->block[arrays[n]].bytes / fa_dtype_size(dtype));
    for (int64_t k = 0; k < all; k++)
      if (!(fa_load(dtype, t->block[arrays[n]].host, k) == sentinel)) return false;
  }
  return true;
}
