/* memory.cpp - global memory: one large reserved range, so that every address tells whether it belongs to a
 * buffer, to the gap beside one, or to nothing. Gaps can be touched: the access is reported, the run goes on. */
#include "engine.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <algorithm>
#include <mutex>
#include <vector>

#include "memory.h"

static const size_t GAP = 4096;
/* Shadow up to this size is cleared by writing to it: a page that is first read and then written costs two faults, and
 * an interrupt to every processor. */
static const size_t CLEARED = (size_t)64 << 20;
char *emu_region;
static size_t top; /* bytes given out so far */
std::recursive_mutex emu_lock;
static std::vector<allocation_t *> live; /* ascending by address */
/* Kernels do not allocate: within a launch `live` does not change, and a worker may remember its last hit. */

static void *reserve(size_t bytes) {
  void *p = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                 -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static size_t granules(const allocation_t *a) {
  return a->bytes / GRANULE + 1;
}

static void release(allocation_t *a) {
  const size_t n = granules(a);
  if (a->shadow) munmap(a->shadow, n * sizeof *a->shadow);
  if (a->half) munmap(a->half, n * (GRANULE / 2) * sizeof *a->half);
  if (a->split) munmap(a->split, n);
  if (a->written) munmap(a->written, n);
  free(a);
}

void *emu_alloc(size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(emu_lock);
  if (!emu_region) emu_region = (char *)reserve(EMU_REGION);
  size_t room = (bytes + GAP - 1) / GAP * GAP + GAP;
  if (!emu_region || top + GAP + room > EMU_REGION) return NULL;
  allocation_t *a = (allocation_t *)calloc(1, sizeof *a);
  if (!a) return NULL;
  a->base = emu_region + top + GAP;
  a->bytes = bytes;
  const size_t n = granules(a);
  a->shadow = (global_shadow_t *)reserve(n * sizeof *a->shadow);
  a->half = (global_shadow_t *)reserve(n * (GRANULE / 2) * sizeof *a->half);
  a->split = (uint8_t *)reserve(n);
  a->written = (uint8_t *)reserve(n);
  if (!a->shadow || !a->half || !a->split || !a->written) {
    release(a);
    return NULL;
  }
  top += room;
  live.push_back(a); /* addresses only grow: the order is kept */
  return a->base;
}

static std::vector<allocation_t *>::iterator find(const void *p) {
  auto next = std::upper_bound(live.begin(), live.end(), (const char *)p,
                               [](const char *x, const allocation_t *a) { return x < a->base; });
  return next == live.begin() ? live.end() : next - 1;
}

static void free_buffer(void *p, bool last) {
  if (!p) return;
  std::lock_guard<std::recursive_mutex> guard(emu_lock);
  auto at = find(p);
  if (at == live.end() || (*at)->base != p) return;
  allocation_t *a = *at;
  madvise(a->base, a->bytes, MADV_DONTNEED);
  if (last && a == live.back()) top = (size_t)(a->base - emu_region) - GAP;
  live.erase(at);
  release(a);
}
void emu_free(void *p) {
  free_buffer(p, false);
}
void emu_free_last(void *p) {
  free_buffer(p, true);
}

void emu_mark_written(void *p, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(emu_lock);
  auto at = find(p);
  if (at == live.end()) return;
  size_t first = (size_t)((char *)p - (*at)->base) / 2, last = first + (bytes + 1) / 2;
  for (size_t h = first; h < last; h++) (*at)->written[h / 8] |= (uint8_t)(1u << (h % 8));
}

allocation_t *emu_find_allocation(worker_t *w, const void *p) {
  allocation_t *a = w->last_hit;
  if (a && (const char *)p >= a->base && (const char *)p < a->base + a->bytes) return a;
  auto at = find(p);
  if (at == live.end()) return NULL;
  return w->last_hit = *at;
}

void emu_memory_new_launch(void) {
  /* Earlier launches happen before this one. */
  for (allocation_t *a : live) {
    const size_t n = granules(a), bytes = n * sizeof *a->shadow;
    if (bytes <= CLEARED) {
      memset(a->shadow, 0, bytes);
      memset(a->split, 0, n);
    } else {
      madvise(a->shadow, bytes, MADV_DONTNEED);
      madvise(a->split, n, MADV_DONTNEED);
    }
  }
}
