/* tensors.h - all arrays of one problem: made, filled, moved to a device and back, and fenced.
 *
 * Every array lives in a host block; on a GPU (or in the emulator) it has a twin with the same layout.
 * Before a run, outputs hold a sentinel everywhere, guard rows before and after every array and the gaps
 * that strides leave hold it too, and afterwards those must be untouched. In inputs, guards and gaps
 * hold NaN, so that whatever reads them shows. */
#ifndef FA_TENSORS_H
#define FA_TENSORS_H

#include "arrays.h"
#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FA_SENTINEL 777.0f

/* How tensors lie in memory. */
typedef enum fa_layout {
  FA_BHND,  /* packed [batch][heads][rows][dim] */
  FA_BNHD,  /* [batch][rows][heads][dim], seen through strides */
  FA_PADDED /* as the first, each row followed by unused elements, each head by an unused row */
} fa_layout_t;

typedef struct fa_tensors {
  fa_problem_t host; /* the problem with host pointers */
  fa_problem_t dev;  /* the same on the device; on the host the same pointers */
  const fa_machine_t *machine;
  bool backward;
  struct {
    char *host, *dev;    /* allocations, guards included */
    size_t bytes, guard; /* of the whole allocation; of one guard */
  } block[FA_ARRAYS];
  void *workspace;
  size_t workspace_size;
} fa_tensors_t;

/* Allocates every array of `shape` (whose pointers and strides are ignored; kv_len is copied) and sets
 * guards, gaps and sentinels. Inputs hold NaN until filled. On failure nothing stays allocated. */
fa_status_t fa_tensors_new(fa_tensors_t *t, const fa_problem_t *shape, bool backward, fa_layout_t layout,
                           const fa_machine_t *machine, fa_reason_t *why);
void fa_tensors_free(fa_tensors_t *t);

/* Resets all outputs (O and LSE included) to the sentinel and copies everything to the device. */
fa_status_t fa_tensors_upload(fa_tensors_t *t, fa_reason_t *why);
/* Copies all outputs back. */
fa_status_t fa_tensors_download(fa_tensors_t *t, fa_reason_t *why);

/* FA_FAILED names the first array whose guard or gap was written. Call after download. */
fa_status_t fa_tensors_guards(const fa_tensors_t *t, fa_reason_t *why);

/* Makes the workspace large enough for this step and both passes; FA_REFUSED names the bytes. */
fa_status_t fa_tensors_workspace(fa_tensors_t *t, const fa_step_t *step, fa_reason_t *why);

/* Upload, forward, backward if t->backward, download, guards. */
fa_status_t fa_tensors_run(fa_tensors_t *t, const fa_stage_t *stage, const fa_step_t *step, fa_reason_t *why);

#ifdef __cplusplus
}
#endif
#endif
