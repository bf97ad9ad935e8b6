/* barrier.cpp - __syncthreads and named barriers. */
#include "engine.h"

/* All have come: what any of them did happens before what any of them does next. */
static void open_barrier(block_t *b, barrier_t *bar) {
  if (bar->expected == EMU_WHOLE_BLOCK && bar->arrived < b->threads && emu_is_new("E03", 0)) {
    int k = 0;
    while (!bar->came[k]) k++;
    emu_find("E03", "%s, block %lld: only %d of %d threads reach the barrier at %s:%d, the others have ended",
             b->worker->launch->kernel, (long long)b->index, bar->arrived, b->threads, bar->place[k].file,
             bar->place[k].line);
  }
  for (int k = 0; k < b->warps; k++) {
    /* A GPU counts a warp that comes as 32 threads, also those that have ended. */
    if (bar->expected != EMU_WHOLE_BLOCK && bar->came[k] && ~bar->came[k] && emu_is_new("E03", 1))
      emu_find(
          "E03",
          "%s, block %lld: barrier %d opens at %s:%d with lanes %08x of warp %d, without its others: named "
          "barriers are for whole warps",
          b->worker->launch->kernel, (long long)b->index, (int)(bar - b->barrier), bar->place[k].file,
          bar->place[k].line, bar->came[k], k);
    if (!bar->waiting[k]) continue;
    emu_requests_end(&b->warp[k]);
    emu_join(&b->warp[k].clock, &bar->clock);
    emu_new_epoch(&b->warp[k]);
    emu_make_ready(&b->warp[k], bar->waiting[k]);
  }
  memset(bar, 0, sizeof *bar);
}

void emu_barrier_lost_a_thread(block_t *b) {
  barrier_t *bar = &b->barrier[0];
  if (!bar->arrived || bar->expected != EMU_WHOLE_BLOCK) return;
  if (bar->arrived == b->live) open_barrier(b, bar);
}

void fa_emu_named_barrier(int id, int threads, bool wait, emu_place_t here) {
  const thread_t *t = current_thread();
  const int most = t->warp->block->threads;
  if (id >= 0 && id < BARRIERS && threads > 0 && threads % WARP == 0 && threads <= most) {
    fa_emu_barrier(id, threads, wait, here);
    return;
  }
  char who[80];
  emu_thread_text(t, who, sizeof who);
  if (emu_is_new("E03", emu_place_id(here)))
    emu_find("E03",
             "%s at %s:%d: barrier %d for %d threads: ids are 0-15, counts are multiples of 32, at least 32 "
             "and no "
             "more than the block's %d",
             who, here.file, here.line, id, threads, most);
  emu_worker->stop = true;
  emu_block_thread("nothing: the launch is given up", here);
}

/* Warps come whole: a lane that only arrives waits for the others of its warp, or what it does next would be taken for
 * something that all of them did before. */
void fa_emu_barrier(int id, int threads, bool wait, emu_place_t here) {
  thread_t *t = current_thread();
  block_t *b = t->warp->block;
  char who[80];
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
