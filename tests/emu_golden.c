/* emu_golden.c - running a vector, comparing words, and the files under tests/golden. */
#include "emu_vectors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

size_t vector_in(const vector_t *v) {
  return (size_t)v->blocks * (size_t)wrappers[v->kernel].in;
}
size_t vector_out(const vector_t *v) {
  return (size_t)v->blocks * (size_t)wrappers[v->kernel].out;
}

uint32_t *vector_inputs(const vector_t *v) {
  uint32_t *in = calloc(vector_in(v), sizeof *in);
  for (int b = 0; in && b < v->blocks; b++) v->fill(b, in + (size_t)b * (size_t)wrappers[v->kernel].in);
  return in;
}

uint32_t *vector_defined(const vector_t *v, const uint32_t *in) {
  const wrapper_t *w = &wrappers[v->kernel];
  uint32_t *out = calloc(vector_out(v), sizeof *out);
  for (int b = 0; out && b < v->blocks; b++)
    w->define(in + (size_t)b * (size_t)w->in, out + (size_t)b * (size_t)w->out);
  return out;
}

fa_status_t vector_run(const vector_t *v, const fa_machine_t *m, run_wrapper_t *run, const uint32_t *in,
                       uint32_t *out, fa_reason_t *why) {
  void *device_in = NULL, *device_out = NULL;
  size_t in_bytes = vector_in(v) * sizeof *in, out_bytes = vector_out(v) * sizeof *out;
  fa_status_t s = m->alloc(&device_in, in_bytes, why);
  if (!s) s = m->alloc(&device_out, out_bytes, why);
  if (!s) s = m->upload(device_in, in, in_bytes, why);
  if (!s) s = run(v->kernel, v->blocks, device_in, device_out, why);
  if (!s) s = m->sync(why);
  if (!s) s = m->download(out, device_out, out_bytes, why);
  if (device_in) m->release(device_in);
  if (device_out) m->release(device_out);
  return s;
}

/* --- comparing --------------------------------------------------------------------------------------------- */

/* A number's place in the order of all of its type: neighbours are 1 apart, the two zeros are one. */
static int64_t place(uint32_t bits, uint32_t sign, uint32_t infinity) {
  uint32_t rest = bits & (sign - 1);
  if (rest > infinity) return INT64_C(1) << 40; /* NaN */
  return bits & sign ? -(int64_t)rest : (int64_t)rest;
}

static int64_t distance(vector_kind_t kind, int ulps, uint32_t a, uint32_t b) {
  bool fp16 = kind == ONE_FP16 || kind == TWO_FP16;
  uint32_t sign = kind == ONE_FP32 ? 0x80000000u : 0x8000u;
  uint32_t infinity = kind == ONE_FP32 ? 0x7f800000u : fp16 ? 0x7c00u : 0x7f80u;
  if (a == b) return 0;
  if (kind == WORDS) return INT64_MAX;
  int64_t d = place(a, sign, infinity) - place(b, sign, infinity);
  if (d == 0 && !ulps && (a & (sign - 1)) == 0) return INT64_MAX; /* 0 and -0, where bits count */
  return d < 0 ? -d : d;
}

int64_t words_differ(vector_kind_t kind, int ulps, const uint32_t *a, const uint32_t *b, size_t count,
                     int64_t *most) {
  int64_t first = -1;
  *most = 0;
  for (size_t i = 0; i < count; i++) {
    int64_t d;
    if (kind == TWO_FP16 || kind == TWO_BF16) {
      int64_t high = distance(kind, ulps, a[i] >> 16, b[i] >> 16);
      d = distance(kind, ulps, a[i] & 0xffff, b[i] & 0xffff);
      if (high > d) d = high;
    } else
      d = distance(kind, ulps, a[i], b[i]);
    if (d > *most) *most = d;
    if (d > ulps && first < 0) first = (int64_t)i;
  }
  return first;
}

/* FNV-1a over the words, every NaN the same. */
uint32_t digest_of(vector_kind_t kind, const uint32_t *words, size_t count) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < count; i++) {
    uint32_t x = words[i], rest = x & 0x7fffffffu;
    if (kind == ONE_FP32 && rest > 0x7f800000u) x = 0x7fffffffu;
    if (kind == ONE_FP16 && (x & 0x7fffu) > 0x7c00u) x = 0x7fffu;
    if (kind == ONE_BF16 && (x & 0x7fffu) > 0x7f80u) x = 0x7fffu;
    for (int k = 0; k < 4; k++) h = (h ^ (x >> (8 * k) & 0xff)) * 16777619u;
  }
  return h;
}

uint32_t *golden_words(const vector_t *v, const uint32_t *out, size_t *count) {
  size_t all = vector_out(v);
  *count = v->digest ? (all + DIGEST_WORDS - 1) / DIGEST_WORDS : all;
  uint32_t *words = calloc(*count, sizeof *words);
  if (!words) return NULL;
  if (!v->digest) memcpy(words, out, all * sizeof *out);
  for (size_t i = 0; v->digest && i < *count; i++) {
    size_t from = i * DIGEST_WORDS, n = all - from < DIGEST_WORDS ? all - from : DIGEST_WORDS;
    words[i] = digest_of(wrappers[v->kernel].kind, out + from, n);
  }
  return words;
}

/* --- files ------------------------------------------------------------------------------------------------- */

static void golden_path(const vector_t *v, char path[160]) {
  snprintf(path, 160, "tests/golden/%s.txt", v->name);
}

bool golden_exists(const vector_t *v) {
  char path[160];
  golden_path(v, path);
  return access(path, F_OK) == 0;
}

fa_status_t golden_write(const vector_t *v, uint32_t inputs, const uint32_t *words, size_t count,
                         const char *device, fa_reason_t *why) {
  char path[160], date[16], rule[64] = "bit for bit";
  time_t now = time(NULL);
  golden_path(v, path);
  strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
  if (v->ulps) snprintf(rule, sizeof rule, "within %d ulp", v->ulps);
  if (v->digest) snprintf(rule, sizeof rule, "a digest for each %d words", DIGEST_WORDS);
  FILE *f = fopen(path, "w");
  if (!f) return fa_say(why, FA_REFUSED, "%s cannot be written", path);
  fprintf(f, "# %s on %s\n# recorded %s by make record-golden; to be met %s\ninputs %08" PRIx32 " words %zu",
          v->name, device, date, rule, inputs, count);
  for (size_t i = 0; i < count; i++) fprintf(f, "%c%08" PRIx32, i % 8 ? ' ' : '\n', words[i]);
  fputc('\n', f);
  if (ferror(f) | fclose(f)) return fa_say(why, FA_FAILED, "%s was not written to its end", path);
  return FA_OK;
}

static bool read_words(FILE *f, uint32_t *words, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (fscanf(f, "%" SCNx32, &words[i]) != 1) return false;
  return fscanf(f, " %*c") == EOF; /* nothing follows */
}

uint32_t *golden_read(const vector_t *v, uint32_t inputs, size_t count, char source[160], fa_reason_t *why) {
  char path[160], line[160];
  uint32_t recorded_inputs = 0, *words = NULL;
  size_t recorded_count = 0;
  golden_path(v, path);
  FILE *f = fopen(path, "r");
  if (!f) {
    fa_say(why, FA_REFUSED, "%s cannot be read", path);
    return NULL;
  }
  bool right = fgets(source, 160, f) && fgets(line, sizeof line, f) &&
               fscanf(f, "inputs %" SCNx32 " words %zu", &recorded_inputs, &recorded_count) == 2;
  if (!right)
    fa_say(why, FA_FAILED, "%s does not begin as make record-golden writes it", path);
  else if (recorded_inputs != inputs || recorded_count != count)
    fa_say(why, FA_FAILED, "%s was recorded for other inputs: make record-golden on a GPU", path);
  else if ((words = malloc(count * sizeof *words)) != NULL && !read_words(f, words, count)) {
    fa_say(why, FA_FAILED, "%s does not hold %zu words", path, count);
    free(words);
    words = NULL;
  }
  source[strcspn(source, "\n")] = 0;
  fclose(f);
  return words;
}
