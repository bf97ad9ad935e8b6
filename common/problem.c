/* problem.c - which problems mean something; names and sizes of types and devices. */
#include "stage.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

/* A reason may repeat what a user typed: it stays one line, and moves no terminal's cursor. */
static void one_line(char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < ' ' || *text == 0x7f) *text = '?';
}

fa_status_t fa_say(fa_reason_t *why, fa_status_t status, const char *format, ...) {
  if (why) {
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    one_line(why->text);
  }
  return status;
}

const char *fa_dtype_name(fa_dtype_t t) {
  static const char *const names[FA_DTYPES] = {"fp32", "fp16", "bf16", "e4m3"};
  return (unsigned)t < FA_DTYPES ? names[t] : "?";
}

const char *fa_device_name(fa_device_t d) {
  static const char *const names[FA_DEVICES] = {"cpu", "gpu", "emu"};
  return (unsigned)d < FA_DEVICES ? names[d] : "?";
}

const char *fa_pass_name(fa_pass_t pass) {
  static const char *const names[FA_PASSES] = {"forward", "backward"};
  return (unsigned)pass < FA_PASSES ? names[pass] : "?";
}

size_t fa_dtype_size(fa_dtype_t t) {
  static const size_t sizes[FA_DTYPES] = {4, 2, 2, 1};
  return (unsigned)t < FA_DTYPES ? sizes[t] : 0;
}

float fa_default_scale(int64_t head_dim) {
  return head_dim > 0 ? (float)(1.0 / sqrt((double)head_dim)) : 1.0f;
}

/* No product of sizes below may pass 2^60 elements, so that 64-bit offsets never wrap. Heads and head sizes
 * alone are bounded as well: kernels multiply them by block sizes and numbers of threads, and walk the heads
 * even where there are no rows. */
enum { MOST_HEADS_AND_DIM = INT32_MAX };

static bool fits(const int64_t *sizes, int n) {
  int64_t product = 1;
  for (int i = 0; i < n; i++)
    if (sizes[i] > 0) {
      if (product > ((int64_t)1 << 60) / sizes[i]) return false;
      product *= sizes[i];
    }
  return true;
}

/* An output's rows must not overlap: sorted by stride, each dimension must step over all that the
 * smaller ones span. Dimensions of size 1 may have any stride. */
static bool overlaps(const fa_tensor_t *t, int64_t batch, int64_t heads, int64_t rows, int64_t dim) {
  int64_t size[3] = {batch, heads, rows};
  int64_t stride[3] = {t->stride_batch, t->stride_head, t->stride_row};
  int64_t span = dim;
  bool used[3] = {false, false, false};
  for (int round = 0; round < 3; round++) {
    int best = -1;
    for (int i = 0; i < 3; i++)
      if (!used[i] && size[i] > 1 && (best < 0 || stride[i] < stride[best])) best = i;
    if (best < 0) return false;
    if (stride[best] < span) return true;
    span += stride[best] * (size[best] - 1);
    used[best] = true;
  }
  return false;
}

static fa_status_t check_tensor(const fa_tensor_t *t, const char *name, bool output, bool need_data,
                                const int64_t size[4], fa_dtype_t dtype, fa_reason_t *why) {
  if (size[0] == 0 || size[1] == 0 || size[2] == 0) return FA_OK; /* empty: nothing is read or written */
  if (need_data && !t->data) return fa_say(why, FA_INVALID, "the pointer of %s is not set", name);
  if (!t->data) return FA_OK; /* only the shape was asked about; strides come with the data */
  if ((uintptr_t)t->data % fa_dtype_size(dtype))
    return fa_say(why, FA_INVALID, "%s does not begin at a multiple of its element's size, %zu bytes", name,
                  fa_dtype_size(dtype));
  if (t->stride_batch < 0 || t->stride_head < 0 || t->stride_row < 0)
    return fa_say(why, FA_INVALID, "%s has a negative stride", name);
  int64_t reach[3][2] = {{size[0], t->stride_batch}, {size[1], t->stride_head}, {size[2], t->stride_row}};
  for (int i = 0; i < 3; i++)
    if (!fits(reach[i], 2)) return fa_say(why, FA_INVALID, "%s has a stride that is too large", name);
  if (output && overlaps(t, size[0], size[1], size[2], size[3]))
    return fa_say(why, FA_INVALID, "%s is written, but its strides make rows overlap", name);
  return FA_OK;
}

static fa_status_t check_shape(const fa_problem_t *p, fa_reason_t *why) {
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {{"batch", p->batch, 0},          {"seq_q", p->seq_q, 0},       {"seq_k", p->seq_k, 0},
               {"heads_q", p->heads_q, 1},      {"heads_kv", p->heads_kv, 1}, {"head_dim", p->head_dim, 1},
               {"head_dim_v", p->head_dim_v, 1}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].value < sizes[i].least)
      return fa_say(why, FA_INVALID, "%s is %lld; it must be at least %lld", sizes[i].name,
                    (long long)sizes[i].value, (long long)sizes[i].least);
  for (size_t i = 3; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i].value > MOST_HEADS_AND_DIM)
      return fa_say(why, FA_INVALID, "%s is too large: %lld; it must be at most %d", sizes[i].name,
                    (long long)sizes[i].value, MOST_HEADS_AND_DIM);
  if (p->heads_q % p->heads_kv)
    return fa_say(why, FA_INVALID, "heads_q (%lld) must be a multiple of heads_kv (%lld)",
                  (long long)p->heads_q, (long long)p->heads_kv);
  const int64_t scores[4] = {p->batch, p->heads_q, p->seq_q, p->seq_k};
  const int64_t rows_q[4] = {p->batch, p->heads_q, p->seq_q, p->head_dim};
  const int64_t rows_o[4] = {p->batch, p->heads_q, p->seq_q, p->head_dim_v};
  const int64_t rows_k[4] = {p->batch, p->heads_kv, p->seq_k, p->head_dim};
  const int64_t rows_v[4] = {p->batch, p->heads_kv, p->seq_k, p->head_dim_v};
  if (!fits(scores, 4) || !fits(rows_q, 4) || !fits(rows_o, 4) || !fits(rows_k, 4) || !fits(rows_v, 4))
    return fa_say(why, FA_INVALID, "the sizes are too large: a tensor would pass 2^60 elements");
  if ((unsigned)p->dtype >= FA_DTYPES) return fa_say(why, FA_INVALID, "dtype %d is unknown", (int)p->dtype);
  if ((unsigned)p->dtype_out >= FA_DTYPES || p->dtype_out == FA_E4M3)
    return fa_say(why, FA_INVALID, "dtype_out must be fp32, fp16 or bf16");
  if (!isfinite(p->scale)) return fa_say(why, FA_INVALID, "scale must be a finite number");
  if (p->splits < 0) return fa_say(why, FA_INVALID, "splits is %d; it must be at least 0", p->splits);
  if (p->dtype != FA_E4M3 && (p->descale_q.data || p->descale_k.data || p->descale_v.data))
    return fa_say(why, FA_INVALID, "descale factors go with dtype e4m3 only");
  return FA_OK;
}

fa_status_t fa_problem_check(const fa_problem_t *p, fa_pass_t pass, bool need_data, fa_reason_t *why) {
  if (!p) return fa_say(why, FA_INVALID, "no problem was given");
  fa_status_t status = check_shape(p, why);
  if (status) return status;

  const int64_t q[4] = {p->batch, p->heads_q, p->seq_q, p->head_dim};
  const int64_t k[4] = {p->batch, p->heads_kv, p->seq_k, p->head_dim};
  const int64_t v[4] = {p->batch, p->heads_kv, p->seq_k, p->head_dim_v};
  const int64_t o[4] = {p->batch, p->heads_q, p->seq_q, p->head_dim_v};
  bool back = pass == FA_BACKWARD;
  const struct {
    const fa_tensor_t *t;
    const char *name;
    bool output;
    const int64_t *size;
    bool used;
  } tensors[] = {{&p->q, "q", false, q, true},    {&p->k, "k", false, k, true},
                 {&p->v, "v", false, v, true},    {&p->o, "o", !back, o, true},
                 {&p->d_o, "do", false, o, back}, {&p->dq, "dq", true, q, back},
                 {&p->dk, "dk", true, k, back},   {&p->dv, "dv", true, v, back}};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
    if (tensors[i].used) {
      bool wide = tensors[i].size == o; /* O and dO */
      status = check_tensor(tensors[i].t, tensors[i].name, tensors[i].output, need_data, tensors[i].size,
                            wide ? p->dtype_out : p->dtype, why);
      if (status) return status;
    }
  if (need_data && !p->lse && p->batch && p->seq_q)
    return fa_say(why, FA_INVALID, "the pointer of lse is not set");
  if ((uintptr_t)p->lse % sizeof *p->lse)
    return fa_say(why, FA_INVALID, "lse does not begin at a multiple of its element's size, 4 bytes");
  return FA_OK;
}
