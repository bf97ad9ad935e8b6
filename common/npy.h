/* npy.h - NumPy's .npy files, format 1.0 to 3.0: 4 dimensions, C order, little-endian float16/32/64. */
#ifndef FA_NPY_H
#define FA_NPY_H

#include "fa.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers that are finite in a file and not in the type they are rounded to; `first` counts from 0. */
typedef struct fa_npy_lost {
  int64_t count, first;
} fa_npy_lost_t;

void fa_npy_lose(fa_npy_lost_t *lost, int64_t at);

/* Reads a file [a][b][c][d] as fp32 (values of float64 rounded; *lost, if not NULL, tells of those beyond its
 * range). The caller frees *data.
 * FA_INVALID with one line that names the file and what is wrong; never reads past what the header and
 * the file's size agree on. */
fa_status_t fa_npy_load(const char *path, float **data, int64_t shape[4], fa_npy_lost_t *lost,
                        fa_reason_t *why);

/* Writes fp32 in format 1.0. `dims` is 3 (lse) or 4. Written to a temporary name first, then renamed. */
fa_status_t fa_npy_save(const char *path, const float *data, int dims, const int64_t *shape,
                        fa_reason_t *why);

#ifdef __cplusplus
}
#endif
#endif
