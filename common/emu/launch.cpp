/* launch.cpp - a launch: workers, their SMs, and the blocks that these are given. */
#include "engine.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <atomic>
#ifdef _OPENMP
#include <omp.h>
#endif

/* --- blocks on SMs ---------------------------------------------------------------------------------- */

enum { GRANULES = SHARED_MAX / GRANULE };

static bool start_block(worker_t *w, block_t *b, int64_t index) {
  launch_t *l = w->launch;
  char *shared = w->arena + (size_t)(b - w->block) * SHARED_STRIDE;
  thread_t *threads = b->thread;
  if (!b->shadow) b->shadow = (shadow_t *)malloc(GRANULES * sizeof *b->shadow);
  if (!b->part) b->part = (shadow_t *)malloc(GRANULES * (GRANULE / 2) * sizeof *b->part);
  if (!b->split) b->split = (part_t *)malloc(GRANULES * sizeof *b->split);
  if (!threads) threads = (thread_t *)calloc(MAX_WARPS * WARP, sizeof *threads);
  b->thread = threads;
  if (!b->shadow || !b->part || !b->split || !threads) return false;
  b->worker = w;
  b->index = index;
  b->threads = b->live = l->threads;
  b->warps = l->threads / WARP;
  b->used = true;
  b->shared = shared;
  b->shared_bytes = l->shared_bytes;
  memset(b->barrier, 0, sizeof b->barrier);
  const size_t granules = (l->shared_bytes + GRANULE - 1) / GRANULE;
  memset(b->shadow, 0, granules * sizeof *b->shadow);
  memset(b->split, WHOLE, granules);
  memset(shared, 0xff, l->shared_bytes); /* NaN in every floating type */
  for (int k = 0; k < b->warps; k++) {
    warp_t *warp = &b->warp[k];
    warp->block = b;
    warp->index = k;
    warp->thread = threads + k * WARP;
    warp->alive = warp->ready = ~0u;
    warp->arrived = 0;
    memset(&warp->clock, 0, sizeof warp->clock);
    warp->clock.at[k] = 1;
    memset(warp->copy_count, 0, sizeof warp->copy_count);
    warp->ahead_count = 0;
    emu_requests_free(warp); /* what a launch left that was given up */
    for (int lane = 0; lane < WARP; lane++) {
      thread_t *t = warp->thread + lane;
      if (!t->fiber.stack && !fiber_new(&t->fiber)) return false;
      fiber_prepare(&t->fiber, emu_thread_main, (size_t)lane * 128); /* all of a page */
      t->index = (unsigned)(k * WARP + lane);
      t->warp = warp;
      t->lane = lane;
      t->done = false;
      t->waits = NULL;
      t->cp_group = 1;
      t->cp_landed = t->cp_last = 0;
      t->depth = 0;
    }
  }
  return true;
}

/* Runs blocks until `next` has none left. */
static void run_worker(worker_t *w, std::atomic<int64_t> *next) {
  for (;;) {
    int used = 0;
    for (int s = 0; s < w->blocks && !w->stop; s++) {
      block_t *b = &w->block[s];
      if (b->used && b->live == 0) b->used = false;
      if (!b->used) {
        int64_t index = next->fetch_add(1);
        if (index < w->launch->blocks && !start_block(w, b, index)) {
          if (emu_is_new("E12", 0))
            emu_find("E12", "not enough memory for %d threads of %s", w->launch->threads, w->launch->kernel);
          w->stop = true;
        }
      }
      used += b->used;
    }
    if (w->stop || !used) return;
    if (!emu_run_threads(w)) return;
  }
}

static void release_worker(worker_t *w) {
  for (int s = 0; w && s < w->room; s++) {
    block_t *b = w->block + s;
    for (int t = 0; b->thread && t < MAX_WARPS * WARP; t++) fiber_delete(&b->thread[t].fiber);
    for (warp_t &warp : b->warp) {
      for (copy_t *copies : warp.copies) free(copies);
      free(warp.ahead);
      emu_requests_free(&warp);
    }
    free(b->thread);
    free(b->shadow);
    free(b->part);
    free(b->split);
  }
  if (!w) return;
  if (w->arena) munmap(w->arena - SHARED_STRIDE, ((size_t)w->room + 2) * SHARED_STRIDE);
  free(w->block);
  free(w);
}

/* A worker's memory is kept for the next launch on the same OS thread, and ends with it. */
struct kept_t {
  worker_t *worker;
  ~kept_t() { release_worker(worker); }
};
static thread_local kept_t keeper;

static worker_t *get_worker(int sms) {
  worker_t *&kept = keeper.worker;
  if (!kept) kept = (worker_t *)calloc(1, sizeof *kept);
  if (!kept) return NULL;
  if (kept->room < emu_settings()->sms) { /* for all SMs: another launch may give this worker more of them */
    size_t old = (size_t)kept->room, all = (size_t)emu_settings()->sms;
    block_t *blocks = (block_t *)realloc(kept->block, all * sizeof *blocks);
    if (!blocks) return NULL;
    memset((void *)(blocks + old), 0, (all - old) * sizeof *blocks);
    kept->block = blocks;
    void *arena =
        mmap(NULL, (all + 2) * SHARED_STRIDE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) return NULL;
    if (kept->arena) munmap(kept->arena - SHARED_STRIDE, (old + 2) * SHARED_STRIDE);
    kept->arena = (char *)arena + SHARED_STRIDE;
    kept->room = (int)all;
  }
  kept->blocks = sms;
  for (int s = 0; s < sms; s++) kept->block[s].used = false;
  kept->stop = false;
  kept->current = NULL;
  return kept;
}

static fa_status_t check_launch(const launch_t *l, fa_reason_t *why) {
  size_t most = fa_emu_shared_limit();
  if (emu_settings()->wrong) return fa_say(why, FA_REFUSED, "%s", emu_settings()->wrong);
  if (l->threads <= 0 || l->threads > MAX_WARPS * WARP || l->threads % WARP)
    return fa_say(why, FA_FAILED, "%s: %d threads in a block; it must be a multiple of 32 up to 1024",
                  l->kernel, l->threads);
  if (l->blocks < 0 || l->blocks > INT32_MAX)
    return fa_say(why, FA_FAILED, "%s: %lld blocks; at most 2^31 - 1 can be launched", l->kernel,
                  (long long)l->blocks);
  if (l->shared_bytes > most)
    return fa_say(why, FA_FAILED, "%s: %zu bytes of shared memory; sm_%d has %zu for a block", l->kernel,
                  l->shared_bytes, emu_settings()->arch, most);
  return FA_OK;
}

static int worker_number(void) {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

static std::atomic<int64_t> launches;
extern "C" int64_t fa_emu_launches(void) {
  return launches;
}

fa_status_t fa_emu_launch(const char *kernel, int64_t blocks, int threads, size_t shared_bytes,
                          emu_body_t *body, void *arguments, size_t argument_bytes, fa_reason_t *why) {
  launch_t launch = {kernel, blocks, threads, shared_bytes, body, arguments, argument_bytes};
  fa_status_t status = check_launch(&launch, why);
  if (status || blocks == 0) return status;
  launches++;
  std::lock_guard<std::recursive_mutex> guard(emu_lock);
  emu_memory_new_launch();
  emu_findings_clear();
  int sms = emu_settings()->sms, workers = 1;
#ifdef _OPENMP
  if (emu_settings()->order != EMU_RANDOM) workers = omp_get_max_threads();
#endif
  if (workers > sms) workers = sms;
  if (workers > blocks) workers = (int)blocks;
  std::atomic<int64_t> next(0);
  std::atomic<bool> no_memory(false);
#pragma omp parallel num_threads(workers)
  {
    worker_t *w = get_worker(sms / workers + (worker_number() < sms % workers));
    if (!w)
      no_memory = true;
    else {
      fa_count_t count = {};
      w->launch = &launch;
      w->count = &count;
      w->shared_touched = 0;
      w->random = emu_settings()->seed * 0x9e3779b97f4a7c15u + 1;
      w->last_hit = NULL;
      emu_worker = w;
      run_worker(w, &next);
      emu_worker = NULL;
      count.shared_bytes = (double)w->shared_touched;
      fa_count_add(&count);
    }
  }
  if (no_memory) return fa_say(why, FA_REFUSED, "not enough memory for the emulator");
  if (emu_finding_count()) return fa_say(why, FA_FAILED, "%s: %s", kernel, emu_main_finding());
  return FA_OK;
}
