/* sched.cpp - launches, SMs, and which thread runs next. */
#include "engine.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <atomic>
#ifdef _OPENMP
#include <omp.h>
#endif

__thread worker_t *emu_worker;

/* --- choosing --------------------------------------------------------------------------------------- */

static thread_t *lowest_ready(warp_t *w) {
  return w->thread + __builtin_ctz(w->ready);
}

/* In order: the rest of this warp, then the next warp, then the next SM. A lane thus runs as far as it can
 * before another starts, which is the latest that the others can be. */
static thread_t *next_in_order(worker_t *w) {
  const thread_t *t = w->current;
  int sm = 0, warp = 0;
  if (t) {
    sm = (int)(t->warp->block - w->block);
    warp = t->warp->index;
  }
  for (int n = 0; n <= w->blocks; n++) {
    block_t *b = &w->block[(sm + n) % w->blocks];
    if (!b->used) continue;
    int from = n == 0 ? warp : 0, to = n == w->blocks ? warp : b->warps;
    for (int k = from; k < to; k++)
      if (b->warp[k].ready) return lowest_ready(&b->warp[k]);
  }
  return NULL;
}

/* Copies may land whenever threads change: those of any warp, also of one that waits. */
static thread_t *next_at_random(worker_t *w) {
  int total = 0;
  for (int s = 0; s < w->blocks; s++)
    if (w->block[s].used) total += w->block[s].warps;
  if (!total) return NULL;
  int at = (int)(emu_random(w) % (unsigned)total);
  warp_t *found = NULL; /* the first ready one from there on, in a circle */
  for (int round = 0; round < 2 && !found; round++)
    for (int s = 0, n = 0; s < w->blocks && !found; s++)
      for (int k = 0; w->block[s].used && k < w->block[s].warps && !found; k++, n++) {
        warp_t *warp = &w->block[s].warp[k];
        if (!round && n == at) emu_land_some(warp);
        if (warp->ready && (round || n >= at)) found = warp;
      }
  if (!found) return NULL;
  int skip = (int)(emu_random(w) % (unsigned)__builtin_popcount(found->ready));
  uint32_t lanes = found->ready;
  while (skip--) lanes &= lanes - 1;
  return found->thread + __builtin_ctz(lanes);
}

static inline thread_t *next_thread(worker_t *w) {
  if (emu_settings()->order == EMU_RANDOM) return next_at_random(w);
  return w->current && w->current->warp->ready ? lowest_ready(w->current->warp) : next_in_order(w);
}

/* --- switching -------------------------------------------------------------------------------------- */

static void go_to(worker_t *w, fiber_t *from, thread_t *to) {
  w->current = to;
  to->warp->ready &= ~(1u << to->lane);
  fiber_switch(from, &to->fiber);
}

static void go_to_main(worker_t *w, thread_t *from) {
  fiber_switch(&from->fiber, &w->main);
}

void emu_block_thread(const char *waits, emu_place_t place) {
  worker_t *w = emu_worker;
  thread_t *me = w->current;
  me->waits = waits;
  me->place = place;
  thread_t *next = w->stop ? NULL : next_thread(w);
  if (next == me) {
    me->warp->ready &= ~(1u << me->lane);
  } else if (next) {
    go_to(w, &me->fiber, next);
  } else {
    go_to_main(w, me); /* a deadlock, or a fault: does not come back */
  }
  me->waits = NULL;
}

unsigned fa_emu_thread_index(void) noexcept {
  return current_thread()->index;
}
unsigned fa_emu_block_index(void) noexcept {
  return (unsigned)current_thread()->warp->block->index;
}
unsigned fa_emu_block_size(void) noexcept {
  return (unsigned)emu_worker->launch->threads;
}
unsigned fa_emu_grid_size(void) noexcept {
  return (unsigned)emu_worker->launch->blocks;
}

/* --- a thread's life -------------------------------------------------------------------------------- */

static void barrier_lost_a_thread(block_t *b);

static void thread_main(void) {
  thread_t *me = emu_worker->current;
  launch_t *l = emu_worker->launch;
  l->body(l->arguments);
  worker_t *w = emu_worker;
  warp_t *warp = me->warp;
  block_t *b = warp->block;
  if (me->cp_last > me->cp_landed) {
    char who[80], where[200];
    emu_thread_text(me, who, sizeof who);
    if (emu_is_new("E10", 0))
      emu_find("E10", "%s ended without waiting for its last cp.async copies: group committed at %s", who,
               me->cp_group > 1 ? emu_place_text(me->committed, where, sizeof where) : "no place");
  }
  me->done = true;
  warp->alive &= ~(1u << me->lane);
  if (warp->arrived) {
    char who[80];
    emu_thread_text(me, who, sizeof who);
    if (emu_is_new("E03", 0))
      emu_find("E03", "%s ended, while lanes %08x of its warp wait for all lanes in %s at %s:%d", who,
               warp->arrived, warp->operation, warp->place.file, warp->place.line);
    w->stop = true;
  }
  if (!warp->alive) emu_requests_end(warp);
  b->live--;
  if (b->live) barrier_lost_a_thread(b);
  thread_t *next = b->live && !w->stop ? next_thread(w) : NULL;
  if (next)
    go_to(w, &me->fiber, next);
  else
    go_to_main(w, me);
  abort(); /* nobody switches to a thread that is done */
}

/* --- barriers --------------------------------------------------------------------------------------- */

/* All have come: what any of them did happens before what any of them does next. */
static void open_barrier(block_t *b, barrier_t *bar) {
  if (bar->expected == 0 && bar->arrived < b->threads && emu_is_new("E03", 0)) {
    int k = 0;
    while (!bar->came[k]) k++;
    emu_find("E03", "%s, block %lld: only %d of %d threads reach the barrier at %s:%d, the others have ended",
             b->worker->launch->kernel, (long long)b->index, bar->arrived, b->threads, bar->place[k].file,
             bar->place[k].line);
  }
  for (int k = 0; k < b->warps; k++) {
    if (!bar->waiting[k]) continue;
    emu_requests_end(&b->warp[k]);
    b->warp[k].clock = bar->clock;
    emu_new_epoch(&b->warp[k]);
    emu_make_ready(&b->warp[k], bar->waiting[k]);
  }
  memset(bar, 0, sizeof *bar);
}

/* A thread that has ended counts as arrived at the block's own barrier. */
static void barrier_lost_a_thread(block_t *b) {
  barrier_t *bar = &b->barrier[0];
  if (!bar->arrived || bar->expected != 0) return;
  if (bar->arrived == b->live) open_barrier(b, bar);
}

/* Warps come whole: a lane that only arrives waits for the others of its warp, or what it does next would be taken for
 * something that all of them did before. */
void fa_emu_barrier(int id, int threads, bool wait, emu_place_t here) {
  thread_t *t = current_thread();
  block_t *b = t->warp->block;
  char who[80];
  if (id < 0 || id >= BARRIERS || threads < 0 || threads % WARP || threads > b->threads) {
    emu_thread_text(t, who, sizeof who);
    if (emu_is_new("E03", emu_place_id(here)))
      emu_find(
          "E03",
          "%s at %s:%d: barrier %d for %d threads: ids are 0-15, counts are multiples of 32 and no more than "
          "the block's %d",
          who, here.file, here.line, id, threads, b->threads);
    emu_worker->stop = true;
    emu_block_thread("nothing: the launch is given up", here);
    return; /* not reached */
  }
  barrier_t *bar = &b->barrier[id];
  int k = t->warp->index;
  if (!bar->came[k])
    bar->place[k] = here;
  else if (bar->place[k].line != here.line || strcmp(bar->place[k].file, here.file)) {
    emu_thread_text(t, who, sizeof who);
    if (emu_is_new("E03", emu_place_id(here)))
      emu_find("E03", "divergent barrier %d: %s is at %s:%d, lanes %08x of its warp are at %s:%d", id, who,
               here.file, here.line, bar->came[k], bar->place[k].file, bar->place[k].line);
  }
  if (bar->arrived && bar->expected != threads) {
    emu_thread_text(t, who, sizeof who);
    if (emu_is_new("E03", emu_place_id(here)))
      emu_find("E03", "barrier %d: %s at %s:%d expects %d threads, others expect %d (0: the whole block)", id,
               who, here.file, here.line, threads, bar->expected);
  }
  bar->expected = threads;
  bar->came[k] |= 1u << t->lane;
  bar->arrived++;
  const bool whole = (bar->came[k] & t->warp->alive) == t->warp->alive;
  if (whole) {
    emu_land_copies(t->warp);
    emu_join(&bar->clock, &t->warp->clock);
  }
  (wait ? bar->waiting : bar->arriving)[k] |= 1u << t->lane;
  if (whole && !wait) { /* what it does from here on is not covered */
    emu_requests_end(t->warp);
    emu_new_epoch(t->warp);
    emu_make_ready(t->warp, bar->arriving[k] & ~(1u << t->lane));
    bar->arriving[k] = 0;
  }
  if (bar->arrived == 1) emu_worker->count->barriers++;
  if (bar->arrived == (threads ? threads : b->live)) {
    open_barrier(b, bar);
    t->warp->ready &= ~(1u << t->lane); /* this one goes on by itself */
    return;
  }
  if (whole && !wait) return;
  t->barrier = id;
  emu_block_thread(wait ? "a barrier" : "the rest of its warp, to arrive at a barrier", here);
}

/* --- deadlock --------------------------------------------------------------------------------------- */

static void deadlock(worker_t *w) {
  char text[900] = "", who[80];
  size_t used = 0;
  for (int s = 0; s < w->blocks; s++)
    for (int k = 0; w->block[s].used && k < w->block[s].warps; k++) {
      warp_t *warp = &w->block[s].warp[k];
      for (int lane = 0; lane < WARP; lane++) {
        thread_t *t = warp->thread + lane;
        bool same = lane && t->waits == t[-1].waits && t->place.line == t[-1].place.line && !t[-1].done;
        if (t->done || !t->waits || same || used > sizeof text - 250) continue;
        emu_thread_text(t, who, sizeof who);
        used += (size_t)snprintf(text + used, sizeof text - used, "\n    %s waits for %s at %s:%d", who,
                                 t->waits, t->place.file, t->place.line);
        if (!strcmp(t->waits, "a barrier")) {
          const barrier_t *bar = &w->block[s].barrier[t->barrier];
          used += (size_t)snprintf(text + used, sizeof text - used,
                                   " (barrier %d: %d of %d threads have arrived)", t->barrier, bar->arrived,
                                   bar->expected ? bar->expected : w->block[s].live);
        }
      }
    }
  if (emu_is_new("E01", 0)) emu_find("E01", "deadlock in %s: no thread can go on%s", w->launch->kernel, text);
}

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
    for (int lane = 0; lane < WARP; lane++) {
      thread_t *t = warp->thread + lane;
      if (!t->fiber.stack && !fiber_new(&t->fiber)) return false;
      fiber_prepare(&t->fiber, thread_main, (size_t)lane * 128); /* all of a page */
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
    w->current = NULL;
    thread_t *t = next_thread(w);
    if (!t) {
      deadlock(w);
      w->stop = true;
      return;
    }
    go_to(w, &w->main, t); /* comes back when a block has ended or nobody is ready */
    bool ended = false;
    for (int s = 0; s < w->blocks; s++) ended = ended || (w->block[s].used && w->block[s].live == 0);
    if (w->stop) return;
    w->current = NULL;
    if (!ended && !next_thread(w)) {
      deadlock(w);
      w->stop = true;
      return;
    }
  }
}

/* A worker's memory is kept for the next launch on the same OS thread. */
static __thread worker_t *kept;

static worker_t *get_worker(int sms) {
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

fa_status_t fa_emu_launch(const char *kernel, int64_t blocks, int threads, size_t shared_bytes,
                          emu_body_t *body, void *arguments, fa_reason_t *why) {
  launch_t launch = {kernel, blocks, threads, shared_bytes, body, arguments};
  fa_status_t status = check_launch(&launch, why);
  if (status || blocks == 0) return status;
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
    worker_t *w = get_worker((sms + workers - 1) / workers);
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
