/* device_emu.cpp - the emulator as a device. */
#include "../device.h"
#include "engine.h"
#include "memory.h"

static fa_status_t emu_open(char name[128], fa_reason_t *why) {
  if (emu_settings()->wrong) return fa_say(why, FA_REFUSED, "%s", emu_settings()->wrong);
  snprintf(name, 128, "emulator (sm_%d, %d SMs)", emu_settings()->arch, emu_settings()->sms);
  return FA_OK;
}

static size_t emu_memory_free(void) {
  return fa_machine_cpu.memory_free() / 16; /* the shadow takes the rest */
}

static fa_status_t emu_allocate(void **p, size_t bytes, fa_reason_t *why) {
  const bool fits = bytes <= FA_NOT_WORTH_ASKING || bytes <= emu_memory_free();
  *p = fits ? emu_alloc(bytes) : NULL;
  if (fits && !*p)
    return fa_say(why, FA_REFUSED,
                  "the emulator could not reserve addresses for %zu bytes and its records of them", bytes);
  if (!*p)
    return fa_say(why, FA_REFUSED, "%.3f GB of emulated memory are wanted (%zu bytes), %.3f GB are available",
                  (double)bytes / 1e9, bytes, (double)emu_memory_free() / 1e9);
  return FA_OK;
}

static fa_status_t emu_upload(void *device, const void *host, size_t bytes, fa_reason_t *why) {
  (void)why;
  memcpy(device, host, bytes);
  emu_mark_written(device, bytes);
  return FA_OK;
}

static fa_status_t emu_download(void *host, const void *device, size_t bytes, fa_reason_t *why) {
  (void)why;
  memcpy(host, device, bytes);
  return FA_OK;
}

static fa_status_t emu_sync(fa_reason_t *why) {
  (void)why; /* launches are complete when they return, and report for themselves */
  return FA_OK;
}

/* How long the emulator takes says nothing about a GPU, so nobody gets to see it as a kernel's time. */
static fa_status_t emu_timer_start(fa_reason_t *why) {
  return fa_say(why, FA_REFUSED, "the emulator has no times to measure: run on a GPU, or count with --count");
}
static fa_status_t emu_timer_stop(double *seconds, fa_reason_t *why) {
  (void)seconds;
  return emu_timer_start(why);
}

extern "C" const fa_machine_t fa_machine_emu = {
    FA_EMU,       emu_open, emu_memory_free, emu_allocate,   emu_free, emu_upload,
    emu_download, emu_sync, emu_timer_start, emu_timer_stop, emu_sync};
