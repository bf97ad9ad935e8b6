/* tensors.c - see tensors.h. */
#include "tensors.h"
#include "dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_output(int array) {
  return array == FA_O || array == FA_LSE || array == FA_DQ || array == FA_DK || array == FA_DV;
}

static bool is_used(const fa_tensors_t *t, int array) {
  if (array == FA_KV_LEN) return t->host.kv_len != NULL;
  return array < FA_DO || t->backward;
}

/* Strides of one array, and the elements from its first to its last. */
static int64_t lay_out(const int64_t size[4], fa_layout_t layout, int64_t stride[3]) {
  if (layout == FA_BNHD) {
    stride[1] = size[3];
    stride[2] = size[1] * size[3];
    stride[0] = size[2] * stride[2];
    return size[0] * stride[0];
  }
  bool padded = layout == FA_PADDED;
  stride[2] = size[3] + (padded ? 8 : 0); /* 8 elements keep 16-byte alignment for 16-bit types */
  stride[1] = (size[2] + (padded ? 1 : 0)) * stride[2];
  stride[0] = size[1] * stride[1];
  return size[0] * stride[0];
}

/* One element is stored, and what is there is copied behind itself until all is full. */
static void fill_typed(void *data, fa_dtype_t dtype, size_t count, float x) {
  size_t bytes = count * fa_dtype_size(dtype);
  if (!count) return;
  fa_store(dtype, data, 0, x);
  for (size_t done = fa_dtype_size(dtype); done < bytes; done *= 2)
    memcpy((char *)data + done, data, done < bytes - done ? done : bytes - done);
}

static float fence_value(int array) {
  return is_output(array) ? FA_SENTINEL : NAN;
}

static void set_pointers(fa_problem_t *p, int array, char *data) {
  if (array == FA_LSE)
    p->lse = (float *)(void *)data;
  else if (array == FA_KV_LEN)
    p->kv_len = (const int32_t *)(const void *)data;
  else
    fa_array_tensor(p, array)->data = data;
}

static fa_status_t new_array(fa_tensors_t *t, int array, fa_layout_t layout, fa_reason_t *why) {
  int64_t size[4], stride[3];
  fa_array_size(&t->host, array, size);
  int64_t elements = lay_out(size, array == FA_LSE ? FA_BHND : layout, stride);
  size_t element = fa_dtype_size(fa_array_dtype(&t->host, array));
  /* One row on either side, rounded up so that the data stay 256-byte aligned. */
  size_t guard = ((size_t)stride[2] * element + 255) / 256 * 256;
  if (guard < 256) guard = 256;
  size_t bytes = (size_t)elements * element + 2 * guard;
  void *host;
  fa_status_t status = fa_machine_cpu.alloc(&host, bytes, why);
  if (status) return status;
  t->block[array].host = host;
  t->block[array].bytes = bytes;
  t->block[array].guard = guard;
  fill_typed(host, fa_array_dtype(&t->host, array), bytes / element, fence_value(array));
  void *dev = host;
  if (t->machine->kind != FA_CPU) {
    status = t->machine->alloc(&dev, bytes, why);
    if (status) return status;
  }
  t->block[array].dev = dev;
  fa_tensor_t *tensor = fa_array_tensor(&t->host, array);
  if (tensor) *tensor = (fa_tensor_t){NULL, stride[0], stride[1], stride[2]};
  tensor = fa_array_tensor(&t->dev, array);
  if (tensor) *tensor = (fa_tensor_t){NULL, stride[0], stride[1], stride[2]};
  set_pointers(&t->host, array, (char *)host + guard);
  set_pointers(&t->dev, array, (char *)dev + guard);
  return FA_OK;
}

fa_status_t fa_tensors_new(fa_tensors_t *t, const fa_problem_t *shape, bool backward, fa_layout_t layout,
                           const fa_machine_t *machine, fa_reason_t *why) {
  memset(t, 0, sizeof *t);
  fa_status_t status = fa_problem_check(shape, FA_FORWARD, false, why);
  if (status) return status;
  t->host = *shape;
  t->machine = machine;
  t->backward = backward;
  t->host.lse = NULL;
  t->host.workspace = NULL;
  t->host.workspace_size = 0;
  for (int a = 0; a < FA_ARRAYS; a++)
    if (fa_array_tensor(&t->host, a)) *fa_array_tensor(&t->host, a) = (fa_tensor_t){NULL, 0, 0, 0};
  t->dev = t->host;
  for (int a = 0; a < FA_ARRAYS && !status; a++)
    if (is_used(t, a)) status = new_array(t, a, layout, why);
  if (status) {
    fa_tensors_free(t);
    return status;
  }
  if (shape->kv_len)
    memcpy(t->block[FA_KV_LEN].host + t->block[FA_KV_LEN].guard, shape->kv_len, (size_t)shape->batch * 4);
  return FA_OK;
}

void fa_tensors_free(fa_tensors_t *t) {
  for (int a = 0; a < FA_ARRAYS; a++) {
    if (t->block[a].dev && t->block[a].dev != t->block[a].host) t->machine->release(t->block[a].dev);
    free(t->block[a].host);
  }
  if (t->workspace) t->machine->release(t->workspace);
  memset(t, 0, sizeof *t);
}

fa_status_t fa_tensors_upload(fa_tensors_t *t, fa_reason_t *why) {
  fa_status_t status = FA_OK;
  for (int a = 0; a < FA_ARRAYS && !status; a++) {
    if (!t->block[a].host) continue;
    fa_dtype_t dtype = fa_array_dtype(&t->host, a);
    if (is_output(a))
      fill_typed(t->block[a].host, dtype, t->block[a].bytes / fa_dtype_size(dtype), FA_SENTINEL);
    status = t->machine->upload(t->block[a].dev, t->block[a].host, t->block[a].bytes, why);
  }
  return status;
}

fa_status_t fa_tensors_download(fa_tensors_t *t, fa_reason_t *why) {
  fa_status_t status = FA_OK;
  for (int a = 0; a < FA_ARRAYS && !status; a++)
    if (t->block[a].host && is_output(a))
      status = t->machine->download(t->block[a].host, t->block[a].dev, t->block[a].bytes, why);
  return status;
}

/* True if all `count` elements from element `first` of the allocation still hold the sentinel. */
static bool untouched(const char *host, fa_dtype_t dtype, int64_t first, int64_t count) {
  float sentinel = fa_round_to(dtype, FA_SENTINEL);
  for (int64_t i = first; i < first + count; i++)
    if (!(fa_load(dtype, host, i) == sentinel)) return false;
  return true;
}

/* Looks at all that lies between the elements of the tensor, by walking it in memory order. */
static bool gaps_untouched(const fa_tensors_t *t, int array) {
  fa_problem_t p = t->host;
  const fa_tensor_t *tensor = fa_array_tensor(&p, array);
  fa_dtype_t dtype = fa_array_dtype(&p, array);
  size_t element = fa_dtype_size(dtype);
  const char *host = t->block[array].host;
  int64_t total = (int64_t)(t->block[array].bytes / element);
  int64_t behind = (int64_t)(t->block[array].guard / element), guard = behind;
  if (tensor) { /* a test may have moved it a little, into one of its guards */
    guard = ((const char *)tensor->data - host) / (int64_t)element;
    behind -= guard - behind;
  }
  int64_t size[4];
  fa_array_size(&p, array, size);
  if (!untouched(host, dtype, 0, guard) || !untouched(host, dtype, total - behind, behind)) return false;
  if (!tensor || tensor->stride_head < tensor->stride_row) return true; /* LSE and [b][n][h][d]: no gaps */
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++) {
      for (int64_t r = 0; r < size[2]; r++)
        if (!untouched(host, dtype, guard + fa_row(tensor, b, h, r) + size[3], tensor->stride_row - size[3]))
          return false;
      int64_t used = size[2] * tensor->stride_row;
      if (!untouched(host, dtype, guard + fa_row(tensor, b, h, 0) + used, tensor->stride_head - used))
        return false;
    }
  return true;
}

fa_status_t fa_tensors_guards(const fa_tensors_t *t, fa_reason_t *why) {
  for (int a = 0; a < FA_ARRAYS; a++)
    if (t->block[a].host && is_output(a) && !gaps_untouched(t, a))
      return fa_say(why, FA_FAILED, "%s: memory before, between or after its rows was written",
                    fa_array_name(a));
  return FA_OK;
}

fa_status_t fa_tensors_workspace(fa_tensors_t *t, const fa_step_t *step, fa_reason_t *why) {
  size_t need = fa_stage_workspace(step, &t->host, FA_FORWARD, t->machine->kind);
  if (t->backward && step->on[t->machine->kind] && step->on[t->machine->kind]->backward) {
    size_t back = fa_stage_workspace(step, &t->host, FA_BACKWARD, t->machine->kind);
    if (back > need) need = back;
  }
  if (need <= t->workspace_size) return FA_OK;
  if (t->workspace) t->machine->release(t->workspace);
  t->workspace = NULL;
  t->workspace_size = 0;
  fa_reason_t reason = {""};
  fa_status_t status = t->machine->alloc(&t->workspace, need, &reason);
  if (status) return fa_say(why, status, "workspace of step %s: %.200s", step->name, reason.text);
  t->workspace_size = need;
  t->host.workspace = t->dev.workspace = t->workspace;
  t->host.workspace_size = t->dev.workspace_size = need;
  return FA_OK;
}

fa_status_t fa_tensors_run(fa_tensors_t *t, const fa_stage_t *stage, const fa_step_t *step,
                           fa_reason_t *why) {
  fa_device_t device = t->machine->kind;
  fa_status_t status = fa_stage_supports(stage, step, &t->dev, FA_FORWARD, device, why);
  if (!status && t->backward) status = fa_stage_supports(stage, step, &t->dev, FA_BACKWARD, device, why);
  if (!status) status = fa_tensors_workspace(t, step, why);
  if (!status) status = fa_tensors_upload(t, why);
  if (!status) status = fa_stage_run(stage, step, &t->dev, FA_FORWARD, device, why);
  if (!status && t->backward) status = fa_stage_run(stage, step, &t->dev, FA_BACKWARD, device, why);
  if (!status) status = t->machine->sync(why);
  if (!status) status = fa_tensors_download(t, why);
  return status ? status : fa_tensors_guards(t, why);
}
