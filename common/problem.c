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

/* How a tensor lies in memory. Sorted by stride, each dimension steps over the `span` elements of the smaller ones: by
 * less, and they overlap; by more, and there are gaps between them. Dimensions of size 1 may have any stride. */
typedef struct extent {
  int64_t span; /* from the first element to the last */
  bool overlaps, gaps;
} extent_t;

static extent_t extent_of(const fa_tensor_t *t, const int64_t size[4]) {
  const int64_t stride[3] = {t->stride_batch, t->stride_head, t->stride_row};
  extent_t x = {size[3], false, false};
  bool used[3] = {false, false, false};
  for (int round = 0; round < 3; round++) {
    int best = -1;
    for (int i = 0; i < 3; i++)
      if (!used[i] && size[i] > 1 && (best < 0 || stride[i] < stride[best])) best = i;
    if (best < 0) break;
    if (stride[best] < x.span) x.overlaps = true;
    if (stride[best] > x.span) x.gaps = true;
    x.span += stride[best] * (size[best] - 1);
    used[best] = true;
  }
  return x;
}

static bool is_empty(const int64_t size[4]) {
  return size[0] == 0 || size[1] == 0 || size[2] == 0;
}

/* A tensor of the pass that is asked about. */
typedef struct used {
  const fa_tensor_t *t;
  const char *name;
  bool output;
  const int64_t *size;
  fa_dtype_t dtype;
} used_t;

static fa_status_t check_tensor(const used_t *x, bool need_data, fa_reason_t *why) {
  const fa_tensor_t *t = x->t;
  if (is_empty(x->size)) return FA_OK; /* nothing is read or written */
  if (need_data && !t->data) return fa_say(why, FA_INVALID, "the pointer of %s is not set", x->name);
  if (!t->data) return FA_OK; /* only the shape was asked about; strides come with the data */
  if ((uintptr_t)t->data % fa_dtype_size(x->dtype))
    return fa_say(why, FA_INVALID, "%s does not begin at a multiple of its element's size, %zu bytes",
                  x->name, fa_dtype_size(x->dtype));
  if (t->stride_batch < 0 || t->stride_head < 0 || t->stride_row < 0)
    return fa_say(why, FA_INVALID, "%s has a negative stride", x->name);
  int64_t reach[3][2] = {
      {x->size[0], t->stride_batch}, {x->size[1], t->stride_head}, {x->size[2], t->stride_row}};
  for (int i = 0; i < 3; i++)
    if (!fits(reach[i], 2)) return fa_say(why, FA_INVALID, "%s has a stride that is too large", x->name);
  if (x->output && extent_of(t, x->size).overlaps)
    return fa_say(why, FA_INVALID, "%s is written, but its strides make rows overlap", x->name);
  return FA_OK;
}

/* Does a, which has no gaps, hold b's first or last element? */
static bool holds_an_end(const used_t *a, const used_t *b) {
  const extent_t of_a = extent_of(a->t, a->size), of_b = extent_of(b->t, b->size);
  const uintptr_t bytes = (uintptr_t)of_a.span * fa_dtype_size(a->dtype);
  const uintptr_t first = (uintptr_t)b->t->data - (uintptr_t)a->t->data;
  const uintptr_t last = first + (uintptr_t)(of_b.span - 1) * fa_dtype_size(b->dtype);
  return !of_a.gaps && (first < bytes || last < bytes);
}

/* Do both certainly have an element in common? Tensors with gaps may lie in one another's, as Q, K and V do where each row
 * has those of all heads; of two such, only the first elements are compared. */
static bool share(const used_t *a, const used_t *b) {
  if (is_empty(a->size) || is_empty(b->size) || !a->t->data || !b->t->data) return false;
  return a->t->data == b->t->data || holds_an_end(a, b) || holds_an_end(b, a);
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
  const int64_t rows[4] = {p->batch, p->heads_q, p->seq_q, 1};
  const fa_tensor_t lse = {p->lse, p->heads_q * p->seq_q, p->seq_q, 1};
  bool back = pass == FA_BACKWARD;
  const used_t tensors[] = {{&p->q, "q", false, q, p->dtype},    {&p->k, "k", false, k, p->dtype},
                            {&p->v, "v", false, v, p->dtype},    {&p->o, "o", !back, o, p->dtype_out},
                            {&lse, "lse", !back, rows, FA_FP32}, {&p->d_o, "do", false, o, p->dtype_out},
                            {&p->dq, "dq", true, q, p->dtype},   {&p->dk, "dk", true, k, p->dtype},
                            {&p->dv, "dv", true, v, p->dtype}};
  const int count = back ? 9 : 5;
  for (int i = 0; i < count; i++) {
    status = check_tensor(&tensors[i], need_data, why);
    if (status) return status;
  }
  if ((uintptr_t)p->kv_len % sizeof *p->kv_len)
    return fa_say(why, FA_INVALID, "kv_len begins at no multiple of %zu bytes", sizeof *p->kv_len);
  for (int i = 0; i < count; i++)
    for (int j = 0; j < count && tensors[i].output; j++)
      if (i != j && share(&tensors[i], &tensors[j]))
        return fa_say(why, FA_INVALID, "%s is written, but shares memory with %s", tensors[i].name,
                      tensors[j].name);
  return FA_OK;
}
