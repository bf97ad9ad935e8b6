/* files.c - --load and --save: NumPy files in, NumPy files out. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"
#include "dtype.h"
#include "npy.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const int loaded[4] = {FA_Q, FA_K, FA_V, FA_DO};

/* A size given as an option next to --load must be the file's. */
static fa_status_t agree(const char *option, int64_t given, int64_t in_file, const char *path,
                         fa_reason_t *why) {
  if (given == FA_UNSET || given == in_file) return FA_OK;
  return fa_say(why, FA_INVALID,
                "--%s %lld contradicts %.80s, which has %lld: leave it out, files set the shape", option,
                (long long)given, path, (long long)in_file);
}

/* Sizes that two files share must be equal. */
static fa_status_t same(const fa_options_t *o, int x, int y, int axis, int64_t shape[4][4],
                        fa_reason_t *why) {
  static const char *const axes[4] = {"batch", "heads", "seq", "dim"};
  if (shape[x][axis] == shape[y][axis]) return FA_OK;
  return fa_say(why, FA_INVALID, "%.70s has %s %lld, but %.70s has %lld; they must be equal", o->load[x],
                axes[axis], (long long)shape[x][axis], o->load[y], (long long)shape[y][axis]);
}

fa_status_t fa_files_load(fa_run_t *run, fa_reason_t *why) {
  const fa_options_t *o = run->options;
  int64_t shape[4][4] = {{0}};
  fa_status_t status = FA_OK;
  enum { Q, K, V, DO };
  for (int i = 0; i < 4 && !status; i++)
    if (o->load[i]) status = fa_npy_load(o->load[i], &run->files[i], shape[i], &run->lost[i], why);
  if (!status) status = same(o, K, Q, 0, shape, why);
  if (!status) status = same(o, V, K, 0, shape, why);
  if (!status) status = same(o, V, K, 1, shape, why);
  if (!status) status = same(o, V, K, 2, shape, why);
  if (!status) status = same(o, K, Q, 3, shape, why);
  for (int axis = 0; axis < 3 && !status && o->load[DO]; axis++) status = same(o, DO, Q, axis, shape, why);
  if (!status && o->load[DO]) status = same(o, DO, V, 3, shape, why);
  if (!status) status = agree("batch", o->batch, shape[Q][0], o->load[Q], why);
  if (!status) status = agree("heads", o->heads, shape[Q][1], o->load[Q], why);
  if (!status) status = agree("heads-kv", o->heads_kv, shape[K][1], o->load[K], why);
  if (!status) status = agree("seq", o->seq, shape[Q][2], o->load[Q], why);
  if (!status) status = agree("seq", o->seq, shape[K][2], o->load[K], why);
  if (!status) status = agree("seq-q", o->seq_q, shape[Q][2], o->load[Q], why);
  if (!status) status = agree("seq-k", o->seq_k, shape[K][2], o->load[K], why);
  if (!status) status = agree("head-dim", o->head_dim, shape[Q][3], o->load[Q], why);
  if (!status) status = agree("head-dim-v", o->head_dim_v, shape[V][3], o->load[V], why);
  if (status) return status;
  fa_problem_t *p = &run->shape;
  p->batch = shape[Q][0], p->heads_q = shape[Q][1], p->seq_q = shape[Q][2], p->head_dim = shape[Q][3];
  p->heads_kv = shape[K][1], p->seq_k = shape[K][2], p->head_dim_v = shape[V][3];
  if (!o->has_scale) p->scale = fa_default_scale(p->head_dim);
  return FA_OK;
}

/* From a tensor of any layout and type to packed numbers [batch][heads][rows][dim]; with `lost` the other way, and *lost
 * learns of those that the type cannot hold. */
static void copy(const fa_problem_t *p, int array, float *packed, fa_npy_lost_t *lost) {
  const float *begin = packed;
  int64_t size[4];
  fa_array_size(p, array, size);
  const fa_view_t view = fa_array_view(p, array);
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++)
      for (int64_t r = 0; r < size[2]; r++)
        for (int64_t c = 0; c < size[3]; c++, packed++) {
          if (!lost) {
            *packed = (float)fa_view_load(&view, b, h, r, c);
            continue;
          }
          fa_view_store(&view, b, h, r, c, *packed);
          if (isfinite(*packed) && !isfinite(fa_view_load(&view, b, h, r, c)))
            fa_npy_lose(lost, packed - begin);
        }
}

static void warn(fa_run_t *run, int i) {
  const fa_npy_lost_t *lost = &run->lost[i];
  if (!lost->count) return;
  int64_t size[4], at[4], rest = lost->first;
  fa_array_size(&run->tensors.host, loaded[i], size);
  for (int axis = 3; axis >= 0; axis--) at[axis] = rest % size[axis], rest /= size[axis];
  fa_progress(NULL);
  fa_reason_t line;
  fa_say(
      &line, FA_OK,
      "%s: warning: %lld of the numbers of %.80s are finite there and beyond the range of %s, the first at "
      "[%lld, %lld, %lld, %lld]",
      run->stage->name, (long long)lost->count, run->options->load[i],
      fa_dtype_name(fa_array_dtype(&run->tensors.host, loaded[i])), (long long)at[0], (long long)at[1],
      (long long)at[2], (long long)at[3]);
  fprintf(stderr, "%s\n", line.text);
}

void fa_files_fill(fa_run_t *run) {
  for (int i = 0; i < 4; i++) {
    if (!run->files[i]) continue;
    copy(&run->tensors.host, loaded[i], run->files[i], &run->lost[i]);
    warn(run, i);
    free(run->files[i]);
    run->files[i] = NULL;
  }
}

static const int saved[] = {FA_O, FA_LSE, FA_DQ, FA_DK, FA_DV};

/* The path of the i-th file that --save writes; false after the last. */
static bool saved_path(const fa_options_t *o, int i, char *path, size_t size) {
  if (!o->save || i >= (o->backward ? 5 : 2)) return false;
  return (size_t)snprintf(path, size, "%s/%s.npy", o->save, fa_array_name(saved[i])) < size;
}

/* One file, under whatever two names: a link is enough to lose it. */
static bool is_file(const char *path, const struct stat *info) {
  struct stat here;
  return stat(path, &here) == 0 && here.st_dev == info->st_dev && here.st_ino == info->st_ino;
}

fa_status_t fa_files_apart(const fa_options_t *o, const char *option, FILE *record, fa_reason_t *why) {
  struct stat info;
  if (!record || fstat(fileno(record), &info)) return FA_OK;
  for (int i = 0; i < 4; i++)
    if (o->load[i] && is_file(o->load[i], &info))
      return fa_say(why, FA_INVALID, "--%s would overwrite %.120s, which --load reads: give it another file",
                    option, o->load[i]);
  char path[PATH_MAX];
  for (int i = 0; saved_path(o, i, path, sizeof path); i++)
    if (is_file(path, &info))
      return fa_say(why, FA_INVALID, "--%s and --save both write %.120s: give one another place", option,
                    path);
  return FA_OK;
}

/* Inputs are read before outputs are written, and are lost all the same. */
static fa_status_t inputs_stay(const fa_options_t *o, fa_reason_t *why) {
  char path[PATH_MAX];
  struct stat info;
  for (int i = 0; saved_path(o, i, path, sizeof path); i++)
    for (int j = 0; j < 4; j++)
      if (o->load[j] && stat(path, &info) == 0 && is_file(o->load[j], &info))
        return fa_say(why, FA_INVALID,
                      "--save would overwrite %.120s, which --load reads: give it another folder",
                      o->load[j]);
  return FA_OK;
}

fa_status_t fa_files_folder(const fa_options_t *o, fa_reason_t *why) {
  const char *folder = o->save;
  struct stat info;
  fa_status_t status = inputs_stay(o, why);
  if (status) return status;
  if (mkdir(folder, 0777) == 0) return FA_OK;
  if (errno != EEXIST)
    return fa_say(why, FA_INVALID, "cannot make the folder %.120s of --save: %s", folder, strerror(errno));
  if (stat(folder, &info) == 0 && S_ISDIR(info.st_mode)) return FA_OK;
  return fa_say(why, FA_INVALID, "--save wants a folder; %.120s is a file", folder);
}

static fa_status_t save_array(const fa_run_t *run, int array, fa_reason_t *why) {
  fa_problem_t p = run->tensors.host;
  const char *folder = run->options->save;
  int64_t size[4];
  fa_array_size(&p, array, size);
  size_t length = strlen(folder) + 32;
  size_t count = (size_t)size[0] * (size_t)size[1] * (size_t)size[2] * (size_t)size[3];
  char *path = malloc(length);
  float *packed = malloc(count * sizeof *packed + 1);
  fa_status_t status;
  if (!path || !packed) {
    status = fa_say(why, FA_REFUSED, "no memory to save %s (%zu bytes)", fa_array_name(array), count * 4);
  } else {
    snprintf(path, length, "%s/%s.npy", folder, fa_array_name(array));
    copy(&p, array, packed, NULL);
    status = fa_npy_save(path, packed, array == FA_LSE ? 3 : 4, size, why);
  }
  free(path);
  free(packed);
  return status;
}

fa_status_t fa_files_save(const fa_run_t *run, fa_reason_t *why) {
  fa_status_t status = FA_OK;
  for (int i = 0; i < (run->options->backward ? 5 : 2) && !status; i++)
    status = save_array(run, saved[i], why);
  return status;
}
