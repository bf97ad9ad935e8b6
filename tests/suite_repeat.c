/* suite_repeat.c - bl50: the same call gives the same bits, however often, however many threads and whatever
 * else is in the batch. */
#include "run_case.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* Times the same call is repeated. In the emulator the order is the same each time; suite_orders.c tries others. */
static int runs_on(fa_device_t device) {
  return device == FA_EMU ? 2 : 20;
}

static bool is_shape(const instance_t *i) {
  return (i->row->use & SHAPE) != 0;
}

/* Runs t again and compares all outputs with the first. */
static bool repeats(const subject_t *s, fa_tensors_t *t, const char *what, int runs, report_t *r) {
  int arrays[5], count = output_arrays(t->backward, arrays);
  copy_t first[5] = {{0}};
  bool ok = run(s, t, what, r);
  for (int a = 0; a < count && ok; a++) first[a] = copy_of(t, arrays[a]);
  for (int n = 1; n < runs && ok; n++) {
    ok = run(s, t, what, r);
    for (int a = 0; a < count && ok; a++) {
      copy_t now = copy_of(t, arrays[a]);
      ok = same_bits(&first[a], &now, arrays[a], what, r);
      free_copy(&now);
    }
  }
  for (int a = 0; a < count; a++) free_copy(&first[a]);
  return ok;
}

static void deterministic(const subject_t *s, bool backward, report_t *r) {
  int ran = 0;
  for (int pair = 0; pair < IN_E4M3; pair++) {
    fa_problem_t p = {.batch = 1,
                      .heads_q = 2,
                      .heads_kv = 2,
                      .seq_q = s->device == FA_EMU ? 100 : 513,
                      .seq_k = s->device == FA_EMU ? 100 : 513,
                      .head_dim = 64,
                      .head_dim_v = 64,
                      .dtype = type_pairs[pair].in,
                      .dtype_out = type_pairs[pair].out,
                      .causal = true,
                      .scale = fa_default_scale(64),
                      .deterministic = true};
    fa_reason_t why;
    if (fa_stage_supports(s->stage, s->step, &p, backward ? FA_BACKWARD : FA_FORWARD, s->device, &why))
      continue;
    fa_tensors_t t;
    if (!make_tensors(s, &p, FA_BHND, backward, "repeated", &t, r)) return;
    if (fill_random(&t, "normal", 50, r)) {
      repeats(s, &t, "repeated", runs_on(s->device), r);
      /* Without the request, atomics may order sums differently, but the result stays right. */
      t.host.deterministic = t.dev.deterministic = false;
      run_right(s, &t, "deterministic not asked for", r);
    }
    fa_tensors_free(&t);
    ran++;
  }
  if (!ran) not_run(r, "the step does not offer head_dim 64, causal, deterministic");
}

static void deterministic_forward(const subject_t *s, report_t *r) {
  deterministic(s, false, r);
}

static void deterministic_backward(const subject_t *s, report_t *r) {
  deterministic(s, true, r);
}

/* Item 0 alone, and item 0 of three. */
static void neighbours(const subject_t *s, const instance_t *i, bool backward, report_t *r) {
  int arrays[5], count = output_arrays(backward, arrays);
  copy_t alone[5] = {{0}};
  bool ok = true;
  for (int batch = 1; batch <= 3 && ok; batch += 2) {
    fa_tensors_t t;
    fa_problem_t p = instance_problem(i);
    p.batch = batch;
    if (!make_tensors(s, &p, i->row->layout, backward, i->name, &t, r)) break;
    ok = fill_random(&t, "normal", 51, r) && run(s, &t, i->name, r);
    for (int a = 0; a < count && ok; a++) {
      copy_t now = copy_of(&t, arrays[a]);
      if (batch == 1)
        alone[a] = now;
      else {
        now.size[0] = 1; /* its item 0 comes first */
        ok = batch_may_show(s) ? near(&alone[a], &now, tolerance_of(&p), arrays[a], i->name, r)
                               : same_bits(&alone[a], &now, arrays[a], i->name, r);
        free_copy(&now);
      }
    }
    fa_tensors_free(&t);
  }
  for (int a = 0; a < count; a++) free_copy(&alone[a]);
}

static void neighbours_forward(const subject_t *s, const instance_t *i, report_t *r) {
  neighbours(s, i, false, r);
}

static void neighbours_backward(const subject_t *s, const instance_t *i, report_t *r) {
  neighbours(s, i, true, r);
}

/* More threads than work, fewer, and one. */
static void thread_counts(const subject_t *s, const instance_t *i, bool backward, report_t *r) {
  fa_tensors_t t;
  if (!make_instance(s, i, backward, &t, r)) return;
#ifdef _OPENMP
  static const int counts[] = {1, 3, 7};
  bool ok = true;
  for (int n = 0; n < 3 && ok; n++) {
    char what[80];
    snprintf(what, sizeof what, "%s, %d threads", i->name, counts[n]);
    omp_set_num_threads(counts[n]);
    if (t.workspace) s->machine->release(t.workspace); /* its size may depend on the number */
    t.workspace = NULL;
    t.workspace_size = 0;
    ok = run_right(s, &t, what, r);
  }
#else
  not_run(r, "this build has no OpenMP");
#endif
  fa_tensors_free(&t);
}

static void threads_forward(const subject_t *s, const instance_t *i, report_t *r) {
  thread_counts(s, i, false, r);
}

static void threads_backward(const subject_t *s, const instance_t *i, report_t *r) {
  thread_counts(s, i, true, r);
}

#define EACH(title, function, way, on)                                                                       \
  { .name = title, .pass = way, .each = function, .wants = is_shape, .one_test = true, .devices = on }
static const property_t properties[] = {
    {.name = "deterministic", .once = deterministic_forward},
    EACH("batch_neighbours", neighbours_forward, FA_FORWARD, 0),
    EACH("threads", threads_forward, FA_FORWARD, BIT(FA_CPU)),
    {.name = "deterministic_backward", .pass = FA_BACKWARD, .once = deterministic_backward},
    EACH("batch_neighbours_backward", neighbours_backward, FA_BACKWARD, 0),
    EACH("threads_backward", threads_backward, FA_BACKWARD, BIT(FA_CPU)),
    {.name = NULL}};
const suite_t suite_repeat = {"repeats, batch neighbours, threads", properties};
