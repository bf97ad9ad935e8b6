/* npy.c - NumPy's .npy files. A file is hostile until its header and its size agree:
 *
 *   | 93 'N' 'U' 'M' 'P' 'Y' | major minor | length: 2 bytes (1.0) or 4 (2.0, 3.0) | header | data |
 *
 * The header is the text of a Python dict, {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3, 4), },
 * padded with spaces and ended by a newline. Nothing is allocated for the data before its size is proven. */
#define _POSIX_C_SOURCE 200809L
#include "npy.h"
#include "device.h"
#include "dtype.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* NumPy itself refuses headers above 10,000 characters as unsafe to parse; four dimensions need 128. */
#define MAX_HEADER 10000

typedef struct header {
  int width; /* bytes of one element: 2, 4 or 8 */
  int dims;
  int64_t shape[4];
} header_t;

/* --- the header's text ----------------------------------------------------------------------------- */

static const char *skip(const char *s) {
  while (*s == ' ' || *s == '\t' || *s == '\n' || *s == '\r') s++;
  return s;
}

/* Reads 'text' or "text" without escapes, as NumPy writes it. NULL if there is none, or a too long one. */
static const char *quoted(const char *s, char *text, size_t size) {
  char quote = *s;
  if (quote != '\'' && quote != '"') return NULL;
  const char *end = strchr(s + 1, quote);
  if (!end || (size_t)(end - s - 1) >= size) return NULL;
  memcpy(text, s + 1, (size_t)(end - s - 1));
  text[end - s - 1] = 0;
  return end + 1;
}

static const char *parse_descr(const char *s, header_t *h, const char **error) {
  char descr[16];
  if (*s == '[') {
    *error = "holds records; one float16, float32 or float64 array is wanted";
    return NULL;
  }
  s = quoted(s, descr, sizeof descr);
  if (!s) {
    *error = "has a header whose descr is not understood";
    return NULL;
  }
  h->width = !strcmp(descr, "<f2") ? 2 : !strcmp(descr, "<f4") ? 4 : !strcmp(descr, "<f8") ? 8 : 0;
  if (!h->width)
    *error = descr[0] == '>' ? "is big-endian; save it with astype('<f4')"
                             : "does not hold float16, float32 or float64; save it with astype('<f4')";
  return h->width ? s : NULL;
}

static const char *parse_order(const char *s, const char **error) {
  if (!strncmp(s, "False", 5)) return s + 5;
  *error = !strncmp(s, "True", 4) ? "is in Fortran order; save it with numpy.ascontiguousarray"
                                  : "has a header whose fortran_order is neither True nor False";
  return NULL;
}

/* (1, 2, 3, 4) with an optional comma at the end. */
static const char *parse_shape(const char *s, header_t *h, const char **error) {
  *error = "has a header whose shape is not understood";
  if (*s++ != '(') return NULL;
  for (h->dims = 0; *(s = skip(s)) != ')'; h->dims++) {
    if (*s < '0' || *s > '9') return NULL;
    if (h->dims == 4) {
      *error = "has more than 4 dimensions; [batch][heads][rows][dim] is wanted";
      return NULL;
    }
    int64_t n = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
      if (n > (INT64_MAX - 9) / 10) {
        *error = "has a dimension that is too large";
        return NULL;
      }
      n = n * 10 + (*s - '0');
    }
    h->shape[h->dims] = n;
    s = skip(s);
    if (*s == ',')
      s++;
    else if (*s != ')')
      return NULL;
  }
  return s + 1;
}

/* Each of the three keys exactly once, in any order. Returns what is wrong, or NULL. */
static const char *parse_header(const char *s, header_t *h) {
  static const char *const keys[3] = {"descr", "fortran_order", "shape"};
  const char *error = NULL, *const malformed = "has a malformed header";
  unsigned seen = 0;
  s = skip(s);
  if (*s++ != '{') return malformed;
  while (*(s = skip(s)) != '}') {
    char key[16];
    int k = 0;
    s = quoted(s, key, sizeof key);
    if (!s) return malformed;
    while (k < 3 && strcmp(keys[k], key)) k++;
    s = skip(s);
    if (k == 3 || seen >> k & 1 || *s++ != ':') return malformed;
    seen |= 1u << k;
    s = skip(s);
    s = k == 0 ? parse_descr(s, h, &error) : k == 1 ? parse_order(s, &error) : parse_shape(s, h, &error);
    if (!s) return error;
    s = skip(s);
    if (*s == ',')
      s++;
    else if (*s != '}')
      return malformed;
  }
  if (*skip(s + 1)) return malformed;
  return seen == 7 ? NULL : "has a header without descr, fortran_order or shape";
}

/* --- reading --------------------------------------------------------------------------------------- */

/* Leaves f at the first byte of the data. Returns what is wrong, or NULL. */
static const char *read_header(FILE *f, header_t *h, int64_t *data_at) {
  unsigned char start[12];
  if (fread(start, 1, 10, f) != 10 || memcmp(start, "\x93NUMPY", 6)) return "is not a .npy file";
  if (start[6] < 1 || start[6] > 3 || start[7] != 0) return "has an unknown .npy format version";
  size_t length = start[8] | (size_t)start[9] << 8, prefix = 10;
  if (start[6] > 1) {
    if (fread(start + 10, 1, 2, f) != 2) return "ends inside its header";
    length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
    prefix = 12;
  }
  if (length > MAX_HEADER) return "has a header of more than 10000 bytes";
  char text[MAX_HEADER + 1];
  if (fread(text, 1, length, f) != length) return "ends inside its header";
  if (memchr(text, 0, length)) return "has a malformed header";
  text[length] = 0;
  *data_at = (int64_t)(prefix + length);
  return parse_header(text, h);
}

/* Elements of `shape`, or -1 if their bytes would pass 2^62. */
static int64_t count_elements(const header_t *h) {
  int64_t count = 1;
  for (int i = 0; i < h->dims; i++)
    if (h->shape[i] == 0) return 0;
  for (int i = 0; i < h->dims; i++) {
    if (count > ((int64_t)1 << 59) / h->shape[i]) return -1;
    count *= h->shape[i];
  }
  return count;
}

static float element(const char *raw, int width) {
  if (width == 2) {
    fp16_t x;
    memcpy(&x, raw, 2);
    return fa_from_fp16(x);
  }
  if (width == 4) {
    float x;
    memcpy(&x, raw, 4);
    return x;
  }
  double x;
  memcpy(&x, raw, 8);
  return (float)x;
}

void fa_npy_lose(fa_npy_lost_t *lost, int64_t at) {
  if (!lost->count++ || at < lost->first) lost->first = at;
}

static bool lost_in_fp32(const char *raw, int width, float rounded) {
  double x;
  if (width != 8 || isfinite(rounded)) return false;
  memcpy(&x, raw, 8);
  return isfinite(x);
}

static bool read_data(FILE *f, int width, int64_t count, float *data, fa_npy_lost_t *lost) {
  char raw[8192];
  int64_t chunk = (int64_t)sizeof raw / width;
  for (int64_t i = 0; i < count; i += chunk) {
    int64_t n = count - i < chunk ? count - i : chunk;
    if (fread(raw, (size_t)width, (size_t)n, f) != (size_t)n) return false;
    for (int64_t j = 0; j < n; j++) {
      const char *one = raw + j * width;
      data[i + j] = element(one, width);
      if (lost_in_fp32(one, width, data[i + j])) fa_npy_lose(lost, i + j);
    }
  }
  return true;
}

static fa_status_t load(FILE *f, const char *path, float **data, int64_t shape[4], fa_npy_lost_t *lost,
                        fa_reason_t *why) {
  struct stat info;
  if (fstat(fileno(f), &info) || !S_ISREG(info.st_mode))
    return fa_say(why, FA_INVALID, "%.160s is not a regular file", path);
  header_t h = {0};
  int64_t data_at = 0;
  const char *error = read_header(f, &h, &data_at);
  if (error) return fa_say(why, FA_INVALID, "%.160s %s", path, error);
  if (h.dims != 4)
    return fa_say(why, FA_INVALID, "%.120s has %d dimension%s; 4 are wanted, [batch][heads][rows][dim]", path,
                  h.dims, h.dims == 1 ? "" : "s");
  int64_t count = count_elements(&h), there = (int64_t)info.st_size - data_at;
  if (count < 0) return fa_say(why, FA_INVALID, "%.160s has a shape that is too large", path);
  if (count * h.width != there)
    return fa_say(why, FA_INVALID, "%.120s is damaged: its shape takes %lld bytes, %lld are there", path,
                  (long long)(count * h.width), (long long)there);
  void *memory; /* a sparse file can claim any size: ask for no more than there is */
  fa_reason_t reason = {""};
  if (fa_machine_cpu.alloc(&memory, (size_t)count * sizeof **data, &reason))
    return fa_say(why, FA_REFUSED, "%.120s: %.120s", path, reason.text);
  *data = memory;
  if (!read_data(f, h.width, count, *data, lost)) {
    fa_machine_cpu.release(memory);
    *data = NULL;
    return fa_say(why, FA_INVALID, "%.160s cannot be read to its end", path);
  }
  memcpy(shape, h.shape, sizeof h.shape);
  return FA_OK;
}

fa_status_t fa_npy_load(const char *path, float **data, int64_t shape[4], fa_npy_lost_t *lost,
                        fa_reason_t *why) {
  fa_npy_lost_t unused;
  if (!lost) lost = &unused;
  *data = NULL;
  *lost = (fa_npy_lost_t){0};
  struct stat info; /* looked at before opening, because opening a pipe would wait for its writer */
  if (stat(path, &info) == 0 && !S_ISREG(info.st_mode))
    return fa_say(why, FA_INVALID, "%.160s is not a regular file", path);
  FILE *f = fopen(path, "rb");
  if (!f) return fa_say(why, FA_INVALID, "cannot open %.160s: %s", path, strerror(errno));
  fa_status_t status = load(f, path, data, shape, lost, why);
  fclose(f);
  return status;
}

/* --- writing --------------------------------------------------------------------------------------- */

static bool write_all(FILE *f, const float *data, int dims, const int64_t *shape) {
  char text[256];
  int n = snprintf(text, sizeof text, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
  size_t count = 1;
  for (int i = 0; i < dims; i++) {
    n += snprintf(text + n, sizeof text - (size_t)n, "%lld, ", (long long)shape[i]);
    count *= (size_t)shape[i];
  }
  n += snprintf(text + n, sizeof text - (size_t)n, "), }");
  while ((10 + n + 1) % 64) text[n++] = ' '; /* NumPy aligns the data to 64 bytes */
  text[n++] = '\n';
  const unsigned char start[10] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
  return fwrite(start, 1, 10, f) == 10 && fwrite(text, 1, (size_t)n, f) == (size_t)n &&
         fwrite(data, sizeof *data, count, f) == count && fflush(f) == 0;
}

fa_status_t fa_npy_save(const char *path, const float *data, int dims, const int64_t *shape,
                        fa_reason_t *why) {
  size_t size = strlen(path) + 32;
  char *temporary = malloc(size);
  if (!temporary) return fa_say(why, FA_REFUSED, "no memory to save %.160s", path);
  snprintf(temporary, size, "%s.%ld.part", path, (long)getpid());
  FILE *f = fopen(temporary, "wb");
  if (!f) {
    fa_say(why, FA_INVALID, "cannot write %.160s: %s", path, strerror(errno));
    free(temporary);
    return FA_INVALID;
  }
  errno = 0;
  bool written = write_all(f, data, dims, shape);
  int error = errno;
  if (fclose(f) && written) written = false, error = errno;
  if (written && rename(temporary, path)) written = false, error = errno;
  if (!written) remove(temporary);
  free(temporary);
  return written ? FA_OK : fa_say(why, FA_FAILED, "cannot write %.160s: %s", path, strerror(error));
}
