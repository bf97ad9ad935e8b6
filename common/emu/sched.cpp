/* sched.cpp - which thread runs next, and what it means that none can. */
#include "engine.h"

#include <stdlib.h>

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

/* In order, but this warp last, and this SM's other warps before it. */
static thread_t *next_of_others(worker_t *w) {
  const thread_t *t = w->current;
  const int sm = (int)(t->warp->block - w->block), warp = t->warp->index;
  for (int n = 1; n <= w->blocks; n++) {
    block_t *b = &w->block[(sm + n) % w->blocks];
    for (int k = 0; b->used && k < b->warps; k++) {
      warp_t *next = &b->warp[n == w->blocks ? (warp + 1 + k) % b->warps : k];
      if (next->ready) return lowest_ready(next);
    }
  }
  return NULL; /* not reached: the thread that asks is ready */
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

static void leave(worker_t *w, thread_t *me, thread_t *next) {
  if (next == me) {
    me->warp->ready &= ~(1u << me->lane);
  } else if (next) {
    go_to(w, &me->fiber, next);
  } else {
    go_to_main(w, me); /* a deadlock, or a fault: does not come back */
  }
}

void emu_block_thread(const char *waits, emu_place_t place) {
  worker_t *w = emu_worker;
  thread_t *me = w->current;
  me->waits = waits;
  me->place = place;
  leave(w, me, w->stop ? NULL : next_thread(w));
  me->waits = NULL;
}

void emu_let_others_run(void) {
  worker_t *w = emu_worker;
  thread_t *me = w->current;
  emu_make_ready(me->warp, 1u << me->lane);
  leave(w, me, emu_settings()->order == EMU_RANDOM ? next_at_random(w) : next_of_others(w));
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

/* --- a thread's life -------------------------------------------------------------------------------- */

void emu_thread_main(void) {
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
  if (b->live) emu_barrier_lost_a_thread(b);
  thread_t *next = b->live && !w->stop ? next_thread(w) : NULL;
  if (next)
    go_to(w, &me->fiber, next);
  else
    go_to_main(w, me);
  abort(); /* nobody switches to a thread that is done */
}

/* --- deadlock --------------------------------------------------------------------------------------- */

static void deadlock(const worker_t *w) {
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

bool emu_run_threads(worker_t *w) {
  w->current = NULL;
  thread_t *t = next_thread(w);
  if (!t) {
    deadlock(w);
    w->stop = true;
    return false;
  }
  go_to(w, &w->main, t); /* comes back when a block has ended, when nobody is ready, or after a fault */
  return !w->stop;
}
