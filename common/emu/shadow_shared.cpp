/* shadow_shared.cpp - the history of a block's shared memory: who wrote and who read each part of it last. */
#include "race.h"

static void shared_outside(const thread_t *t, size_t offset, int bytes, bool write, uint32_t place) {
  char who[80], here[200];
  emu_thread_text(t, who, sizeof who);
  if (emu_is_new("E06", place))
    emu_find("E06", "%s %s %d bytes at offset %lld of shared memory, beyond the block's %zu, at %s", who,
             write ? "writes" : "reads", bytes, (long long)offset, t->warp->block->shared_bytes,
             emu_place_text(place, here, sizeof here));
}

/* As before(), for what a barrier has ordered, which is nearly everything: without a look at lanes. */
static inline bool long_before(record_t r, const warp_t *w) {
  return r.epoch < w->clock.at[r.agent];
}

/* Takes this agent's place, an empty one, one that is already ordered, or the last. */
static inline void keep_read(shadow_t *s, record_t now, const warp_t *w) {
  int slot = 0;
  while (slot < READS - 1 && s->read[slot].epoch && s->read[slot].agent != now.agent &&
         !long_before(s->read[slot], w))
    slot++;
  s->read[slot] = read_too(s->read[slot], now);
}

static inline void note_read(shadow_t *s, record_t now, thread_t *t) {
  const record_t written = s->write;
  if (!written.epoch)
    emu_never_written(t, "shared", (uint32_t)now.place);
  else if (!long_before(written, t->warp) && !before(written, t, written.atomic || now.atomic))
    emu_race("shared memory", written, true, now, false);
  keep_read(s, now, t->warp);
}

static inline void note_write(shadow_t *s, record_t now, thread_t *t) {
  if (s->write.epoch && !before(s->write, t, s->write.atomic || now.atomic))
    emu_race("shared memory", s->write, true, now, true);
  for (int k = 0; k < READS && s->read[k].epoch; k++)
    if (!before(s->read[k], t, s->read[k].atomic || now.atomic))
      emu_race("shared memory", s->read[k], false, now, true);
  *s = {now, {}};
}

static inline void note_shared(shadow_t *s, record_t now, bool write, thread_t *t) {
  if (write)
    note_write(s, now, t);
  else
    note_read(s, now, t);
}

/* Gives parts of `bytes` bytes of a granule each its own history: four words, or eight halves, side by side. */
static void split(block_t *b, size_t granule, part_t part) {
  shadow_t *parts = b->part + granule * (GRANULE / 2);
  const part_t had = b->split[granule];
  if (had == WHOLE) parts[0] = b->shadow[granule];
  for (int k = (GRANULE >> part) - 1; k > 0; k--) parts[k] = parts[k >> (had - part)];
  b->split[granule] = part;
}

/* Bytes first .. last of a granule that is not, or must not stay, of one history. */
static inline void note_parts(block_t *b, size_t granule, size_t first, size_t last, record_t now, bool write,
                              thread_t *t) {
  const part_t fits = first % 4 == 0 && last % 4 == 3 ? WORDS : HALVES;
  if (b->split[granule] > fits) split(b, granule, fits);
  const part_t part = b->split[granule];
  shadow_t *parts = b->part + granule * (GRANULE / 2);
  for (size_t k = first >> part; k <= last >> part; k++) note_shared(parts + k, now, write, t);
}

static inline void note_whole(block_t *b, size_t granule, record_t now, bool write, thread_t *t) {
  if (b->split[granule] == WHOLE) {
    note_shared(b->shadow + granule, now, write, t);
    return;
  }
  note_parts(b, granule, 0, GRANULE - 1, now, write, t);
  if (!write) return;
  b->split[granule] = WHOLE; /* one history again */
  b->shadow[granule] = {now, {}};
}

void emu_touch_shared(thread_t *t, const void *p, int bytes, bool write, emu_agent_t agent, uint32_t place,
                      bool several) {
  block_t *b = t->warp->block;
  size_t at = (size_t)((const char *)p - b->shared);
  const size_t behind = at + (size_t)bytes;
  b->worker->shared_touched += bytes;
  if (at > b->shared_bytes || behind > b->shared_bytes) {
    shared_outside(t, at, bytes, write, place);
    return;
  }
  const record_t now = emu_record(t, agent, 0, several, place);
  while (at < behind) {
    const size_t granule = at / GRANULE, next = (granule + 1) * GRANULE, end = behind < next ? behind : next;
    if (end - at == GRANULE)
      note_whole(b, granule, now, write, t);
    else
      note_parts(b, granule, at % GRANULE, (end - 1) % GRANULE, now, write, t);
    at = end;
  }
}
