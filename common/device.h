/* device.h - memory and time on the device that a step runs on: the host, a GPU, or the emulator.
 * Every function reports failure with a status and one line; none exits. */
#ifndef FA_DEVICE_H
#define FA_DEVICE_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fa_machine {
  fa_device_t kind;
  /* One line for reports, e.g. "NVIDIA H200 (sm_90, 132 SMs, driver 580.65)". FA_REFUSED with the
   * reason if there is no such device: no nvcc at build time, no driver, no card. */
  fa_status_t (*open)(char name[128], fa_reason_t *why);
  /* Free memory in bytes, as far as it is known. */
  size_t (*memory_free)(void);
  fa_status_t (*alloc)(void **p, size_t bytes,
                       fa_reason_t *why); /* aligned to 256; 0 bytes: still a pointer */
  void (*release)(void *p);
  fa_status_t (*upload)(void *device, const void *host, size_t bytes, fa_reason_t *why);
  fa_status_t (*download)(void *host, const void *device, size_t bytes, fa_reason_t *why);
  fa_status_t (*sync)(fa_reason_t *why); /* also reports what failed since the last one */
  /* Seconds between the two, measured on the device (events on a GPU, a monotonic clock elsewhere). */
  fa_status_t (*timer_start)(fa_reason_t *why);
  fa_status_t (*timer_stop)(double *seconds, fa_reason_t *why);
  /* Overwrites the last-level cache, so that repeats do not find their input there. */
  fa_status_t (*flush_cache)(fa_reason_t *why);
} fa_machine_t;

/* Never NULL. Where this build has no such device, its open() refuses. */
const fa_machine_t *fa_machine(fa_device_t kind);

extern const fa_machine_t fa_machine_cpu;
/* So few bytes are allocated without asking first what is free, which reads several files of the system. */
enum { FA_NOT_WORTH_ASKING = 1 << 20 };
/* What the control groups named in the file `groups` (/proc/self/cgroup) still allow, of those mounted below `mounts`; SIZE_MAX
 * if there is no limit. */
size_t fa_cgroup_free(const char *mounts, const char *groups);
extern const fa_machine_t fa_machine_emu;
/* The emulator's: what its next launches do. Not for use while one runs. */
void fa_emu_order(const char *order); /* late, early, or a number: as EMU_ORDER (notes/findings.md) */
void fa_emu_gpu(int sm, int sms);     /* as EMU_ARCH and EMU_SMS: 90 for sm_90, and how many SMs */
void fa_emu_count_requests(bool on);  /* sectors and bank conflicts too, which take time to put together */
int64_t fa_emu_launches(void);        /* since the program began */
bool fa_emu_counts_bytes(void); /* false with EMU_RACES=0: bytes are counted where accesses are checked */
#if FA_HAVE_GPU
extern const fa_machine_t fa_machine_gpu;
#endif

#ifdef __cplusplus
}
#endif
#endif
