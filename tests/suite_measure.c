/* suite_measure.c - what is counted, what is timed, what is shown. No claim about speed is made here. */
#define _GNU_SOURCE
#include "bench.h"
#include "count.h"
#include "formulas.h"
#include "run_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

/* --- counts ------------------------------------------------------------------------------------------ */

/* A shape whose lengths are multiples of every block size in use: nothing is counted twice at an edge. */
static bool counted_problem(const subject_t *s, fa_pass_t pass, bool causal, fa_problem_t *p) {
  const int heads = s->device == FA_EMU ? 1 : 2;
  *p = (fa_problem_t){.batch = heads,
                      .heads_q = heads,
                      .heads_kv = heads,
                      .seq_q = 256,
                      .seq_k = 256,
                      .head_dim = 64,
                      .head_dim_v = 64,
                      .causal = causal,
                      .scale = fa_default_scale(64)};
  fa_reason_t why;
  for (int pair = IN_FP32; pair <= IN_FP16; pair++) {
    p->dtype = type_pairs[pair].in;
    p->dtype_out = type_pairs[pair].out;
    if (!fa_stage_supports(s->stage, s->step, p, pass, s->device, &why)) return true;
  }
  return false;
}

static void is_at_least(const subject_t *s, const char *what, double count, double least, double most,
                        report_t *r) {
  if (count >= least * (1 - 1e-9) && count <= most * (1 + 1e-9)) return;
  wrong(r, "%s, step %s: %s counted as %.6g, must lie in %.6g .. %.6g", s->stage->name, s->step->name, what,
        count, least, most);
}

static void counts(const subject_t *s, bool backward, report_t *r) {
  fa_pass_t pass = backward ? FA_BACKWARD : FA_FORWARD;
  for (int causal = 0; causal < 2; causal++) {
    fa_problem_t p;
    fa_tensors_t t;
    fa_reason_t why = {""};
    if (!counted_problem(s, pass, causal, &p)) {
      not_run(r, "the step does not offer head_dim 64 in fp32 or fp16");
      return;
    }
    if (!make_tensors(s, &p, FA_BHND, backward, "counts", &t, r)) return;
    if (fill_random(&t, "normal", 1, r) && run_right(s, &t, "counts", r)) {
      fa_count_reset();
      if (fa_stage_run(s->stage, s->step, &t.dev, pass, s->device, &why)) wrong(r, "counts: %s", why.text);
      fa_count_t c = fa_count_total();
      double exact = fa_exact_flop(&t.host, pass), pairs = exact / (pass == FA_FORWARD ? 256 : 640);
      /* Full: exactly the products, and one exponential for each score. Causal: no less than what is visible,
       * and no more than whole blocks along the diagonal add (up to 128 keys a row). Rescaling takes an exponential for
       * each row and block of keys, of 32 at least. On a GPU standard attention takes its exponentials for every score,
       * hidden or not, and for whole segments of a row. */
      const double rows = (double)(p.batch * p.heads_q * p.seq_q), blocks = causal ? rows * 128 : 0;
      is_at_least(s, "product FLOP", c.matmul_flop, exact, exact + blocks * (pass == FA_FORWARD ? 256 : 640),
                  r);
      double most_exp = pairs + blocks + rows * 9;
      if (s->device == FA_EMU) most_exp = s->step->bytes ? pairs + blocks + rows * 2 * 256 / 32 : rows * 1024;
      is_at_least(s, "exponentials", c.exp + c.exp_polynomial, pairs, most_exp, r);
      /* 01 computes S again in its backward pass, in fp32: more than the paper's standard attention. */
      double most = fa_formula_bytes_standard(&t.host, pass, 4) * (s->device == FA_EMU ? 3 : 2);
      if (s->step->bytes && !causal) most = 1.03 * s->step->bytes(&t.host, pass, s->device);
      if (s->step->block_q && !backward)
        most = 1.05 * fa_formula_bytes_tiled(&t.host, s->step->block_q(&t.host));
      double least = s->step->bytes && !causal ? most * 0.97 / 1.03 : fa_formula_bytes_least(&t.host, pass);
      is_at_least(s, "bytes", c.hbm_read + c.hbm_written, least, most, r);
      if (!(c.hbm_read > 0 && c.hbm_written > 0 && c.other_flop > 0)) wrong(r, "a count is missing");
    }
    fa_tensors_free(&t);
  }
}

static void counts_forward(const subject_t *s, report_t *r) {
  counts(s, false, r);
}

static void counts_backward(const subject_t *s, report_t *r) {
  counts(s, true, r);
}

/* What is computed is the same however many threads share it, and so is its count. The heads are so many that a step
 * which has smaller blocks for more threads has the same ones here. */
static void counts_threads(const subject_t *s, bool backward, report_t *r) {
#ifdef _OPENMP
  fa_problem_t p;
  fa_tensors_t t;
  fa_count_t count[2];
  fa_reason_t why = {""};
  if (!counted_problem(s, backward ? FA_BACKWARD : FA_FORWARD, true, &p)) {
    not_run(r, "the step does not offer head_dim 64 in fp32 or fp16");
    return;
  }
  p.heads_q = p.heads_kv = 2;
  if (s->device == FA_EMU)
    p.seq_q = p.seq_k = 128;
  else
    p.batch = 8;
  omp_set_num_threads(2); /* the workspace is for as many */
  if (!make_tensors(s, &p, FA_BHND, backward, "counts_threads", &t, r)) return;
  bool ok = fill_random(&t, "normal", 1, r) && run(s, &t, "counts_threads", r);
  for (int threads = 1; threads <= 2 && ok; threads++) {
    omp_set_num_threads(threads);
    fa_count_reset();
    ok = !fa_stage_run(s->stage, s->step, &t.dev, backward ? FA_BACKWARD : FA_FORWARD, s->device, &why);
    if (!ok) wrong(r, "counts_threads: %s", why.text);
    count[threads - 1] = fa_count_total();
  }
  fa_tensors_free(&t);
  if (ok && memcmp(&count[0], &count[1], sizeof *count))
    wrong(r, "%s, step %s: 1 and 2 threads count %.0f and %.0f other FLOP, %.0f and %.0f rescaled rows",
          s->stage->name, s->step->name, count[0].other_flop, count[1].other_flop, count[0].rescales,
          count[1].rescales);
#else
  (void)s, (void)backward;
  not_run(r, "this build has one thread");
#endif
}

static void counts_threads_forward(const subject_t *s, report_t *r) {
  counts_threads(s, false, r);
}

static void counts_threads_backward(const subject_t *s, report_t *r) {
  counts_threads(s, true, r);
}

/* bl11: two rows whose maximum rises with every group of 64 keys. A block of at most as many raises it three times after
 * the first; the halves of `worked` and the blocks of `fast` have 128 keys, and the second raises it. Rows that only fill
 * up a tile are not counted, nor is what standard attention does, which rescales nothing. */
static const instance_t *bl11(const subject_t *s) {
  int count;
  const instance_t *all = all_instances(&count);
  for (int n = 0; n < count; n++) {
    fa_problem_t p = instance_problem(&all[n]);
    fa_reason_t why;
    if (!strcmp(all[n].row->name, "bl11_rising_maximum") &&
        !fa_stage_supports(s->stage, s->step, &p, FA_FORWARD, s->device, &why))
      return &all[n];
  }
  return NULL;
}

static void rescaled_rows(const subject_t *s, report_t *r) {
  const char *step = s->step->name;
  const instance_t *i = bl11(s);
  double rises = !strcmp(step, "worked") || !strcmp(step, "fast") ? 1 : 3;
  if (!strcmp(s->stage->name, "01_naive")) rises = 0;
  if (!strcmp(step, "pipelined")) rises = 0; /* from the last key backwards: the largest comes first */
  fa_tensors_t t;
  if (!i) return not_run(r, "the step offers no type of bl11");
  if (!make_instance(s, i, false, &t, r)) return;
  fa_count_reset();
  if (run(s, &t, i->name, r))
    is_at_least(s, "rescaled rows", fa_count_total().rescales, 2 * rises, 2 * rises, r);
  fa_tensors_free(&t);
}

/* The same problem, 512 pairs in two rows of 64 columns, where all that a step counts beside its products is known. A row's
 * maximum rises with each of four groups of keys, the first time from -inf: an exponential for that, two FLOP, and 64 for
 * O; a logarithm at the end, with one FLOP, and 64 that divide O. */
typedef struct exact_count {
  const char *stage, *step;
  fa_pass_t pass;
  double flop_per_pair, flop_per_row, exp_per_row; /* an exponential for each pair comes to that */
} exact_count_t;
enum { PAIRS = 512, ROWS = 2, COLUMNS = 64, RISES = 4, FINISH = COLUMNS + 1 };
static const exact_count_t exact_counts[] = {
    /* scale, maximum, subtract, add, divide, the factor 1 of P V */
    {"01_naive", "cpu", FA_FORWARD, 6, 1, 1},
    /* five factors; subtract, add, divide; D twice; subtract, multiply */
    {"01_naive", "cpu", FA_BACKWARD, 12, 0, 0},
    /* scale, maximum, subtract, add, divide; two halves, the second of which raises the maximum again: O, l, l1 / l2; m1 - m2 */
    {"02_tiled_cpu", "worked", FA_FORWARD, 5, 2 * (COLUMNS + 4) + 1, 2 + 1},
    /* scale, maximum, subtract, add */
    {"02_tiled_cpu", "online", FA_FORWARD, 4, RISES *(COLUMNS + 2) + FINISH, RISES + 1},
    {"02_tiled_cpu", "tiled", FA_FORWARD, 4, RISES *(COLUMNS + 2) + FINISH, RISES + 1},
    /* two factors, two differences, a product and the scale; D for each of 8 blocks of 32 keys */
    {"02_tiled_cpu", "tiled", FA_BACKWARD, 6, 8 * 2 * COLUMNS, 0}};

/* `fast` computes whole vectors, of 4, 8 or 16 rows as the CPU has them. Two blocks of 128 keys; the second raises O. A block
 * costs each row one exponential and three FLOP; at the end, which only rows that exist have, 1 / l and LSE, and Q was scaled. */
static bool is_of_fast(const fa_count_t *c) {
  for (int lanes = 4; lanes <= 16; lanes *= 2)
    if (c->exp == lanes * (256 + 2) + ROWS &&
        c->other_flop == lanes * (3 * (256 + 2) + COLUMNS) + ROWS * (2 * COLUMNS + 2))
      return true;
  return false;
}

static void exactly(const subject_t *s, report_t *r) {
  const char *stage = s->stage->name, *step = s->step->name;
  const bool fast = !strcmp(stage, "02_tiled_cpu") && !strcmp(step, "fast");
  const instance_t *i = bl11(s);
  int known = 0;
  fa_tensors_t t;
  fa_reason_t why = {""};
  if (!i) return not_run(r, "the step offers no type of bl11");
  if (!make_instance(s, i, s->step->on[s->device]->backward, &t, r)) return;
  bool ok = run(s, &t, i->name, r);
  for (size_t n = 0; n < sizeof exact_counts / sizeof *exact_counts && ok; n++) {
    const exact_count_t *x = &exact_counts[n];
    if (strcmp(x->stage, stage) || strcmp(x->step, step)) continue;
    known++;
    fa_count_reset();
    if (fa_stage_run(s->stage, s->step, &t.dev, x->pass, s->device, &why)) wrong(r, "%s", why.text);
    const double flop = PAIRS * x->flop_per_pair + ROWS * x->flop_per_row, e = PAIRS + ROWS * x->exp_per_row;
    is_at_least(s, x->pass ? "other FLOP, backward" : "other FLOP", fa_count_total().other_flop, flop, flop,
                r);
    is_at_least(s, x->pass ? "exponentials, backward" : "exponentials", fa_count_total().exp, e, e, r);
  }
  if (fast && ok) {
    known++;
    fa_count_reset();
    if (fa_stage_run(s->stage, s->step, &t.dev, FA_FORWARD, s->device, &why)) wrong(r, "%s", why.text);
    const fa_count_t c = fa_count_total();
    if (!is_of_fast(&c))
      wrong(r, "%s, step %s: %.0f exponentials and %.0f other FLOP are of no vector", stage, step, c.exp,
            c.other_flop);
  }
  fa_tensors_free(&t);
  if (ok && !known) not_run(r, "nobody has worked out what this step counts");
}

/* --- bl56: a time is a time --------------------------------------------------------------------------- */

static void bench(const subject_t *s, report_t *r) {
  const instance_t *i = supported_instance(s, FA_FORWARD, SHAPE, r);
  fa_tensors_t t;
  fa_timing_t timing = {0};
  fa_reason_t why = {""};
  if (!i || !make_instance(s, i, false, &t, r)) return;
  if (run(s, &t, i->name, r)) {
    if (fa_bench(&t, s->stage, s->step, FA_FORWARD, 0.05, &timing, &why)) wrong(r, "bench: %s", why.text);
    bool sane = timing.repeats >= 3 && timing.repeats <= 1000 && timing.min > 0 &&
                timing.min <= timing.median && timing.median <= timing.max && isfinite(timing.max);
    if (!sane || (s->device == FA_CPU) != (timing.fma_peak > 0))
      wrong(r, "%s, step %s: %d repeats, min %g, median %g, max %g, peak %g make no sense", s->stage->name,
            s->step->name, timing.repeats, timing.min, timing.median, timing.max, timing.fma_peak);
  }
  fa_tensors_free(&t);
}

/* --- worked examples ---------------------------------------------------------------------------------- */

/* What a step shows must fit a terminal of 100 columns and 60 lines, and be the same each time. */
static bool has_show(const subject_t *s, const instance_t *i) {
  (void)i;
  return s->step->show != NULL;
}

static void show(const subject_t *s, report_t *r) {
  char *text[2] = {NULL, NULL};
  size_t length[2] = {0, 0};
  for (int n = 0; n < 2; n++) {
    FILE *out = open_memstream(&text[n], &length[n]);
    if (!out) return wrong(r, "no memory for a stream");
    s->step->show(out);
    fclose(out);
  }
  size_t lines = 0, width = 0, column = 0;
  for (size_t n = 0; n < length[0]; n++) {
    column = text[0][n] == '\n' ? 0 : column + ((text[0][n] & 0xc0) != 0x80); /* UTF-8: one per character */
    lines += text[0][n] == '\n';
    width = column > width ? column : width;
  }
  if (lines < 3 || lines > 60 || width > 100)
    wrong(r, "%s, step %s shows %zu lines of up to %zu columns", s->stage->name, s->step->name, lines, width);
  if (length[0] != length[1] || memcmp(text[0], text[1], length[0]))
    wrong(r, "%s, step %s shows something else the second time", s->stage->name, s->step->name);
  if (strstr(text[0], "nan")) wrong(r, "%s, step %s shows a NaN", s->stage->name, s->step->name);
  free(text[0]);
  free(text[1]);
}

static const property_t properties[] = {
    {.name = "show", .once = show, .fits = has_show},
    {.name = "counts", .once = counts_forward, .devices = BIT(FA_CPU) | BIT(FA_EMU)},
    {.name = "counts_backward",
     .pass = FA_BACKWARD,
     .once = counts_backward,
     .devices = BIT(FA_CPU) | BIT(FA_EMU)},
    {.name = "counts_threads", .once = counts_threads_forward, .devices = BIT(FA_CPU) | BIT(FA_EMU)},
    {.name = "counts_threads_backward",
     .pass = FA_BACKWARD,
     .once = counts_threads_backward,
     .devices = BIT(FA_CPU) | BIT(FA_EMU)},
    {.name = "rescaled_rows", .once = rescaled_rows, .devices = BIT(FA_CPU) | BIT(FA_EMU)},
    {.name = "exact_counts", .once = exactly, .devices = BIT(FA_CPU)},
    {.name = "bl56_bench", .once = bench, .devices = BIT(FA_CPU) | BIT(FA_GPU)},
    {.name = NULL}};
const suite_t suite_measure = {"counts, times, worked examples", properties};
