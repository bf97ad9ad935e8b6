/* setup.c - from options to a run that is ready: sizes, step, device, memory, data. */
#include "driver.h"
#include "input.h"
#include "simd.h"

#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static int64_t given_or(int64_t value, int64_t otherwise) {
  return value == FA_UNSET ? otherwise : value;
}

void fa_setup_sizes(const fa_options_t *o, fa_problem_t *p) {
  p->batch = given_or(o->batch, 1);
  p->heads_q = given_or(o->heads, 4);
  p->heads_kv = given_or(o->heads_kv, p->heads_q);
  int64_t seq = given_or(o->seq, 256);
  p->seq_q = given_or(o->seq_q, given_or(o->seq, given_or(o->seq_k, seq)));
  p->seq_k = given_or(o->seq_k, given_or(o->seq, given_or(o->seq_q, seq)));
  p->head_dim = given_or(o->head_dim, 64);
  p->head_dim_v = given_or(o->head_dim_v, p->head_dim);
  p->causal = o->causal;
  p->deterministic = o->deterministic;
  p->splits = (int)o->splits;
  p->scale = o->has_scale ? o->scale : fa_default_scale(p->head_dim);
}

fa_status_t fa_setup_processor(const fa_options_t *o, fa_reason_t *why) {
  const char *wrong = fa_isa_wrong();
  if (wrong) return fa_say(why, FA_REFUSED, "%s", wrong);
  if (!o->threads) return FA_OK;
#ifdef _OPENMP
  omp_set_num_threads((int)o->threads);
  return FA_OK;
#else
  if (o->threads == 1) return FA_OK;
  return fa_say(why, FA_REFUSED, "this build has one thread: its compiler has no OpenMP");
#endif
}

/* "N" for every sequence, or "N,N,..." with one for each. */
static fa_status_t read_kv_len(fa_run_t *run, fa_reason_t *why) {
  const char *s = run->options->kv_len;
  int64_t batch = run->shape.batch, n = 0;
  void *memory; /* not malloc, which may promise more than there is */
  fa_status_t status = fa_machine_cpu.alloc(&memory, (size_t)batch * sizeof *run->kv_len, why);
  if (status) return status;
  run->kv_len = memory;
  for (bool more = true; more; n++) {
    int64_t value = 0;
    if (*s < '0' || *s > '9')
      return fa_say(why, FA_INVALID, "--kv-len takes numbers such as 100 or 100,7,256; got \"%.60s\"",
                    run->options->kv_len);
    for (; *s >= '0' && *s <= '9' && value <= INT32_MAX; s++) value = value * 10 + (*s - '0');
    if (value > run->shape.seq_k || value > INT32_MAX)
      return fa_say(why, FA_INVALID, "--kv-len has a number beyond the %lld keys that there are",
                    (long long)run->shape.seq_k);
    if (*s && *s != ',')
      return fa_say(why, FA_INVALID, "--kv-len takes numbers such as 100 or 100,7,256; got \"%.60s\"",
                    run->options->kv_len);
    if (n < batch) run->kv_len[n] = (int32_t)value;
    more = *s++ == ',';
  }
  if (n != 1 && n != batch)
    return batch == 1
               ? fa_say(why, FA_INVALID, "--kv-len has %lld numbers for a batch of 1: give 1", (long long)n)
               : fa_say(why, FA_INVALID, "--kv-len has %lld numbers for a batch of %lld: give 1 or %lld",
                        (long long)n, (long long)batch, (long long)batch);
  for (int64_t b = n; b < batch; b++) run->kv_len[b] = run->kv_len[0];
  run->shape.kv_len = run->kv_len;
  return FA_OK;
}

/* Bytes of all arrays on one side, guards left out. In double: the sum may pass 64 bits. */
static double array_bytes(const fa_problem_t *p, bool backward) {
  double sum = 0;
  for (int a = 0; a < FA_KV_LEN; a++) {
    int64_t size[4];
    fa_array_size(p, a, size);
    if (a >= FA_DO && !backward) continue;
    sum += (double)size[0] * (double)size[1] * (double)size[2] * (double)size[3] *
           (double)fa_dtype_size(fa_array_dtype(p, a));
  }
  return sum;
}

fa_status_t fa_setup_memory(const fa_problem_t *p, bool backward, const fa_step_t *step,
                            const fa_machine_t *machine, double oracle, fa_reason_t *why) {
  const double tensors = array_bytes(p, backward);
  double workspace = (double)fa_stage_workspace(step, p, FA_FORWARD, machine->kind);
  if (backward) {
    double more = (double)fa_stage_workspace(step, p, FA_BACKWARD, machine->kind);
    workspace = more > workspace ? more : workspace;
  }
  const double host = (double)fa_machine_cpu.memory_free(), device = (double)machine->memory_free();
  const double there = tensors + workspace;
  if (machine->kind != FA_CPU && there > device)
    return fa_say(
        why, FA_REFUSED,
        "%.0f bytes of %s memory are wanted (%.3f GB for tensors, %.3f GB for the workspace of step "
        "%s), %.0f are available",
        there, machine->kind == FA_GPU ? "GPU" : "emulated", tensors / 1e9, workspace / 1e9, step->name,
        device);
  /* The oracle comes while all the rest is still there; the emulator's memory, with its shadow, is the host's. */
  double beside = machine->kind == FA_CPU ? workspace : 0;
  if (machine->kind == FA_EMU && there > 0) beside = there * (host / device);
  const double wanted = tensors + beside + oracle;
  if (wanted > host)
    return fa_say(why, FA_REFUSED,
                  "%.0f bytes of memory are wanted (%.3f GB for tensors, %.3f GB for %s %s, %.3f GB for the "
                  "oracle), %.0f are available",
                  wanted, tensors / 1e9, beside / 1e9,
                  machine->kind == FA_EMU ? "the emulator of step" : "the workspace of step", step->name,
                  oracle / 1e9, host);
  return FA_OK;
}

fa_status_t fa_setup(fa_run_t *run, fa_reason_t *why) {
  const fa_options_t *o = run->options;
  fa_report_t *r = &run->report;
  fa_setup_sizes(o, &run->shape);
  fa_status_t status = fa_setup_processor(o, why);
  if (!status && o->load[0]) status = fa_files_load(run, why);
  if (!status) status = fa_problem_check(&run->shape, FA_FORWARD, false, why);
  if (!status) {
    fa_types_asked(run);
    r->shape = &run->shape;
  }
  if (!status && o->kv_len) status = read_kv_len(run, why);
  if (!status) status = fa_choose(run, why);
  if (!status && o->count && run->machine->kind == FA_EMU && !fa_emu_counts_bytes())
    return fa_say(
        why, FA_REFUSED,
        "EMU_RACES=0 leaves out the checks of memory accesses, which count the bytes: leave it out, or "
        "--count");
  if (status) return status;
  r->step = run->step;
  r->device = run->machine->kind;
  r->machine = run->machine_name;
  status = fa_setup_memory(&run->shape, o->backward, run->step, run->machine, fa_run_oracle_bytes(run), why);
  if (!status) status = fa_tensors_new(&run->tensors, &run->shape, o->backward, FA_BHND, run->machine, why);
  if (!status) status = fa_tensors_workspace(&run->tensors, run->step, why);
  if (status) return status;
  for (int a = 0; a < FA_ARRAYS; a++) r->tensor_bytes += (double)run->tensors.block[a].bytes;
  r->workspace_bytes = (double)run->tensors.workspace_size;
  fa_progress("filling the inputs");
  status = fa_fill(&run->tensors, o->dist, o->seed, why);
  if (!status && o->load[0]) fa_files_fill(run);
  fa_progress(NULL);
  return status;
}

void fa_setup_free(fa_run_t *run) {
  fa_tensors_free(&run->tensors);
  free(run->kv_len);
  for (int i = 0; i < 4; i++) free(run->files[i]);
}
