/* host_memory.cpp - a problem in the caller's own memory. Its arrays get twins in the emulator's global memory, of exactly
 * their size, so that accesses beside them are found as for any buffer; afterwards the outputs are copied back, row by
 * row: what lies between rows may be another array's. */
#include "../arrays.h"
#include "../device.h"
#include "engine.h"
#include "memory.h"

#include <stdlib.h>

struct twin_t {
  char *memory; /* NULL: the array is in global memory already, or has no elements */
  char *data;   /* its element 0 */
  int array;
};

static bool is_input(int array, fa_pass_t pass) {
  if (array == FA_O || array == FA_LSE || array == FA_DO) return pass == FA_BACKWARD;
  return array == FA_Q || array == FA_K || array == FA_V || array == FA_KV_LEN;
}
static bool is_output(int array, fa_pass_t pass) {
  if (pass == FA_FORWARD) return array == FA_O || array == FA_LSE;
  return array == FA_DQ || array == FA_DK || array == FA_DV;
}

/* Any array as [batch][heads][rows][dim]; kv_len has one element for each batch item. */
static fa_view_t view_of(const fa_problem_t *p, int array) {
  if (array != FA_KV_LEN) return fa_array_view(p, array);
  return {{(void *)(uintptr_t)p->kv_len, 1, 0, 0}, FA_FP32};
}

static void set_data(fa_problem_t *p, int array, void *data) {
  if (array == FA_LSE)
    p->lse = (float *)data;
  else if (array == FA_KV_LEN)
    p->kv_len = (const int32_t *)data;
  else
    fa_array_tensor(p, array)->data = data;
}

/* Elements from the first in memory up to element 0 (strides may be negative), and from there to the last. */
static void extent_of(const fa_view_t *v, const int64_t size[4], int64_t *before, int64_t *behind) {
  const int64_t stride[3] = {v->tensor.stride_batch, v->tensor.stride_head, v->tensor.stride_row};
  *before = 0;
  *behind = size[3];
  for (int n = 0; n < 3; n++) *(stride[n] < 0 ? before : behind) += (size[n] - 1) * llabs(stride[n]);
}

/* Copies each row to the twin, where it then counts as written, or back. */
static void copy_rows(const fa_problem_t *p, const twin_t *x, bool back) {
  const fa_view_t v = view_of(p, x->array);
  const size_t element = fa_dtype_size(v.dtype);
  int64_t size[4];
  fa_array_size(p, x->array, size);
  const size_t bytes = (size_t)size[3] * element;
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++)
      for (int64_t r = 0; r < size[2]; r++) {
        const int64_t at = fa_row(&v.tensor, b, h, r) * (int64_t)element;
        char *twin = x->data + at, *own = (char *)v.tensor.data + at;
        memcpy(back ? own : twin, back ? twin : own, bytes);
        if (!back) emu_mark_written(twin, bytes);
      }
}

static fa_status_t make_twin(const fa_problem_t *p, fa_pass_t pass, int array, fa_problem_t *inside,
                             twin_t *x, fa_reason_t *why) {
  const fa_view_t v = view_of(p, array);
  int64_t size[4], before, behind;
  fa_array_size(p, array, size);
  if (!v.tensor.data || emu_in_region(v.tensor.data) || !size[0] || !size[1] || !size[2] || !size[3])
    return FA_OK;
  extent_of(&v, size, &before, &behind);
  const size_t element = fa_dtype_size(v.dtype);
  /* As well aligned as the original, up to the 16 bytes that an instruction may ask for. */
  const size_t shift = ((uintptr_t)v.tensor.data - (size_t)before * element) % 16;
  void *memory = NULL;
  fa_status_t status = fa_machine_emu.alloc(&memory, shift + (size_t)(before + behind) * element, why);
  if (status) return status;
  x->memory = (char *)memory;
  x->data = x->memory + shift + (size_t)before * element;
  x->array = array;
  if (is_input(array, pass)) copy_rows(p, x, false);
  set_data(inside, array, x->data);
  return FA_OK;
}

fa_status_t fa_emu_run(const fa_kernels_t *kernels, const fa_problem_t *p, fa_pass_t pass, fa_reason_t *why) {
  if (emu_settings()->wrong) return fa_say(why, FA_REFUSED, "%s", emu_settings()->wrong);
  std::lock_guard<std::recursive_mutex> guard(emu_lock);
  fa_problem_t inside = *p;
  twin_t twins[FA_ARRAYS] = {};
  void *workspace = NULL;
  fa_status_t status = FA_OK;
  for (int a = 0; a < FA_ARRAYS && !status; a++)
    if (is_input(a, pass) || is_output(a, pass)) status = make_twin(p, pass, a, &inside, &twins[a], why);
  /* Only as much as is needed, however much the caller has. */
  const size_t wanted = kernels->workspace_size ? kernels->workspace_size(p, pass) : 0;
  if (!status && wanted && !emu_in_region(p->workspace)) {
    status = fa_machine_emu.alloc(&workspace, wanted, why);
    inside.workspace = workspace;
    inside.workspace_size = wanted;
  }
  if (!status) status = (pass == FA_FORWARD ? kernels->forward : kernels->backward)(&inside, why);
  for (int a = 0; a < FA_ARRAYS && !status; a++)
    if (twins[a].memory && is_output(a, pass)) copy_rows(p, &twins[a], true);
  emu_free_last(workspace);
  for (int a = FA_ARRAYS - 1; a >= 0; a--) emu_free_last(twins[a].memory);
  return status;
}
