/* warp.cpp - what the 32 lanes of a warp do together. Each lane leaves a pointer to its operands; the last to come
 * does the work for all of them. */
#include "engine.h"

/* Runs `work` once for all lanes. `work` sees every lane's argument through w->argument. */
void emu_together(const char *operation, void (*work)(warp_t *), void *argument, emu_place_t here) {
  thread_t *t = current_thread();
  warp_t *w = t->warp;
  char who[80];
  if (w->alive != ~0u) {
    emu_thread_text(t, who, sizeof who);
    if (emu_is_new("E03", emu_place_id(here)))
      emu_find("E03", "%s: %s at %s:%d needs all lanes, but lanes %08x of its warp have ended", who,
               operation, here.file, here.line, ~w->alive);
    emu_worker->stop = true;
    emu_block_thread("nothing: the launch is given up", here);
  }
  if (w->arrived && (w->operation != operation || w->place.line != here.line ||
                     (w->place.file != here.file && strcmp(w->place.file, here.file)))) {
    emu_thread_text(t, who, sizeof who);
    if (emu_is_new("E02", emu_place_id(here)))
      emu_find("E02", "divergent warp: %s is at %s in %s:%d, lanes %08x of its warp wait at %s in %s:%d", who,
               operation, here.file, here.line, w->arrived, w->operation, w->place.file, w->place.line);
    emu_worker->stop = true;
    emu_block_thread("nothing: the launch is given up", here);
  }
  w->operation = operation;
  w->place = here;
  w->argument[t->lane] = argument;
  w->arrived |= 1u << t->lane;
  if (w->arrived == w->alive) {
    emu_requests_end(w);
    w->arrived = 0;
    work(w);
    emu_make_ready(w, ~(1u << t->lane));
  } else
    emu_block_thread(operation, here);
}

/* __syncwarp: what any lane did before happens before what any lane does after. Shuffles promise no such thing for
 * memory. */
static void end_epoch(warp_t *w) {
  emu_land_copies(w);
  emu_new_epoch(w);
}
void fa_emu_syncwarp(emu_place_t here) {
  emu_together("__syncwarp", end_epoch, NULL, here);
}

struct shuffle_t {
  uint32_t in, out;
  int argument;
  emu_shuffle_t kind;
};

static void shuffle(warp_t *w) {
  for (int lane = 0; lane < WARP; lane++) {
    if (!(w->alive >> lane & 1)) continue;
    shuffle_t *mine = (shuffle_t *)w->argument[lane];
    int by = mine->argument & (WARP - 1); /* the instruction looks at five bits */
    int from = mine->kind == EMU_SHUFFLE_XOR ? lane ^ by : by;
    bool exists = w->alive >> from & 1;
    mine->out = exists ? ((shuffle_t *)w->argument[from])->in : mine->in;
  }
}

uint32_t fa_emu_shuffle(uint32_t x, int argument, emu_shuffle_t kind, emu_place_t here) {
  shuffle_t s = {x, 0, argument, kind};
  emu_together("a shuffle", shuffle, &s, here);
  return s.out;
}

struct ballot_t {
  bool in;
  uint32_t out;
};

static void ballot(warp_t *w) {
  uint32_t votes = 0;
  for (int lane = 0; lane < WARP; lane++)
    if (w->alive >> lane & 1 && ((ballot_t *)w->argument[lane])->in) votes |= 1u << lane;
  for (int lane = 0; lane < WARP; lane++)
    if (w->alive >> lane & 1) ((ballot_t *)w->argument[lane])->out = votes;
}

uint32_t fa_emu_ballot(bool x, emu_place_t here) {
  ballot_t b = {x, 0};
  emu_together("a vote", ballot, &b, here);
  return b.out;
}
