/* suite_addresses.c - bl34, bl35: offsets past 2^31 elements, and a score matrix that fits nowhere. */
#define _GNU_SOURCE
#include "run_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* --- far apart: strides past 2^31 elements, in memory that is only reserved ------------------------- */

typedef struct region {
  void *start;
  size_t bytes;
} region_t;

/* Moves one array of `t` to a reserved region in which `dim` (0 batch, 1 head, 2 row) has a stride of more
 * than 2^31 elements; only the pages that hold rows are ever touched. */
static bool spread(fa_tensors_t *t, int array, int dim, region_t *region) {
  int64_t size[4];
  fa_array_size(&t->host, array, size);
  fa_tensor_t *tensor = fa_array_tensor(&t->host, array), far = *tensor;
  const int64_t stride = ((int64_t)1 << 31) + 4096;
  *(dim == 0 ? &far.stride_batch : dim == 1 ? &far.stride_head : &far.stride_row) = stride;
  int64_t reach = fa_row(&far, size[0] - 1, size[1] - 1, size[2] - 1) + size[3];
  size_t element = fa_dtype_size(fa_array_dtype(&t->host, array));
  region->bytes = (size_t)reach * element;
  region->start =
      mmap(NULL, region->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region->start == MAP_FAILED) return false;
  far.data = region->start;
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++)
      for (int64_t r = 0; r < size[2]; r++)
        memcpy((char *)far.data + (size_t)fa_row(&far, b, h, r) * element,
               (char *)tensor->data + (size_t)fa_row(tensor, b, h, r) * element, (size_t)size[3] * element);
  *tensor = far;
  fa_array_tensor(&t->dev, array)->data = far.data;
  *fa_array_tensor(&t->dev, array) = far;
  return true;
}

/* Runs t as it stands, without fa_tensors_run: what was moved is not in its blocks any more. */
static bool run_in_place(const subject_t *s, fa_tensors_t *t, const char *what, report_t *r) {
  fa_reason_t why = {""};
  fa_status_t status = fa_tensors_workspace(t, s->step, &why);
  if (!status) status = fa_stage_run(s->stage, s->step, &t->dev, FA_FORWARD, s->device, &why);
  if (!status && t->backward) status = fa_stage_run(s->stage, s->step, &t->dev, FA_BACKWARD, s->device, &why);
  if (status) wrong(r, "%s, step %s: %s: %s", s->stage->name, s->step->name, what, why.text);
  return !status;
}

static void far_apart(const subject_t *s, bool backward, report_t *r) {
  static const char *const names[3] = {"batch stride past 2^31", "head stride past 2^31",
                                       "row stride past 2^31"};
  fa_pass_t pass = backward ? FA_BACKWARD : FA_FORWARD;
  const instance_t *i = supported_instance(s, pass, SMALL, r);
  if (!i) return;
  fa_problem_t p = instance_problem(i);
  p.batch = p.heads_q = p.heads_kv = 2;
  p.seq_q = p.seq_k = 3;
  for (int dim = 0; dim < 3; dim++) {
    fa_tensors_t t;
    region_t regions[FA_ARRAYS];
    int used = 0, arrays[5], count = output_arrays(backward, arrays);
    copy_t packed[5] = {{0}};
    if (!make_tensors(s, &p, FA_BHND, backward, names[dim], &t, r)) return;
    bool ok = fill_random(&t, "normal", 34, r) && run(s, &t, names[dim], r), room = true;
    for (int a = 0; a < count && ok; a++) packed[a] = copy_of(&t, arrays[a]);
    for (int a = 0; a < FA_ARRAYS && ok && room; a++)
      if (t.block[a].host && fa_array_tensor(&t.host, a)) room = spread(&t, a, dim, &regions[used++]);
    if (!room) {
      used--;
      not_run(r, "%s: not enough address space", names[dim]);
    } else if (ok && run_in_place(s, &t, names[dim], r))
      for (int a = 0; a < count; a++) {
        copy_t apart = copy_of(&t, arrays[a]);
        same_bits(&packed[a], &apart, arrays[a], names[dim], r);
        free_copy(&apart);
      }
    for (int a = 0; a < count; a++) free_copy(&packed[a]);
    while (used > 0) {
      used--;
      munmap(regions[used].start, regions[used].bytes);
    }
    fa_tensors_free(&t);
  }
}

static void far_apart_forward(const subject_t *s, report_t *r) {
  far_apart(s, false, r);
}

static void far_apart_backward(const subject_t *s, report_t *r) {
  far_apart(s, true, r);
}

/* --- bl34 for real: more than 2^31 elements in every tensor ----------------------------------------- */

static void many_elements(const subject_t *s, bool backward, report_t *r) {
  fa_problem_t p = {.batch = 2047,
                    .heads_q = 32,
                    .heads_kv = 32,
                    .seq_q = 257,
                    .seq_k = 257,
                    .head_dim = 128,
                    .head_dim_v = 128,
                    .dtype = FA_FP16,
                    .dtype_out = FA_FP16,
                    .scale = fa_default_scale(128)};
  fa_pass_t pass = backward ? FA_BACKWARD : FA_FORWARD;
  fa_reason_t why = {""};
  if (fa_stage_supports(s->stage, s->step, &p, pass, s->device, &why)) {
    not_run(r, "refused: %s", why.text);
    return;
  }
  fa_tensors_t big, one;
  fa_problem_t single = p;
  single.batch = single.heads_q = single.heads_kv = 1;
  if (!make_tensors(s, &single, FA_BHND, backward, "one slice", &one, r)) return;
  int arrays[5], count = output_arrays(backward, arrays);
  const int inputs[4] = {FA_Q, FA_K, FA_V, FA_DO};
  if (fa_tensors_new(&big, &p, backward, FA_BHND, s->machine, &why))
    not_run(r, "2^31 elements: %s", why.text);
  else {
    bool ok = fill_random(&one, "normal", 34, r) && run(s, &one, "one slice", r);
    for (int n = 0; n < (backward ? 4 : 3); n++) { /* zeros, and the slice at the very end */
      memset(big.block[inputs[n]].host, 0, big.block[inputs[n]].bytes);
      for (int64_t x = 0; x < p.seq_q; x++)
        for (int64_t c = 0; c < p.head_dim; c++)
          set(&big, inputs[n], p.batch - 1, p.heads_q - 1, x, c, get(&one, inputs[n], 0, 0, x, c));
    }
    ok = ok && run(s, &big, "2^31 elements", r);
    for (int a = 0; a < count && ok; a++)
      for (int64_t x = 0; x < p.seq_q && ok; x++)
        for (int64_t c = 0; c < (arrays[a] == FA_LSE ? 1 : p.head_dim) && ok; c++) {
          double zero = arrays[a] == FA_LSE ? log(257) : 0;
          double first = get(&big, arrays[a], 0, 0, x, c), alone = get(&one, arrays[a], 0, 0, x, c);
          double last = get(&big, arrays[a], p.batch - 1, p.heads_q - 1, x, c);
          double apart = batch_may_show(s) ? tolerance_of(&p) * fmax(1, fabs(alone)) : 0;
          ok = fabs(first - zero) <= 1e-5 * fmax(1, zero) && fabs(last - alone) <= apart;
          if (!ok)
            wrong(r,
                  "%s, step %s: 2^31 elements: %s row %lld: first slice %g (must be %g), last %g (alone %g)",
                  s->stage->name, s->step->name, fa_array_name(arrays[a]), (long long)x, first, zero, last,
                  alone);
        }
    fa_tensors_free(&big);
  }
  fa_tensors_free(&one);
}

static void many_elements_forward(const subject_t *s, report_t *r) {
  many_elements(s, false, r);
}

static void many_elements_backward(const subject_t *s, report_t *r) {
  many_elements(s, true, r);
}

/* --- bl35: N x N scores that no machine can hold ----------------------------------------------------- */

/* The largest whole number in a text. */
static double largest_number(const char *text) {
  double largest = 0;
  for (const char *c = text; *c; c++)
    if (*c >= '0' && *c <= '9' && (c == text || c[-1] != '.')) {
      char *end;
      double x = strtod(c, &end);
      if (x > largest) largest = x;
      c = end - 1;
    }
  return largest;
}

/* A step whose memory grows with seq_q * seq_k must refuse, and name the bytes. */
static void scores_do_not_fit(const subject_t *s, report_t *r) {
  const instance_t *i = supported_instance(s, FA_FORWARD, SMALL, r);
  if (!i) return;
  fa_problem_t p = instance_problem(i);
  p.batch = 8;
  p.heads_q = p.heads_kv = 28;
  p.seq_q = p.seq_k = (int64_t)1 << 20; /* 2.5e14 scores */
  double scores = 8.0 * 28 * 0x1p40;
  fa_reason_t why = {""};
  fa_status_t status = fa_stage_supports(s->stage, s->step, &p, FA_FORWARD, s->device, &why);
  size_t need = status ? 0 : fa_stage_workspace(s->step, &p, FA_FORWARD, s->device);
  if (!status && (double)need < scores) return; /* it does not store them */
  if (!status) {
    fa_tensors_t t = {.host = p, .dev = p, .machine = s->machine};
    status = fa_tensors_workspace(&t, s->step, &why);
    if (!status) fa_tensors_free(&t);
  }
  if (status != FA_REFUSED || !strstr(why.text, "bytes") || !(largest_number(why.text) >= scores))
    wrong(r, "%s, step %s: 2.5e14 scores: must be refused with the bytes named; status %d, \"%s\"",
          s->stage->name, s->step->name, (int)status, why.text);
}

/* More batch items never need less: a size that wraps would. What is refused has no size. */
static void sizes_do_not_wrap(const subject_t *s, report_t *r) {
  static const int64_t sizes[][3] = {/* heads, seq_q, seq_k */
                                     {1 << 30, 1, 1},         {1 << 30, 0, 1},  {1 << 30, 1, 0},
                                     {1, 1 << 29, 1},         {1, 1, 1 << 29},  {1 << 20, 17, 17},
                                     {1 << 16, 1 << 14, 100}, {INT32_MAX, 1, 1}};
  const instance_t *i = supported_instance(s, FA_FORWARD, SHAPE, r);
  if (!i) return;
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
    for (int pass = 0; pass < (s->step->on[s->device]->backward ? FA_PASSES : FA_BACKWARD); pass++) {
      fa_problem_t p = instance_problem(i);
      fa_reason_t why;
      p.kv_len = NULL;
      p.heads_q = p.heads_kv = sizes[n][0];
      p.seq_q = sizes[n][1];
      p.seq_k = sizes[n][2];
      size_t before = 0;
      for (p.batch = 1; p.batch <= (int64_t)1 << 60; p.batch *= 2) {
        const bool supported = !fa_supports(&p, s->step->name, (fa_pass_t)pass, s->device, &why);
        const size_t bytes = fa_workspace_size(&p, s->step->name, (fa_pass_t)pass, s->device);
        if (supported ? bytes < before : bytes > 0)
          return wrong(
              r, "%s, step %s: %lld x %lld heads, %lld queries, %lld keys, %s: a workspace of %zu bytes",
              s->stage->name, s->step->name, (long long)p.batch, (long long)p.heads_q, (long long)p.seq_q,
              (long long)p.seq_k, fa_pass_name((fa_pass_t)pass), bytes);
        if (supported) before = bytes;
      }
    }
}

static const property_t properties[] = {
    {.name = "workspace_sizes", .once = sizes_do_not_wrap},
    {.name = "bl35_scores", .once = scores_do_not_fit},
    {.name = "bl34_strides", .once = far_apart_forward, .devices = BIT(FA_CPU)},
    {.name = "bl34_strides_backward",
     .pass = FA_BACKWARD,
     .once = far_apart_backward,
     .devices = BIT(FA_CPU)},
    {.name = "bl34_elements", .once = many_elements_forward, .devices = BIT(FA_GPU), .tier = SLOW_ON_CARD},
    {.name = "bl34_elements_backward",
     .pass = FA_BACKWARD,
     .once = many_elements_backward,
     .devices = BIT(FA_GPU),
     .tier = SLOW_ON_CARD},
    {.name = NULL}};
const suite_t suite_addresses = {"addresses and sizes past 32 bits", properties};
