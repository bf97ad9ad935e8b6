/* device_cpu.c - the host as a device. */
#define _GNU_SOURCE
#include "device.h"
#include "simd.h"
#include "clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static void cpu_model(char *name, size_t size) {
  snprintf(name, size, "CPU");
  FILE *f = fopen("/proc/cpuinfo", "r");
  if (!f) return;
  char line[256];
  while (fgets(line, sizeof line, f))
    if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
      snprintf(name, size, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2);
      break;
    }
  fclose(f);
}

static fa_status_t cpu_open(char name[128], fa_reason_t *why) {
  (void)why;
  int threads = 1;
#ifdef _OPENMP
  threads = omp_get_max_threads();
#endif
  char model[96];
  cpu_model(model, sizeof model);
  snprintf(name, 128, "%s, %d thread%s, %s", model, threads, threads == 1 ? "" : "s", fa_isa_name());
  return FA_OK;
}

/* What the kernel thinks can be had without swapping, and no more than the process's own limit and that of its container. */
static size_t cpu_memory_free(void) {
  unsigned long long bytes = 0, kb;
  FILE *f = fopen("/proc/meminfo", "r");
  if (f) {
    char line[128];
    while (fgets(line, sizeof line, f))
      if (sscanf(line, "MemAvailable: %llu", &kb) == 1) bytes = kb * 1024;
    fclose(f);
  }
  if (!bytes) bytes = (unsigned long long)sysconf(_SC_PHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE);
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes)
    bytes = limit.rlim_cur;
  const size_t group = fa_cgroup_free("/sys/fs/cgroup", "/proc/self/cgroup");
  if (group < bytes) bytes = group;
  return (size_t)bytes;
}

static fa_status_t cpu_alloc(void **p, size_t bytes, fa_reason_t *why) {
  *p = NULL;
  const bool fits = bytes <= FA_NOT_WORTH_ASKING || bytes <= cpu_memory_free();
  if (fits && posix_memalign(p, 256, bytes ? bytes : 1) == 0) return FA_OK;
  return fa_say(why, FA_REFUSED, "%.3f GB of memory are wanted (%zu bytes), %.3f GB are available",
                (double)bytes / 1e9, bytes, (double)cpu_memory_free() / 1e9);
}

static fa_status_t cpu_copy(void *to, const void *from, size_t bytes, fa_reason_t *why) {
  (void)why;
  if (bytes && to != from) memcpy(to, from, bytes);
  return FA_OK;
}

static fa_status_t cpu_sync(fa_reason_t *why) {
  (void)why;
  return FA_OK;
}

static double started;

static fa_status_t cpu_timer_start(fa_reason_t *why) {
  (void)why;
  started = fa_seconds_now();
  return FA_OK;
}

static fa_status_t cpu_timer_stop(double *seconds, fa_reason_t *why) {
  (void)why;
  *seconds = fa_seconds_now() - started;
  return FA_OK;
}

const fa_machine_t fa_machine_cpu = {
    FA_CPU,   cpu_open, cpu_memory_free, cpu_alloc,      free,    cpu_copy,
    cpu_copy, cpu_sync, cpu_timer_start, cpu_timer_stop, cpu_sync /* inputs that fit a CPU's cache are used from there in real life */};
