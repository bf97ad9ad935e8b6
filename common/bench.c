/* bench.c - see bench.h. */
#define _POSIX_C_SOURCE 200809L
#include "bench.h"
#include "clock.h"
#include "peak.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 3, MOST = 1000 };
/* After each run the FMA peak is measured for a tenth as long, within these limits, in short windows. The
 * best window of all counts: other programs on the same cores only ever lower it, and a peak that is too low
 * would flatter the kernel. */
#define PEAK_PART 0.1
#define PEAK_LEAST 0.02
#define PEAK_MOST 0.2
#define PEAK_WINDOW 0.02

/* A GPU raises its clock under load: it is kept busy this long before the first timed run. */
#define GPU_WARM_UP 0.04

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *x, int n) {
  qsort(x, (size_t)n, sizeof *x, ascending);
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

static double peak_after(double seconds, double best) {
  double wanted = PEAK_PART * seconds;
  wanted = wanted < PEAK_LEAST ? PEAK_LEAST : wanted > PEAK_MOST ? PEAK_MOST : wanted;
  for (double spent = 0; spent < wanted; spent += PEAK_WINDOW) {
    double peak = fa_fma_peak(PEAK_WINDOW);
    best = peak > best ? peak : best;
  }
  return best;
}

static fa_status_t warm_up(fa_tensors_t *t, const fa_stage_t *stage, const fa_step_t *step, fa_pass_t pass,
                           fa_reason_t *why) {
  double least = t->machine->kind == FA_GPU ? GPU_WARM_UP : 0, start = fa_seconds_now();
  fa_status_t status;
  do {
    status = fa_stage_run(stage, step, &t->dev, pass, t->machine->kind, why);
    if (!status) status = t->machine->sync(why);
  } while (!status && fa_seconds_now() - start < least);
  return status;
}

static fa_status_t run_once(fa_tensors_t *t, const fa_stage_t *stage, const fa_step_t *step, fa_pass_t pass,
                            double *seconds, fa_reason_t *why) {
  fa_status_t status = t->machine->flush_cache(why);
  if (!status) status = t->machine->sync(why);
  if (!status) status = t->machine->timer_start(why);
  if (!status) status = fa_stage_run(stage, step, &t->dev, pass, t->machine->kind, why);
  if (!status) status = t->machine->timer_stop(seconds, why);
  if (!status) status = t->machine->sync(why);
  return status;
}

fa_status_t fa_bench(fa_tensors_t *t, const fa_stage_t *stage, const fa_step_t *step, fa_pass_t pass,
                     double seconds, fa_timing_t *timing, fa_reason_t *why) {
  memset(timing, 0, sizeof *timing);
  fa_status_t status = t->machine->timer_start(why); /* a device without time says so before any work */
  if (!status) status = fa_tensors_workspace(t, step, why);
  if (!status) status = warm_up(t, stage, step, pass, why);
  double times[MOST], start = fa_seconds_now();
  bool on_cpu = t->machine->kind == FA_CPU;
  int n = 0;
  while (!status && n < MOST && (n < LEAST || fa_seconds_now() - start < seconds)) {
    status = run_once(t, stage, step, pass, &times[n], why);
    if (status) break;
    if (on_cpu) timing->fma_peak = peak_after(times[n], timing->fma_peak);
    n++;
  }
  if (status) return status;
  timing->median = median(times, n);
  timing->min = times[0]; /* sorted by now */
  timing->max = times[n - 1];
  timing->repeats = n;
  return FA_OK;
}
