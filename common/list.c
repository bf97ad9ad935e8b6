/* list.c - what each step of a stage supports, found by asking it. */
#include "driver.h"

#include <string.h>

static const int64_t head_dims[] = {32, 40, 64, 80, 96, 128, 160, 192, 256};
enum { HEAD_DIMS = sizeof head_dims / sizeof *head_dims };

static fa_problem_t probe(fa_dtype_t dtype, int64_t head_dim) {
  fa_problem_t p = {.batch = 1, .heads_q = 4, .heads_kv = 4, .seq_q = 256, .seq_k = 256};
  p.head_dim = p.head_dim_v = head_dim;
  p.dtype = dtype;
  p.dtype_out = dtype == FA_E4M3 ? FA_BF16 : dtype;
  p.scale = fa_default_scale(head_dim);
  return p;
}

static bool supported(const fa_stage_t *stage, const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass,
                      fa_device_t device) {
  fa_reason_t unused;
  return fa_stage_supports(stage, step, p, pass, device, &unused) == FA_OK;
}

/* "fp32 (head dims 32 40 64)" for every type; returns false if there is none. */
static bool list_types(const fa_stage_t *stage, const fa_step_t *step, fa_pass_t pass, fa_device_t device,
                       FILE *out) {
  bool any = false;
  for (int t = 0; t < FA_DTYPES; t++) {
    bool first = true;
    for (int i = 0; i < HEAD_DIMS; i++) {
      fa_problem_t p = probe((fa_dtype_t)t, head_dims[i]);
      if (!supported(stage, step, &p, pass, device)) continue;
      if (first) fprintf(out, "%s%s at head dim", any ? "; " : "", fa_dtype_name((fa_dtype_t)t));
      fprintf(out, " %lld", (long long)head_dims[i]);
      first = false;
      any = true;
    }
  }
  return any;
}

/* A first problem that is supported, to vary. */
static bool base_problem(const fa_stage_t *stage, const fa_step_t *step, fa_device_t device,
                         fa_problem_t *p) {
  for (int t = 0; t < FA_DTYPES; t++)
    for (int i = 0; i < HEAD_DIMS; i++) {
      *p = probe((fa_dtype_t)t, head_dims[i]);
      if (supported(stage, step, p, FA_FORWARD, device)) return true;
    }
  return false;
}

static void list_features(const fa_stage_t *stage, const fa_step_t *step, fa_device_t device, FILE *out) {
  static const int32_t kv_len[1] = {100};
  fa_problem_t base;
  if (!base_problem(stage, step, device, &base)) return;
  fa_problem_t p[7] = {base, base, base, base, base, base, base};
  static const char *const names[7] = {
      "causal",        "kv-len", "fewer kv heads", "queries != keys", "head-dim-v != head-dim",
      "deterministic", "splits"};
  p[0].causal = true;
  p[1].kv_len = kv_len;
  p[2].heads_kv = 2;
  p[3].seq_q = 100;
  p[4].head_dim_v = base.head_dim == 64 ? 32 : 64;
  p[5].deterministic = true;
  p[6].splits = 2;
  for (int yes = 1; yes >= 0; yes--) {
    const char *separator = yes ? "      with " : "      without ";
    bool any = false;
    for (int i = 0; i < 7; i++) {
      if (supported(stage, step, &p[i], FA_FORWARD, device) != (bool)yes) continue;
      fprintf(out, "%s%s", separator, names[i]);
      separator = ", ";
      any = true;
    }
    if (any) fputc('\n', out);
  }
}

static void list_device(const fa_stage_t *stage, const fa_step_t *step, fa_device_t device, FILE *out) {
  char machine[192];
  fa_reason_t why = {""};
  if (fa_machine(device)->open(machine, &why)) {
    fprintf(out, "    %s: not here: %s\n", fa_device_name(device), why.text);
    return;
  }
  fprintf(out, "    %s, %s\n", fa_device_name(device), machine);
  for (int pass = 0; pass < FA_PASSES; pass++) {
    fprintf(out, "      %-9s", fa_pass_name((fa_pass_t)pass));
    if (!list_types(stage, step, (fa_pass_t)pass, device, out)) fputs("none", out);
    fputc('\n', out);
  }
  list_features(stage, step, device, out);
}

void fa_list(const fa_stage_t *stage, FILE *out) {
  fprintf(out, "%s: %s\n", stage->name, stage->title);
  for (const fa_step_t *s = stage->steps; s->name; s++) {
    bool any = false;
    fprintf(out, "\n%c %s: %s\n", s->main ? '*' : ' ', s->name, s->idea);
    for (int d = 0; d < FA_DEVICES; d++)
      if (s->on[d]) {
        list_device(stage, s, (fa_device_t)d, out);
        any = true;
      }
    if (!any) fputs("    not in this build: it was made without nvcc\n", out);
  }
  fputs("\n* without --step, the last of these that supports the problem runs\n", out);
}

/* One line for each (step, device, pass, type, head dim) that is supported and whose device is here. */
void fa_list_csv(const fa_stage_t *stage, FILE *out) {
  fputs("stage,step,main,device,pass,dtype,head_dim\n", out);
  char machine[192];
  fa_reason_t why;
  for (const fa_step_t *s = stage->steps; s->name; s++)
    for (int d = 0; d < FA_DEVICES; d++) {
      if (!s->on[d] || fa_machine((fa_device_t)d)->open(machine, &why)) continue;
      for (int n = 0; n < FA_PASSES * FA_DTYPES * HEAD_DIMS; n++) {
        int pass = n / HEAD_DIMS / FA_DTYPES, type = n / HEAD_DIMS % FA_DTYPES;
        int64_t head_dim = head_dims[n % HEAD_DIMS];
        fa_problem_t p = probe((fa_dtype_t)type, head_dim);
        if (supported(stage, s, &p, (fa_pass_t)pass, (fa_device_t)d))
          fprintf(out, "%s,%s,%d,%s,%s,%s,%lld\n", stage->name, s->name, s->main,
                  fa_device_name((fa_device_t)d), fa_pass_name((fa_pass_t)pass),
                  fa_dtype_name((fa_dtype_t)type), (long long)head_dim);
      }
    }
}
