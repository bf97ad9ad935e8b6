/* demo.c - `make demo`: all stages on the lecture's workload, as a ladder, and what it teaches. */
#define _POSIX_C_SOURCE 200809L
#include "clock.h"
#include "driver.h"
#include "formulas.h"
#include "ladder.h"

#include <stdlib.h>
#include <string.h>

static void print_help(void) {
  printf("demo - every step of every stage on one problem\n\nusage: build/demo [options]\n");
  fa_options_print(stdout, FA_PROGRAM_DEMO);
  printf("\nThe lecture's workload is the default: 16 heads, seq 1024, head-dim 64, at batch 1.\n");
  printf("Exit status: 0 every step that ran is right; 1 one is wrong; 2 wrong usage; 3 none could run.\n");
}

/* --- the ladder ------------------------------------------------------------------------------------ */

static double both_seconds(const fa_report_t *r) {
  return r->timing[FA_FORWARD].median + r->timing[FA_BACKWARD].median;
}

/* Bytes of main memory that one forward run moved. */
static double moved(const fa_report_t *r) {
  return r->count[FA_FORWARD].hbm_read + r->count[FA_FORWARD].hbm_written;
}

static void print_title(void) {
  printf("  %-22s %-9s %9s %10s %11s %9s %9s %9s %10s\n", "step", "device", "error", "forward", "fwd + bwd",
         "forward", "HBM fwd", "product", "workspace");
  printf("  %-22s %-9s %9s %10s %11s %9s %9s %9s %10s\n", "", "", "of limit", "ms", "ms", "GFLOP/s",
         "counted MB", "GFLOP", "MB");
}

static void print_rung(const fa_rung_t *rung) {
  const fa_report_t *r = &rung->report;
  char name[64], device[16];
  snprintf(name, sizeof name, "%s %s", r->stage->name, r->step->name);
  if (rung->state == FA_NOT_RUN) {
    printf("  %-22s not run: %s\n", name, r->reason.text);
    return;
  }
  snprintf(device, sizeof device, "%s %s", fa_device_name(r->device), fa_dtype_name(r->shape->dtype));
  if (rung->state == FA_WRONG) {
    printf("  %-22s %-9s WRONG: %s\n", name, device, r->reason.text);
    for (int i = 0; i < r->comparison.count; i++)
      if (r->compared && !r->comparison.tensor[i].ok) {
        char line[512];
        fa_verdict_line(&r->comparison.tensor[i], line, sizeof line);
        printf("    %s\n", line);
      }
    return;
  }
  printf("  %-22s %-9s %8.1f%%", name, device, 100 * fa_report_worst_part(&r->comparison));
  if (rung->emulated)
    printf(" %10s", "-");
  else
    printf(" %10.2f", 1e3 * r->timing[FA_FORWARD].median);
  if (r->backward && !rung->emulated)
    printf(" %11.2f", 1e3 * both_seconds(r));
  else
    printf(" %11s", "-");
  if (rung->emulated)
    printf(" %9s", "-");
  else
    printf(" %9.1f", fa_report_rate(r, FA_FORWARD) / 1e9);
  if (r->counted[FA_FORWARD])
    printf(" %10.1f %9.2f", moved(r) / 1e6, r->count[FA_FORWARD].matmul_flop / 1e9);
  else
    printf(" %10s %9s", "-", "-");
  printf(" %10.1f\n", r->workspace_bytes / 1e6);
}

/* --- bytes and FLOP -------------------------------------------------------------------------------- */

/* The formula that a step's count stands beside: tiled if it says how many queries its blocks have. */
static double formula(const fa_report_t *r) {
  const fa_problem_t *p = r->shape;
  if (r->step->bytes) return r->step->bytes(p, FA_FORWARD, r->device);
  return r->step->block_q ? fa_formula_bytes_tiled(p, r->step->block_q(p))
                          : fa_formula_bytes_standard(p, FA_FORWARD, fa_dtype_size(p->dtype_out));
}

static void print_counts(const fa_rung_t *rungs, int count) {
  printf("\nBytes moved forward: counted in the runs above, and by formula\n");
  printf("  %-22s %12s %12s   %s\n", "step", "counted MB", "formula MB", "formula");
  for (int i = 0; i < count; i++) {
    const fa_report_t *r = &rungs[i].report;
    if (rungs[i].state != FA_RIGHT || !r->counted[FA_FORWARD]) continue;
    char name[64], what[64] = "standard: S and P go to memory and back";
    snprintf(name, sizeof name, "%s %s", r->stage->name, r->step->name);
    if (r->step->bytes)
      snprintf(what, sizeof what, "over blocks of keys: O goes to memory and back");
    else if (r->step->block_q)
      snprintf(what, sizeof what, "tiled with B_r = %lld", (long long)r->step->block_q(r->shape));
    printf("  %-22s %12.1f %12.1f   %s\n", name, moved(r) / 1e6, formula(r) / 1e6, what);
  }
}

static void print_growth(const fa_problem_t *shape) {
  static const int64_t blocks[] = {32, 64, 128, 256};
  fa_problem_t p = *shape;
  p.dtype = p.dtype_out = FA_FP32;
  printf("\nHow it grows: forward in fp32 by formula, the same heads and head dim; MB\n");
  printf("  %8s %9s %11s %12s %9s   tiled with blocks of\n", "N", "GFLOP", "S and P", "bytes moved:", "the");
  printf("  %8s %9s %11s %12s %9s", "", "", "occupy", "standard", "least");
  for (int i = 0; i < 4; i++) printf(" %6lld rows", (long long)blocks[i]);
  fputc('\n', stdout);
  for (int64_t n = 1024; n <= 16384; n *= 2) {
    p.seq_q = p.seq_k = n;
    double scores = (double)p.batch * (double)p.heads_q * (double)n * (double)n;
    printf("  %8lld %9.1f %11.1f %12.1f %9.1f", (long long)n, fa_formula_flop(&p, FA_FORWARD) / 1e9,
           2 * 4 * scores / 1e6, fa_formula_bytes_standard(&p, FA_FORWARD, 4) / 1e6,
           fa_formula_bytes_least(&p, FA_FORWARD) / 1e6);
    for (int i = 0; i < 4; i++) printf(" %11.1f", fa_formula_bytes_tiled(&p, blocks[i]) / 1e6);
    fputc('\n', stdout);
  }
  printf(
      "  Both grow with N^2, but a tile of B_r rows divides the traffic: standard moves 16 N^2 bytes a "
      "head,\n"
      "  tiled 8 N^2 d / B_r. So B_r must be well above d / 2, and B_r is what fast memory has room for.\n");
}

/* The lecture's slide 14 beside the same formulas: batch 64 in fp16, forward and backward. */
static void print_lecture(void) {
  fa_problem_t p = {.batch = 64, .heads_q = 16, .heads_kv = 16, .seq_q = 1024, .seq_k = 1024};
  p.head_dim = p.head_dim_v = 64;
  p.dtype = p.dtype_out = FA_FP16;
  double standard =
      fa_formula_bytes_standard(&p, FA_FORWARD, 2) + fa_formula_bytes_standard(&p, FA_BACKWARD, 2);
  double least = fa_formula_bytes_least(&p, FA_FORWARD) + fa_formula_bytes_least(&p, FA_BACKWARD);
  double flop = fa_formula_flop(&p, FA_FORWARD);
  printf("\nThe lecture's slide 14: GPT-2 medium, batch 64, fp16, forward and backward on an A100\n");
  printf("  %-30s %14s %16s\n", "", "standard", "FlashAttention");
  printf("  %-30s %14s %16s\n", "time, printed there", "41.7 ms", "7.3 ms");
  printf("  %-30s %14s %16s\n", "HBM bytes, printed there", "40.3 GB", "4.4 GB");
  printf("  %-30s %11.1f GB %13.1f GB  (right: every tensor once)\n", "HBM bytes, our formulas",
         standard / 1e9, least / 1e9);
  printf("  %-30s %14s %16s\n", "GFLOP, printed there", "66.6", "75.2");
  printf("  %-30s %14.0f %16.0f  (the backward pass recomputes Q K^T)\n", "GFLOP of 6 and 7 products",
         flop / 2 * 6 / 1e9, flop / 2 * 7 / 1e9);
  printf("  The printed 66.6 does not follow from 4 N^2 d per head, which gives %.0f for one forward alone;\n"
         "  the ratios are what to compare.\n",
         flop / 1e9);
}

/* --- words ----------------------------------------------------------------------------------------- */

static const fa_report_t *find(const fa_rung_t *rungs, int count, const char *stage, const char *step) {
  for (int i = 0; i < count; i++)
    if (rungs[i].state == FA_RIGHT && !strcmp(rungs[i].report.stage->name, stage) &&
        !strcmp(rungs[i].report.step->name, step))
      return &rungs[i].report;
  return NULL;
}

/* One step beside standard attention on the same device. */
static void print_beside(const fa_report_t *naive, const fa_report_t *other) {
  bool both = naive->backward && other->backward;
  double a = both ? both_seconds(naive) : naive->timing[FA_FORWARD].median;
  double b = both ? both_seconds(other) : other->timing[FA_FORWARD].median;
  double less = moved(naive) / moved(other);
  char bytes[48] = "about as much", speed[48] = "about as fast here";
  if (less > 1.2) snprintf(bytes, sizeof bytes, "%.1f times less", less);
  if (a / b > 1.2) snprintf(speed, sizeof speed, "%.1f times as fast here", a / b);
  printf("  - `%s` does the same products as standard attention. Forward it moves %.0f MB,\n"
         "    not %.0f (%s); %s it is %s;\n"
         "    it keeps %.1f MB beside its tensors, not %.1f.\n",
         other->step->name, moved(other) / 1e6, moved(naive) / 1e6, bytes,
         both ? "forward and backward" : "forward", speed, other->workspace_bytes / 1e6,
         naive->workspace_bytes / 1e6);
}

/* The claim that the ladder has just shown, or refuted. */
static void print_exact(const fa_rung_t *rungs, int count) {
  int of_state[3] = {0};
  for (int i = 0; i < count; i++) of_state[rungs[i].state]++;
  if (of_state[FA_WRONG]) {
    printf("  - Not every step that ran computes the same attention. Wrong above:");
    const char *separator = " ";
    for (int i = 0; i < count; i++) {
      if (rungs[i].state != FA_WRONG) continue;
      printf("%s%s %s", separator, rungs[i].report.stage->name, rungs[i].report.step->name);
      separator = ", ";
    }
    printf(".\n");
  } else if (of_state[FA_RIGHT]) {
    printf("  - Every step that ran computes the same attention: FlashAttention is exact,\n"
           "    not an approximation.\n");
  }
}

static void print_words(const fa_rung_t *rungs, int count) {
  const fa_report_t *naive = find(rungs, count, "01_naive", "cpu");
  const fa_report_t *others[] = {find(rungs, count, "02_tiled_cpu", "tiled"),
                                 find(rungs, count, "02_tiled_cpu", "fast")};
  printf("\nWhat you have seen\n");
  print_exact(rungs, count);
  for (int i = 0; i < 2; i++)
    if (naive && others[i] && naive->counted[FA_FORWARD] && others[i]->counted[FA_FORWARD])
      print_beside(naive, others[i]);
  printf("  - S and P take four times as much memory for twice the length; the tiled steps\n"
         "    keep only blocks.\n"
         "  - A CPU's caches soften the traffic, so much of the speed above is SIMD and packing.\n"
         "    A GPU does far more arithmetic for each byte that it moves: there the traffic decides.\n");
  printf("Where to go next\n");
  printf("  build/02_tiled_cpu --step worked    the derivation, with numbers that can be followed by head\n");
  printf("  01_naive/README.md                  the first lesson; then 02_tiled_cpu/README.md\n");
  printf("  build/02_tiled_cpu --help           the same program for any shape, with --bench and --count\n");
  printf("  make plot, make check               speed and memory against N; all tests\n\n");
}

static fa_problem_t workload(const fa_options_t *o) {
  fa_options_t with_defaults = *o;
  if (o->batch == FA_UNSET) with_defaults.batch = 1;
  if (o->heads == FA_UNSET) with_defaults.heads = 16;
  if (o->seq == FA_UNSET) with_defaults.seq = o->quick ? 256 : 1024;
  if (o->head_dim == FA_UNSET) with_defaults.head_dim = 64;
  fa_problem_t p = {0};
  fa_setup_sizes(&with_defaults, &p);
  return p;
}

/* Returns the exit status. */
static int climb(const fa_problem_t *p, double start) {
  int steps = 0, done = 0, of_state[3] = {0}, without_device = 0;
  for (int s = 0; fa_stages[s]; s++)
    for (const fa_step_t *step = fa_stages[s]->steps; step->name; step++) steps++;
  fa_rung_t *rungs = calloc((size_t)steps + 1, sizeof *rungs);
  if (!rungs) {
    fprintf(stderr, "demo: no memory\n");
    return FA_REFUSED;
  }
  fa_ladder_t ladder = {0};
  print_title();
  for (int s = 0; fa_stages[s]; s++)
    for (const fa_step_t *step = fa_stages[s]->steps; step->name; step++) {
      fa_rung_t *rung = &rungs[done++];
      fa_ladder_step(&ladder, fa_stages[s], step, p, rung);
      of_state[rung->state]++;
      if (rung->state == FA_NOT_RUN && rung->no_device) without_device++;
      print_rung(rung);
      fflush(stdout);
    }
  printf(
      "  time: median of repeats, or one run where a pass takes long; error: the largest of all tensors\n");
  for (int i = 0; i < done; i++)
    if (rungs[i].state == FA_RIGHT && rungs[i].emulated) {
      printf("  emu: no GPU is here; the emulator ran the same kernels on a smaller problem (1 head, N at "
             "most %d),\n"
             "       checked them for races too, and counted that problem's bytes; its time would mean "
             "nothing\n",
             FA_EMULATED_SEQ);
      break;
    }
  print_counts(rungs, done);
  print_growth(p);
  print_lecture();
  print_words(rungs, done);
  fa_ladder_free(&ladder);
  free(rungs);
  printf("demo: %d steps right, ", of_state[FA_RIGHT]);
  if (of_state[FA_WRONG]) printf("%d WRONG, ", of_state[FA_WRONG]);
  printf("%d not run%s in %.0f s\n", of_state[FA_NOT_RUN],
         !of_state[FA_NOT_RUN]                    ? ""
         : without_device == of_state[FA_NOT_RUN] ? " (no GPU)"
                                                  : " (reasons above)",
         fa_seconds_now() - start);
  return of_state[FA_WRONG] ? FA_FAILED : of_state[FA_RIGHT] ? FA_OK : FA_REFUSED;
}

int main(int argc, char **argv) {
  fa_options_t o;
  fa_reason_t why = {""};
  double start = fa_seconds_now();
  fa_status_t status = fa_options_parse(&o, FA_PROGRAM_DEMO, argc, argv, &why);
  if (!status && o.help) {
    print_help();
    return 0;
  }
  if (!status && o.version) {
    printf("demo %s\n", FA_VERSION);
    return 0;
  }
  fa_problem_t p = workload(&o);
  if (!status) status = fa_problem_check(&p, FA_FORWARD, false, &why);
  if (!status && (p.batch == 0 || p.seq_q == 0))
    status =
        fa_say(&why, FA_INVALID, "--batch and --seq must be at least 1: there is nothing to show otherwise");
  if (!status) status = fa_setup_processor(&o, &why);
  if (status) {
    fprintf(stderr, "demo: %s\n", why.text);
    return (int)status;
  }
  printf("The lecture's workload: batch %lld, heads %lld, seq %lld, head dim %lld\n", (long long)p.batch,
         (long long)p.heads_q, (long long)p.seq_q, (long long)p.head_dim);
  int result = climb(&p, start);
  if (fflush(stdout) || ferror(stdout)) return FA_FAILED;
  return result;
}
