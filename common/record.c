/* record.c - a report as one CSV line under its header, or as one JSON object. */
#include "report.h"
#include "formulas.h"

#include <math.h>
#include <string.h>

/* The columns are listed once, in columns(); this says what a column is turned into. */
typedef struct writer {
  FILE *out;
  enum { NAMES, VALUES, JSON } mode;
  bool first;
} writer_t;

/* CSV (RFC 4180): quoted if it holds a comma, a quote or a line's end; quotes doubled. */
static void csv_text(FILE *out, const char *s) {
  bool plain = !strpbrk(s, ",\"\r\n");
  if (!plain) fputc('"', out);
  for (; *s; s++) {
    if (*s == '"') fputc('"', out);
    fputc(*s, out);
  }
  if (!plain) fputc('"', out);
}

/* JSON: bytes beyond ASCII, which need not be valid UTF-8, become '?'. */
static void json_text(FILE *out, const char *s) {
  fputc('"', out);
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      fprintf(out, "\\%c", c);
    else if (c < 0x20)
      fprintf(out, "\\u%04x", c);
    else
      fputc(c < 0x80 ? c : '?', out);
  }
  fputc('"', out);
}

/* Begins a column; true if its value is to follow. */
static bool column(writer_t *w, const char *name) {
  if (!w->first) fputs(w->mode == JSON ? ",\n  " : ",", w->out);
  w->first = false;
  if (w->mode == NAMES) fputs(name, w->out);
  if (w->mode == JSON) fprintf(w->out, "\"%s\": ", name);
  return w->mode != NAMES;
}

static void nothing(writer_t *w) {
  if (w->mode == JSON) fputs("null", w->out);
}

static void text(writer_t *w, const char *name, const char *value) {
  if (!column(w, name)) return;
  if (!value)
    nothing(w);
  else if (w->mode == JSON)
    json_text(w->out, value);
  else
    csv_text(w->out, value);
}

static void integer(writer_t *w, const char *name, bool present, int64_t value) {
  if (!column(w, name)) return;
  if (present)
    fprintf(w->out, "%lld", (long long)value);
  else
    nothing(w);
}

/* JSON has no NaN and no infinity; CSV readers know both. */
static void real(writer_t *w, const char *name, bool present, double value) {
  if (!column(w, name)) return;
  if (!present || (w->mode == JSON && !isfinite(value)))
    nothing(w);
  else
    fprintf(w->out, "%.9g", value);
}

static void yes_no(writer_t *w, const char *name, bool present, bool value) {
  if (!column(w, name)) return;
  if (!present)
    nothing(w);
  else
    fputs(w->mode == JSON ? (value ? "true" : "false") : (value ? "1" : "0"), w->out);
}

static void shape_columns(writer_t *w, const fa_report_t *r) {
  static const fa_problem_t none;
  bool known = r->shape != NULL;
  const fa_problem_t *p = known ? r->shape : &none;
  integer(w, "batch", known, p->batch);
  integer(w, "heads", known, p->heads_q);
  integer(w, "heads_kv", known, p->heads_kv);
  integer(w, "seq_q", known, p->seq_q);
  integer(w, "seq_k", known, p->seq_k);
  integer(w, "head_dim", known, p->head_dim);
  integer(w, "head_dim_v", known, p->head_dim_v);
  yes_no(w, "kv_len", known, p->kv_len != NULL);
  text(w, "dtype", known && p->dtype < FA_DTYPES ? fa_dtype_name(p->dtype) : NULL);
  text(w, "dtype_out", known && p->dtype_out < FA_DTYPES ? fa_dtype_name(p->dtype_out) : NULL);
  yes_no(w, "causal", known, p->causal);
  real(w, "scale", known, p->scale);
  text(w, "dist", r->dist);
  if (column(w, "seed")) fprintf(w->out, "%llu", (unsigned long long)r->seed);
}

static void check_columns(writer_t *w, const fa_report_t *r) {
  static const char *const tensors[5] = {"o", "lse", "dq", "dk", "dv"};
  bool checked = r->compared || r->compared_smaller;
  text(w, "checked", r->compared ? "this problem" : r->compared_smaller ? "a smaller problem" : NULL);
  integer(w, "rows_compared_per_head", checked, r->comparison.row_count);
  for (int i = 0; i < 5; i++) {
    bool present = checked && i < r->comparison.count;
    const fa_verdict_t *v = &r->comparison.tensor[i];
    char name[32];
    snprintf(name, sizeof name, "%s_ok", tensors[i]);
    yes_no(w, name, present, v->ok);
    snprintf(name, sizeof name, "%s_error", tensors[i]);
    real(w, name, present, v->error);
    snprintf(name, sizeof name, "%s_yardstick", tensors[i]);
    real(w, name, present, v->yardstick);
    snprintf(name, sizeof name, "%s_limit", tensors[i]);
    real(w, name, present, v->limit);
  }
}

static void pass_columns(writer_t *w, const fa_report_t *r, fa_pass_t pass) {
  bool timed = r->timed[pass], counted = r->counted[pass], emulated = counted && r->device == FA_EMU;
  bool requests = emulated && r->requests;
  const fa_timing_t *t = &r->timing[pass];
  const fa_count_t *c = &r->count[pass];
  const struct {
    const char *name;
    bool present;
    double value;
  } columns[] = {{"median_s", timed, t->median},
                 {"min_s", timed, t->min},
                 {"max_s", timed, t->max},
                 {"repeats", timed, t->repeats},
                 {"flop_per_s", timed, fa_report_rate(r, pass)},
                 {"counted_flop_per_s", timed && counted, fa_report_counted_rate(r, pass)},
                 {"fma_peak_flop_per_s", timed && t->fma_peak > 0, t->fma_peak},
                 {"part_of_fma_peak", timed && t->fma_peak > 0, fa_report_part_of_peak(r, pass)},
                 {"formula_flop", r->shape != NULL, r->shape ? fa_formula_flop(r->shape, pass) : 0},
                 {"hbm_read_bytes", counted, c->hbm_read},
                 {"hbm_written_bytes", counted, c->hbm_written},
                 {"matmul_flop", counted, c->matmul_flop},
                 {"other_flop", counted, c->other_flop},
                 {"exponentials", counted, c->exp},
                 {"rescales", counted, c->rescales},
                 {"exponentials_polynomial", emulated, c->exp_polynomial},
                 {"rescales_skipped", emulated, c->rescales_skipped},
                 {"sectors", requests, c->sectors},
                 {"sectors_least", requests, c->sectors_least},
                 {"shared_bytes", emulated, c->shared_bytes},
                 {"shared_passes", requests, c->shared_waves},
                 {"bank_conflicts", requests, c->conflicts},
                 {"barriers", emulated, c->barriers}};
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s_%s", fa_pass_name(pass), columns[i].name);
    real(w, name, columns[i].present, columns[i].value);
  }
}

static void columns(writer_t *w, const fa_report_t *r) {
  static const char *const statuses[] = {"ok", "failed", "invalid", "refused"};
  bool ran = r->machine && r->machine[0];
  w->first = true;
  text(w, "version", FA_VERSION);
  text(w, "stage", r->stage->name);
  text(w, "step", r->step ? r->step->name : NULL);
  text(w, "status", statuses[r->status]);
  text(w, "reason", r->status ? r->reason.text : NULL);
  text(w, "device", ran ? fa_device_name(r->device) : NULL);
  text(w, "machine", ran ? r->machine : NULL);
  yes_no(w, "backward", true, r->backward);
  shape_columns(w, r);
  check_columns(w, r);
  pass_columns(w, r, FA_FORWARD);
  pass_columns(w, r, FA_BACKWARD);
  real(w, "tensor_bytes", r->tensor_bytes > 0, r->tensor_bytes);
  real(w, "workspace_bytes", r->tensor_bytes > 0, r->workspace_bytes);
  real(w, "peak_bytes", r->peak_bytes > 0, r->peak_bytes);
}

void fa_report_csv(const fa_report_t *r, FILE *out) {
  writer_t w = {out, NAMES, true};
  columns(&w, r);
  fputc('\n', out);
  w.mode = VALUES;
  columns(&w, r);
  fputc('\n', out);
}

void fa_report_json(const fa_report_t *r, FILE *out) {
  writer_t w = {out, JSON, true};
  fputs("{\n  ", out);
  columns(&w, r);
  fputs("\n}\n", out);
}
