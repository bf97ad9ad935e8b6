/* race.h - who did what, and is it ordered: shared by both memories' histories. See race.cpp. */
#ifndef FA_EMU_RACE_H
#define FA_EMU_RACE_H

#include "engine.h"

/* The access that thread t, or a copy that it issued, makes now. */
static inline record_t emu_record(const thread_t *t, emu_agent_t agent, uint32_t block,
                                  bool atomic_or_several, uint32_t place) {
  const warp_t *w = t->warp;
  const uint32_t epoch = agent == EMU_CP_ASYNC ? t->cp_group : w->clock.at[w->index];
  return {block,
          (unsigned)(agent == EMU_CP_ASYNC ? MAX_WARPS + w->index : w->index),
          (unsigned)t->lane,
          atomic_or_several,
          epoch < EPOCH_LIMIT ? epoch : (uint32_t)EPOCH_LIMIT,
          place};
}

/* Of a copy in a group that not all lanes of its warp had waited for: had its own lane, in an epoch that w knows of? */
bool emu_landed_ahead(record_t copy, const warp_t *w);

/* Did the recorded access happen before what thread t does, or issues, now? Same block only. `several`: it stands for
 * those of several lanes, of which t is one at most. */
static inline bool before(record_t r, const thread_t *t, bool several) {
  const warp_t *w = t->warp;
  const uint32_t known = w->clock.at[r.agent];
  if (r.epoch < known) return true;
  if (r.agent ==
      (unsigned)w->index) /* program order (a copy is issued after it), or a counter that is full */
    return (r.lane == (unsigned)t->lane && !several) || r.epoch == EPOCH_LIMIT;
  if (r.epoch == known || r.epoch == EPOCH_LIMIT) return true;
  if (r.agent < (unsigned)MAX_WARPS) return false;
  return (r.agent == (unsigned)(MAX_WARPS + w->index) && r.lane == (unsigned)t->lane && !several &&
          r.epoch <= t->cp_landed) ||
         emu_landed_ahead(r, w);
}

/* What is recorded in place of `old` when `now` reads the same as well. */
static inline record_t read_too(record_t old, record_t now) {
  const bool together = old.epoch == now.epoch && old.agent == now.agent && old.block == now.block;
  now.atomic = now.atomic || (together && (old.atomic || old.lane != now.lane));
  return now;
}

/* Finding E04, or E05 where one of the two is a copy. */
void emu_race(const char *where, record_t old, bool old_write, record_t now, bool write);
/* Finding E08. */
void emu_never_written(const thread_t *t, const char *space, uint32_t place);

#endif
