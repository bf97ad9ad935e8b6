/* modes.c - what the program does with a run that is set up: run it, check it, time it. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"
#include "input.h"

#include <string.h>
#include <sys/resource.h>

/* About this long each pass is repeated. */
#define BENCH_SECONDS 1.0
/* Multiply-adds of the oracle that --bench spends on a check of the same problem; beyond, a smaller one is
 * checked. Some ten seconds on two cores. */
#define CHECK_WORK 1e10
/* Lengths of the smaller problem: whole tiles and the same ragged rest. */
#define SMALL_LENGTH 512

static fa_status_t run_pass(fa_run_t *run, fa_pass_t pass, fa_reason_t *why) {
  fa_tensors_t *t = &run->tensors;
  fa_count_reset();
  run->report.requests = run->machine->kind == FA_EMU && run->options->count;
  if (run->machine->kind == FA_EMU) fa_emu_count_requests(run->options->count);
  fa_status_t status = fa_stage_run(run->stage, run->step, &t->dev, pass, run->machine->kind, why);
  if (!status) status = t->machine->sync(why);
  fa_report_take_count(&run->report, pass);
  return status;
}

fa_status_t fa_run_once(fa_run_t *run, fa_reason_t *why) {
  fa_progress("running");
  fa_status_t status = fa_tensors_upload(&run->tensors, why);
  if (!status) status = run_pass(run, FA_FORWARD, why);
  if (!status && run->tensors.backward) status = run_pass(run, FA_BACKWARD, why);
  if (!status) status = fa_tensors_download(&run->tensors, why);
  if (!status) status = fa_tensors_guards(&run->tensors, why);
  fa_progress(NULL);
  return status;
}

static fa_status_t compare(const fa_problem_t *host, bool backward, fa_comparison_t *c, fa_reason_t *why) {
  fa_expected_t expected;
  fa_progress("computing the oracle");
  fa_status_t status = fa_expected_new(&expected, host, backward, why);
  fa_progress(NULL);
  if (status) return status;
  fa_compare(host, &expected, c);
  fa_expected_free(&expected);
  return c->ok ? FA_OK : fa_say(why, FA_FAILED, "the result is wrong");
}

bool fa_run_is_empty(const fa_run_t *run) {
  const fa_problem_t *p = &run->shape;
  return p->batch == 0 || (p->seq_q == 0 && !(run->options->backward && p->seq_k > 0));
}

fa_status_t fa_run_check(fa_run_t *run, fa_reason_t *why) {
  fa_report_t *r = &run->report;
  if (fa_run_is_empty(run)) {
    if (run->detail)
      fprintf(run->detail, "\nthe problem has no output element: there is nothing to compare\n");
    return FA_OK;
  }
  fa_status_t status = compare(&run->tensors.host, r->backward, &r->comparison, why);
  if (status && status != FA_FAILED) return status;
  r->compared = true;
  if (run->detail) fa_report_check(r, run->detail);
  return status;
}

/* --- bench ----------------------------------------------------------------------------------------- */

/* What the oracle would compute: sampled rows forward; backward needs every row for dK and dV. */
static double oracle_work(const fa_problem_t *p, bool backward) {
  double rows = p->seq_q < FA_SAMPLE_ROWS || backward ? (double)p->seq_q : FA_SAMPLE_ROWS;
  double dims = (double)(p->head_dim + p->head_dim_v) * (backward ? 2 : 1);
  return (double)p->batch * (double)p->heads_q * rows * (double)p->seq_k * dims;
}

static int64_t shorter(int64_t n) {
  return n <= SMALL_LENGTH + 64 ? n : SMALL_LENGTH + n % 64;
}

static int64_t at_most(int64_t n, int64_t most) {
  return n < most ? n : most;
}

enum { SMALL_BATCH = 2 };

/* Two batch items and two groups of heads, so that their strides count too, with shorter sequences. */
static void shrink(fa_problem_t *p, int32_t kv_len[SMALL_BATCH]) {
  int64_t group = p->heads_q / p->heads_kv;
  p->batch = at_most(p->batch, SMALL_BATCH);
  p->heads_kv = at_most(p->heads_kv, 2);
  p->heads_q = group * p->heads_kv;
  p->seq_q = shorter(p->seq_q);
  p->seq_k = shorter(p->seq_k);
  if (!p->kv_len) return;
  for (int64_t b = 0; b < p->batch; b++) kv_len[b] = (int32_t)at_most(p->kv_len[b], p->seq_k);
  p->kv_len = kv_len;
}

double fa_run_oracle_bytes(const fa_run_t *run) {
  const fa_options_t *o = run->options;
  fa_problem_t p = run->shape;
  int32_t kv_len[SMALL_BATCH] = {0};
  if (fa_run_is_empty(run) || (!o->check && !o->bench)) return 0;
  if (!o->check && oracle_work(&p, o->backward) > CHECK_WORK) shrink(&p, kv_len);
  return fa_expected_bytes(&p, o->backward);
}

static fa_status_t check_smaller(fa_run_t *run, const fa_problem_t *p, fa_reason_t *why) {
  fa_tensors_t t;
  bool backward = run->report.backward;
  fa_status_t status = fa_tensors_new(&t, p, backward, FA_BHND, run->machine, why);
  if (status) return status;
  status = fa_fill(&t, run->options->dist, run->options->seed, why);
  if (!status) status = fa_tensors_run(&t, run->stage, run->step, why);
  if (!status) status = compare(&t.host, backward, &run->report.comparison, why);
  fa_tensors_free(&t);
  return status;
}

/* No kernel is timed that was not seen to be right. */
static fa_status_t check_before_timing(fa_run_t *run, fa_reason_t *why) {
  fa_report_t *r = &run->report;
  if (r->compared || fa_run_is_empty(run)) return FA_OK;
  fa_problem_t p = run->shape;
  int32_t kv_len[SMALL_BATCH] = {0};
  bool same = oracle_work(&p, r->backward) <= CHECK_WORK;
  if (!same) shrink(&p, kv_len);
  fa_status_t status =
      same ? compare(&run->tensors.host, r->backward, &r->comparison, why) : check_smaller(run, &p, why);
  if (status && status != FA_FAILED) return status;
  r->compared = same;
  r->compared_smaller = !same;
  if (status) {
    if (run->detail) fa_report_check(r, run->detail);
    return status;
  }
  if (!run->detail) return FA_OK;
  if (same)
    fprintf(run->detail, "checked before timing: this problem%s\n",
            r->comparison.sampled ? ", sampled rows" : "");
  else
    fprintf(run->detail,
            "checked before timing: a smaller problem, for the oracle would take too long on this one "
            "(batch %lld, heads %lld, queries %lld, keys %lld); --check compares this one\n",
            (long long)p.batch, (long long)p.heads_q, (long long)p.seq_q, (long long)p.seq_k);
  return FA_OK;
}

/* Linux forgets the process's peak when told so; elsewhere the peak includes the oracle's memory. */
static void forget_peak(void) {
  FILE *f = fopen("/proc/self/clear_refs", "w");
  if (!f) return;
  fputs("5", f);
  fclose(f);
}

static double peak_bytes(void) {
  struct rusage usage;
#ifdef __APPLE__
  const double unit = 1;
#else
  const double unit = 1024;
#endif
  return getrusage(RUSAGE_SELF, &usage) ? 0 : unit * (double)usage.ru_maxrss;
}

fa_status_t fa_run_bench(fa_run_t *run, fa_reason_t *why) {
  fa_report_t *r = &run->report;
  fa_status_t status = check_before_timing(run, why);
  if (status) return status;
  forget_peak();
  for (int pass = 0; pass < (r->backward ? 2 : 1) && !status; pass++) {
    fa_progress(pass == FA_FORWARD ? "timing forward" : "timing backward");
    status =
        fa_bench(&run->tensors, run->stage, run->step, (fa_pass_t)pass, BENCH_SECONDS, &r->timing[pass], why);
    r->timed[pass] = !status;
  }
  fa_progress(NULL);
  if (status) return status;
  if (run->machine->kind == FA_CPU)
    r->peak_bytes = peak_bytes(); /* elsewhere the step's memory is not here */
  if (run->detail) fa_report_bench(r, run->detail);
  return FA_OK;
}
