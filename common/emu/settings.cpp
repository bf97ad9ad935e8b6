/* settings.cpp - the environment's say, and small services for the wrappers. */
#include "engine.h"

#include <stdlib.h>

static int number(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text && *text ? atoi(text) : otherwise;
}

static emu_settings_t read_settings(void) {
  emu_settings_t s = {};
  s.sms = number("EMU_SMS", 4);
  if (s.sms < 1) s.sms = 1;
  s.arch = number("EMU_ARCH", 80);
  s.races = number("EMU_RACES", 1) != 0;
  s.requests = number("EMU_REQUESTS", 0) != 0;
  const char *order = getenv("EMU_ORDER");
  s.order = !order || !strcmp(order, "late") ? EMU_LATE : !strcmp(order, "early") ? EMU_EARLY : EMU_RANDOM;
  s.seed = s.order == EMU_RANDOM ? strtoull(order, NULL, 10) : 0;
  return s;
}

static emu_settings_t *settings(void) {
  static emu_settings_t s = read_settings();
  return &s;
}
const emu_settings_t *emu_settings(void) {
  return settings();
}

extern "C" void fa_emu_count_requests(bool on) {
  settings()->requests = on;
}

int fa_emu_arch(void) {
  return emu_settings()->arch;
}

size_t fa_emu_shared_limit(void) {
  int sm = emu_settings()->arch;
  if (sm < 80) return 64 * 1024;
  if (sm == 86 || sm == 89 || sm >= 120) return 99 * 1024;
  return sm < 90 ? 163 * 1024 : SHARED_MAX;
}

void fa_emu_needs(int sm, const char *instruction, emu_place_t here) {
  if (emu_settings()->arch < sm)
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
uint32_t fa_emu_shared_offset(const void *p) {
  return (uint32_t)((const char *)p - current_thread()->warp->block->shared);
}
