/* race.cpp - happens-before: is every access ordered after the conflicting ones before it?
 *
 * Each warp, and each warp's cp.async unit, is an agent with its own count of epochs. Warp w has a vector
 * clock: clock.at[a] is the last epoch of agent a whose accesses happened before what w does now. A barrier joins the
 * clocks of all who wait at it; an epoch ends there, and at __syncwarp. An access is recorded with its agent and
 * epoch, so an earlier access (a, e) is ordered before a later one by w exactly if e <= clock.at[a].
 * Within a warp, two lanes in one epoch are not ordered either: lanes run on their own since Volta.
 *
 * It does not matter in which order the emulator ran the two: what is not ordered by the program is found also where the
 * values happened to be right. Two limits: of the reads by more than three warps (engine.h) some are forgotten, and what
 * an if kept from running was not seen. */
#include "race.h"

#include <stdlib.h>

void emu_join(clock_vector_t *into, const clock_vector_t *from) {
  for (int a = 0; a < AGENTS; a++) into->at[a] = into->at[a] > from->at[a] ? into->at[a] : from->at[a];
}

static void remember_ahead(warp_t *w, ahead_t x) {
  if (w->ahead_count == w->ahead_room) {
    const int more = w->ahead_room ? 2 * w->ahead_room : 64;
    ahead_t *grown = (ahead_t *)realloc(w->ahead, (size_t)more * sizeof x);
    if (!grown) return; /* a race may be reported that is none */
    w->ahead = grown;
    w->ahead_room = more;
  }
  w->ahead[w->ahead_count++] = x;
}

void emu_land_copies(warp_t *w) {
  uint32_t least = UINT32_MAX, most = 0;
  for (int lane = 0; lane < WARP; lane++)
    if (w->alive >> lane & 1 && w->thread[lane].cp_landed > most) most = w->thread[lane].cp_landed;
  for (int lane = 0; lane < WARP; lane++) {
    thread_t *t = w->thread + lane;
    if (!(w->alive >> lane & 1)) continue;
    if (t->cp_last <= t->cp_landed && t->cp_landed < most) {
      /* Nothing of this lane is under way: as if it had waited for as many (empty) groups as the others. */
      t->cp_landed = most;
      if (t->cp_group <= most) t->cp_group = most + 1;
    }
    if (t->cp_landed < least) least = t->cp_landed;
  }
  if (least == UINT32_MAX) return;
  w->clock.at[(int)MAX_WARPS + w->index] = least;
  for (int lane = 0; lane < WARP && least < most; lane++)
    if (w->alive >> lane & 1 && w->thread[lane].cp_landed > least)
      remember_ahead(w, {w->clock.at[w->index], (uint32_t)lane, w->thread[lane].cp_landed});
}

/* Groups are numbered by each lane for itself: where lanes have committed different numbers of groups, the least of what
 * they waited for says too little about some. */
bool emu_landed_ahead(record_t copy, const warp_t *w) {
  const warp_t *of = &w->block->warp[copy.agent - MAX_WARPS];
  for (int n = of->ahead_count - 1; n >= 0; n--) {
    const ahead_t *x = of->ahead + n;
    if (x->lane == copy.lane && x->landed >= copy.epoch && x->epoch <= w->clock.at[of->index]) return true;
  }
  return false;
}

void emu_new_epoch(warp_t *w) {
  w->clock.at[w->index]++;
}

static const char *agent_text(record_t r, bool several, char *text, size_t size) {
  const char *whose = r.agent < MAX_WARPS ? "" : "cp.async of ";
  if (several)
    snprintf(text, size, "%swarp %u, several lanes", whose, (unsigned)r.agent % MAX_WARPS);
  else
    snprintf(text, size, "%swarp %u lane %u", whose, (unsigned)r.agent % MAX_WARPS, (unsigned)r.lane);
  return text;
}

/* What would put the two in order. */
static const char *mend(record_t old, record_t now) {
  if (old.block && old.block != now.block) return "blocks of one launch never are";
  if (old.agent >= MAX_WARPS) {
    const warp_t *w = &current_thread()->warp->block->warp[old.agent - MAX_WARPS];
    if (w->thread[old.lane].cp_landed < old.epoch)
      return "a wait for the copy belongs between them, and a barrier behind it";
  }
  return old.agent % MAX_WARPS == now.agent % MAX_WARPS ? "__syncwarp or a barrier belongs between them"
                                                        : "a barrier belongs between them";
}

void emu_race(const char *where, record_t old, bool old_write, record_t now, bool write) {
  const char *code = old.agent >= MAX_WARPS || now.agent >= MAX_WARPS ? "E05" : "E04";
  if (!emu_is_new(code, (uint64_t)old.place << 32 | now.place)) return;
  char here[200], there[200], a[64], b[64], block[48] = "";
  if (old.block && old.block != now.block)
    snprintf(block, sizeof block, old.block == MANY_BLOCKS ? "several blocks, the last by " : "block %u ",
             (unsigned)old.block - 1);
  /* The places come first: a test that fails has room for a line only. */
  emu_find(code, "data race in %s: %s at %s and %s at %s are not ordered: %s (kernel %s, %s and %s%s)", where,
           write ? "write" : "read", emu_place_text((uint32_t)now.place, here, sizeof here),
           old_write ? "write" : "read", emu_place_text((uint32_t)old.place, there, sizeof there),
           mend(old, now), emu_worker->launch->kernel, agent_text(now, false, a, sizeof a), block,
           agent_text(old, old.atomic && !(old_write && old.block), b, sizeof b));
}

void emu_never_written(const thread_t *t, const char *space, uint32_t place) {
  if (!emu_is_new("E08", place)) return;
  char who[80], here[200];
  emu_thread_text(t, who, sizeof who);
  emu_find("E08", "%s reads %s memory that was never written, at %s", who, space,
           emu_place_text(place, here, sizeof here));
}
