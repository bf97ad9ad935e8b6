/* settings.cpp - the environment's say, and small services for the wrappers. */
#include "engine.h"

#include <stdlib.h>

static bool is_number(const char *text, long least, long most, long *n) {
  char *end;
  *n = strtol(text, &end, 10);
  return *text && !*end && *n >= least && *n <= most;
}

static bool read_order(emu_settings_t *s, const char *order) {
  long seed = 0;
  s->order = !strcmp(order, "late") ? EMU_LATE : !strcmp(order, "early") ? EMU_EARLY : EMU_RANDOM;
  bool known = s->order != EMU_RANDOM || is_number(order, 0, INT32_MAX, &seed);
  s->seed = (uint64_t)seed;
  return known;
}

static bool read_arch(emu_settings_t *s, const char *text) {
  static const int known[] = {75, 80, 86, 89, 90, 100, 120};
  long n;
  if (!is_number(text, 0, 1000, &n)) return false;
  for (int k : known)
    if (k == n) s->arch = k;
  return s->arch == n;
}

static emu_settings_t read_settings(void) {
  emu_settings_t s = {4, 80, EMU_LATE, 0, true, false, NULL};
  const char *sms = getenv("EMU_SMS"), *arch = getenv("EMU_ARCH"), *order = getenv("EMU_ORDER"),
             *races = getenv("EMU_RACES");
  long n;
  if (sms && *sms) {
    if (is_number(sms, 1, 1024, &n))
      s.sms = (int)n;
    else
      s.wrong = "EMU_SMS, the number of blocks that are resident together, is from 1 to 1024";
  }
  if (arch && *arch && !read_arch(&s, arch)) s.wrong = "EMU_ARCH is 75, 80, 86, 89, 90, 100 or 120";
  if (order && *order && !read_order(&s, order))
    s.wrong = "EMU_ORDER is late, early, or a number that seeds a random order";
  if (races && *races) {
    if (is_number(races, 0, 1, &n))
      s.races = n != 0;
    else
      s.wrong = "EMU_RACES is 1, or 0 for no checks of memory accesses";
  }
  return s;
}

emu_settings_t emu_settings_now = read_settings();

extern "C" void fa_emu_order(const char *order) {
  read_order(&emu_settings_now, order);
}
extern "C" void fa_emu_gpu(int sm, int sms) {
  emu_settings_now.arch = sm;
  emu_settings_now.sms = sms;
}
extern "C" void fa_emu_count_requests(bool on) {
  emu_settings_now.requests = on;
}
extern "C" bool fa_emu_counts_bytes(void) {
  return emu_settings_now.races;
}

int fa_emu_arch(void) noexcept {
  return emu_settings()->arch;
}

size_t fa_emu_shared_limit(void) {
  int sm = emu_settings()->arch;
  if (sm < 80) return 64 * 1024;
  if (sm == 86 || sm == 89 || sm >= 120) return 99 * 1024;
  return sm < 90 ? 163 * 1024 : SHARED_MAX;
}

void emu_lacks(int sm, const char *instruction, emu_place_t here) {
  if (emu_is_new("E09", emu_place_id(here)))
    emu_find("E09", "%s needs sm_%d; sm_%d is emulated (EMU_ARCH), at %s:%d", instruction, sm,
             emu_settings()->arch, here.file, here.line);
}

void fa_emu_count_flop(double matmul, double other) {
  emu_worker->count->matmul_flop += matmul;
  emu_worker->count->other_flop += other;
}
void fa_emu_count_exp(double special, double polynomial) {
  emu_worker->count->exp += special;
  emu_worker->count->exp_polynomial += polynomial;
}

void fa_emu_count_rescales(double done, double skipped) {
  emu_worker->count->rescales += done;
  emu_worker->count->rescales_skipped += skipped;
}

void *fa_emu_shared(size_t bytes, emu_place_t here) {
  block_t *b = current_thread()->warp->block;
  if (bytes > b->shared_bytes)
    if (emu_is_new("E06", emu_place_id(here)))
      emu_find("E06", "%s:%d uses %zu bytes of shared memory, but %s was launched with %zu", here.file,
               here.line, bytes, emu_worker->launch->kernel, b->shared_bytes);
  return b->shared;
}
