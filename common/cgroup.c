/* cgroup.c - what Linux's control groups leave of the memory: a container's limit, of which /proc/meminfo knows nothing. */
#include "device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 4096 };

/* The number that a file begins with, or that follows `key` in one of its lines. False if there is none: "max". */
static bool read_number(const char *folder, const char *name, const char *key, uint64_t *value) {
  char path[LONGEST + 64], line[256];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path) return false;
  FILE *f = fopen(path, "r");
  if (!f) return false;
  bool found = false;
  const size_t length = strlen(key);
  while (!found && fgets(line, sizeof line, f))
    if (!strncmp(line, key, length) && line[length] >= '0' && line[length] <= '9') {
      *value = strtoull(line + length, NULL, 10);
      found = true;
    }
  fclose(f);
  return found;
}

/* Names of the same things in both versions. */
typedef struct version {
  const char *below, *limit, *used, *files;
} version_t;
static const version_t v1 = {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                             "total_inactive_file "};
static const version_t v2 = {"", "memory.max", "memory.current", "inactive_file "};

/* Of one group. Files that nobody uses count as used there, and make room when it is needed. */
static uint64_t group_free(const char *folder, const version_t *v) {
  uint64_t limit, used = 0, files = 0;
  if (!read_number(folder, v->limit, "", &limit)) return UINT64_MAX;
  if (!read_number(folder, v->used, "", &used)) return limit;
  if (read_number(folder, "memory.stat", v->files, &files)) used -= files < used ? files : used;
  return used < limit ? limit - used : 0;
}

/* A group and all around it, since each has a limit. A group's name may be one that only the host sees: then a container
 * finds its limit at the top. */
static uint64_t least_free(const char *mounts, const char *group, const version_t *v) {
  char folder[LONGEST];
  const size_t top = strlen(mounts) + strlen(v->below);
  uint64_t least = UINT64_MAX;
  if ((size_t)snprintf(folder, sizeof folder, "%s%s%s", mounts, v->below, group) >= sizeof folder)
    return least;
  for (char *end = folder + strlen(folder); end; end = strrchr(folder + top, '/')) {
    *end = 0;
    const uint64_t here = group_free(folder, v);
    if (here < least) least = here;
  }
  return least;
}

/* Is "memory" one of the names between the colons? */
static bool has_memory(const char *names, const char *end) {
  for (size_t n; names < end; names += n + 1) {
    n = strcspn(names, ",:");
    if (n == 6 && !strncmp(names, "memory", 6)) return true;
  }
  return false;
}

size_t fa_cgroup_free(const char *mounts, const char *groups) {
  uint64_t least = SIZE_MAX;
  FILE *f = fopen(groups, "r");
  if (!f) return (size_t)least;
  char line[LONGEST]; /* "4:memory:/group" in version 1, "0::/group" in version 2 */
  while (fgets(line, sizeof line, f)) {
    line[strcspn(line, "\n")] = 0;
    const char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) continue;
    const bool second = group == names + 1;
    if (!second && !has_memory(names + 1, group)) continue;
    const uint64_t here = least_free(mounts, group + 1, second ? &v2 : &v1);
    if (here < least) least = here;
  }
  fclose(f);
  return (size_t)least;
}
