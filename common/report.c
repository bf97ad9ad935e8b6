/* report.c - a run as text: one header line, a table for each thing that was done, and a last line. */
#include "report.h"
#include "device.h"
#include "formulas.h"

#include <math.h>
#include <string.h>

/* A step that does not tell its block size is put beside the formula for this one. */
#define USUAL_BLOCK_Q 64

void fa_report_header(const fa_report_t *r, FILE *out) {
  const fa_problem_t *p = r->shape;
  fprintf(out, "%s, step %s: batch %lld, heads %lld", r->stage->name, r->step->name, (long long)p->batch,
          (long long)p->heads_q);
  if (p->heads_kv != p->heads_q) fprintf(out, " (kv %lld)", (long long)p->heads_kv);
  if (p->seq_q == p->seq_k)
    fprintf(out, ", seq %lld", (long long)p->seq_q);
  else
    fprintf(out, ", queries %lld, keys %lld", (long long)p->seq_q, (long long)p->seq_k);
  if (p->kv_len) fprintf(out, " (kv-len given)");
  fprintf(out, ", head dim %lld", (long long)p->head_dim);
  if (p->head_dim_v != p->head_dim) fprintf(out, " (values %lld)", (long long)p->head_dim_v);
  fprintf(out, ", %s", fa_dtype_name(p->dtype));
  if (p->dtype_out != p->dtype) fprintf(out, " to %s", fa_dtype_name(p->dtype_out));
  fprintf(out, "%s%s, input %s; on %s: %s\n", p->causal ? ", causal" : "",
          r->backward ? ", forward and backward" : ", forward", r->dist, fa_device_name(r->device),
          r->machine);
}

/* --- check ----------------------------------------------------------------------------------------- */

/* Error as a part of what is allowed; infinite where the error is. */
static double part_of_limit(const fa_verdict_t *v) {
  return v->error == 0 ? 0 : v->error / v->limit;
}

double fa_report_worst_part(const fa_comparison_t *c) {
  double worst = 0;
  for (int i = 0; i < c->count; i++) worst = fmax(worst, part_of_limit(&c->tensor[i]));
  return worst;
}

void fa_report_check(const fa_report_t *r, FILE *out) {
  const fa_comparison_t *c = &r->comparison;
  fprintf(out, "\nagainst the oracle (limit = 2 yardstick + 1e-5 max|oracle|, at least 1e-5)\n");
  fprintf(out, "  %-6s %11s %11s %11s %9s   %-30s %14s %14s\n", "tensor", "error", "yardstick", "limit",
          "of limit", "worst at [batch head row col]", "ours", "right");
  for (int i = 0; i < c->count; i++) {
    const fa_verdict_t *v = &c->tensor[i];
    char yardstick[16] = "-", place[96];
    if (v->array != FA_LSE) snprintf(yardstick, sizeof yardstick, "%.3e", v->yardstick);
    snprintf(place, sizeof place, "%lld %lld %lld %lld", (long long)v->worst[0], (long long)v->worst[1],
             (long long)v->worst[2], (long long)v->worst[3]);
    fprintf(out, "  %-6s %11.3e %11s %11.3e %8.1f%%   %-30s %14.7g %14.7g%s\n", fa_array_name(v->array),
            v->error, yardstick, v->limit, 100 * part_of_limit(v), place, v->ours, v->right,
            v->ok ? "" : "  WRONG");
  }
  if (c->sampled)
    fprintf(out, "  compared: %lld of %lld rows%s in every head\n", (long long)c->row_count,
            (long long)r->shape->seq_q, r->backward ? " and a few keys" : "");
  for (int i = 0; i < c->count; i++)
    if (!c->tensor[i].ok) {
      char line[512];
      fa_verdict_line(&c->tensor[i], line, sizeof line);
      fprintf(out, "  %s\n", line);
    }
}

/* --- count ----------------------------------------------------------------------------------------- */

void fa_report_take_count(fa_report_t *r, fa_pass_t pass) {
  fa_count_t *c = &r->count[pass];
  *c = fa_count_total();
  r->counted[pass] =
      (c->hbm_read > 0 || c->matmul_flop > 0) && (r->device != FA_EMU || fa_emu_counts_bytes());
}

static void count_pass(const fa_report_t *r, fa_pass_t pass, FILE *out) {
  const fa_problem_t *p = r->shape;
  const fa_count_t *c = &r->count[pass];
  double MB = 1e6, GF = 1e9;
  fprintf(out, "\ncounted in one %s run (not time; HBM on a CPU is main memory)\n", fa_pass_name(pass));
  fprintf(out, "  HBM read         %14.3f MB\n", c->hbm_read / MB);
  fprintf(out, "  HBM written      %14.3f MB\n", c->hbm_written / MB);
  fprintf(out, "  HBM both         %14.3f MB\n", (c->hbm_read + c->hbm_written) / MB);
  fprintf(out, "    standard attention %10.3f MB   %s\n",
          fa_formula_bytes_standard(p, pass, fa_dtype_size(p->dtype_out)) / MB,
          pass == FA_FORWARD ? "FlashAttention paper, Algorithm 0: S and P go out and come back"
                             : "FlashAttention paper, Algorithm 3, given P");
  if (pass == FA_FORWARD && !r->step->bytes) {
    int64_t block = r->step->block_q ? r->step->block_q(p) : USUAL_BLOCK_Q;
    fprintf(out, "    tiled              %10.3f MB   blocks of %lld queries%s\n",
            fa_formula_bytes_tiled(p, block) / MB, (long long)block,
            r->step->block_q ? ", as in this step" : "");
    double sram = 4.0 * (double)p->head_dim * (double)block;
    fprintf(
        out,
        "    N^2 d^2 / M        %10.3f MB   Theorem 2 with M = %.0f elements (4 d per query of a block)\n",
        fa_formula_bytes_fa1(p, sram) / MB, sram);
  }
  if (r->step->bytes) {
    double own = r->step->bytes(p, pass, r->device);
    fprintf(out, "    this step's loops  %10.3f MB   block by block over the keys; counted %+.1f%%\n",
            own / MB, 100 * ((c->hbm_read + c->hbm_written) / own - 1));
  }
  fprintf(out, "    the least          %10.3f MB   every input read once, every output written once\n",
          fa_formula_bytes_least(p, pass) / MB);
  fprintf(out, "  product FLOP     %14.6f GFLOP\n", c->matmul_flop / GF);
  fprintf(out, "    charts' formula    %10.6f GFLOP  %s%s\n", fa_formula_flop(p, pass) / GF,
          pass == FA_FORWARD ? "2 Nq Nk (d + dv) heads batch" : "2.5 times forward",
          p->causal ? ", half of it because causal" : "");
  fprintf(out, "    visible pairs only %10.6f GFLOP\n", fa_exact_flop(p, pass) / GF);
  fprintf(out, "  other FLOP       %14.6f GFLOP\n", c->other_flop / GF);
  fprintf(out, "  exponentials     %14.0f\n", c->exp);
  fprintf(out, "  rescaled rows    %14.0f\n", c->rescales);
  if (r->device != FA_EMU) return;
  fprintf(out, "  32-byte sectors  %14.0f   of HBM; %.0f if all requests were contiguous\n", c->sectors,
          c->sectors_least);
  fprintf(out, "  shared memory    %14.3f MB\n", c->shared_bytes / MB);
  fprintf(out, "    passes           %12.0f   over the 32 banks; %.0f of them because of conflicts\n",
          c->shared_waves, c->conflicts);
  fprintf(out, "  barriers         %14.0f\n", c->barriers);
}

/* Beside standard attention that keeps P for its backward pass, as Algorithms 0 and 3 of the FlashAttention paper do:
 * two products forward, four backward. */
static void count_both(const fa_report_t *r, FILE *out) {
  const fa_problem_t *p = r->shape;
  double bytes = 0, flop = 0, standard = 0;
  for (int pass = 0; pass < FA_PASSES; pass++) {
    bytes += r->count[pass].hbm_read + r->count[pass].hbm_written;
    flop += r->count[pass].matmul_flop;
    standard += fa_formula_bytes_standard(p, (fa_pass_t)pass, fa_dtype_size(p->dtype_out));
  }
  double products = fa_formula_flop(p, FA_FORWARD) * 3;
  fprintf(out, "\nforward and backward together, beside standard attention that keeps P (six products)\n");
  fprintf(out, "  HBM both         %14.3f MB; standard attention %.3f MB, %.2f times this\n", bytes / 1e6,
          standard / 1e6, standard / bytes);
  fprintf(out, "  product FLOP     %14.6f GFLOP; standard attention %.6f GFLOP, this is %+.1f%%\n",
          flop / 1e9, products / 1e9, 100 * (flop / products - 1));
}

void fa_report_count(const fa_report_t *r, FILE *out) {
  for (int pass = 0; pass < FA_PASSES; pass++)
    if (r->counted[pass]) count_pass(r, (fa_pass_t)pass, out);
  if (r->counted[FA_FORWARD] && r->counted[FA_BACKWARD] && !r->shape->causal && !r->shape->kv_len)
    count_both(r, out);
  if (r->shape->causal || r->shape->kv_len)
    fprintf(out, "  (of the byte formulas only that of this step's loops looks at causal and kv-len)\n");
}

/* --- bench ----------------------------------------------------------------------------------------- */

double fa_report_rate(const fa_report_t *r, fa_pass_t pass) {
  double seconds = r->timing[pass].median;
  if (!r->timed[pass] || !(seconds > 0)) return 0;
  return (r->shape->kv_len ? fa_exact_flop(r->shape, pass) : fa_formula_flop(r->shape, pass)) / seconds;
}

double fa_report_part_of_peak(const fa_report_t *r, fa_pass_t pass) {
  double most = r->timing[pass].fma_peak * r->timing[pass].median;
  return r->timed[pass] && most > 0 ? fa_exact_flop(r->shape, pass) / most : 0;
}

double fa_report_counted_rate(const fa_report_t *r, fa_pass_t pass) {
  double seconds = r->timing[pass].median;
  return r->timed[pass] && r->counted[pass] && seconds > 0 ? r->count[pass].matmul_flop / seconds : 0;
}

void fa_report_bench(const fa_report_t *r, FILE *out) {
  fprintf(out, "\n  %-8s %12s %12s %12s %8s %10s %12s %10s %8s\n", "pass", "median ms", "min ms", "max ms",
          "repeats", "GFLOP/s", "per counted", "FMA peak", "of peak");
  for (int pass = 0; pass < FA_PASSES; pass++) {
    if (!r->timed[pass]) continue;
    const fa_timing_t *t = &r->timing[pass];
    double rate = fa_report_rate(r, (fa_pass_t)pass), counted = fa_report_counted_rate(r, (fa_pass_t)pass);
    fprintf(out, "  %-8s %12.4f %12.4f %12.4f %8d %10.2f", fa_pass_name((fa_pass_t)pass), 1e3 * t->median,
            1e3 * t->min, 1e3 * t->max, t->repeats, rate / 1e9);
    if (counted > 0)
      fprintf(out, " %12.2f", counted / 1e9);
    else
      fprintf(out, " %12s", "-");
    if (t->fma_peak > 0)
      fprintf(out, " %10.2f %7.1f%%\n", t->fma_peak / 1e9, 100 * fa_report_part_of_peak(r, (fa_pass_t)pass));
    else
      fprintf(out, " %10s %8s\n", "-", "-");
  }
  if (r->shape->kv_len)
    fputs("  GFLOP/s: 2 (d + dv) for each visible pair of query and key (the papers' formula knows no "
          "kv-len),\n"
          "    backward 6 d + 4 dv, over the median.\n",
          out);
  else
    fprintf(out,
            "  GFLOP/s: the papers' 2 Nq Nk (d + dv) heads batch%s, backward 2.5 times, over the median.\n",
            r->shape->causal ? ", half if causal" : "");
  fputs("  per counted: product FLOP that were really done, over the same time.\n"
        "  of peak: FLOP of the visible pairs over what the FMA peak allows in that time.\n",
        out);
  fprintf(out, "  memory: tensors %.1f MB, workspace %.1f MB", r->tensor_bytes / 1e6,
          r->workspace_bytes / 1e6);
  if (r->peak_bytes > 0) fprintf(out, ", peak of the process %.1f MB", r->peak_bytes / 1e6);
  fputc('\n', out);
}

/* --- last line ------------------------------------------------------------------------------------- */

static void last_check(const fa_report_t *r, FILE *out) {
  const char *separator = "";
  for (int i = 0; i < r->comparison.count; i++) {
    const fa_verdict_t *v = &r->comparison.tensor[i];
    if (v->ok == r->comparison.ok) {
      fprintf(out, "%s%s", separator, fa_array_name(v->array));
      separator = ", ";
    }
  }
  if (r->comparison.ok)
    fprintf(out, " right (error at most %.1f%% of the limit)", 100 * fa_report_worst_part(&r->comparison));
  else
    fprintf(out, " wrong");
}

void fa_report_last(const fa_report_t *r, FILE *out) {
  bool checked = r->compared || r->compared_smaller;
  bool failed = r->status || (checked && !r->comparison.ok);
  fprintf(out, "%s %s %s: ", failed ? "FAIL" : checked ? "PASS" : "DONE", r->stage->name, r->step->name);
  if (checked) last_check(r, out);
  if (r->compared_smaller) fputs(" on a smaller problem", out);
  if (r->status && (!checked || r->comparison.ok))
    fprintf(out, "%s%s", checked ? "; " : "", r->reason.text);
  else if (!checked)
    fputs("nothing was compared", out);
  for (int pass = 0; pass < FA_PASSES; pass++) {
    if (!r->timed[pass]) continue;
    const fa_timing_t *t = &r->timing[pass];
    double rate = fa_report_rate(r, (fa_pass_t)pass);
    fprintf(out, "; %s %.4g ms, %.4g GFLOP/s", fa_pass_name((fa_pass_t)pass), 1e3 * t->median, rate / 1e9);
    if (t->fma_peak > 0)
      fprintf(out, ", %.1f%% of FMA peak", 100 * fa_report_part_of_peak(r, (fa_pass_t)pass));
  }
  fputc('\n', out);
}
