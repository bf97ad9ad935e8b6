/* race.cpp - happens-before: is every access ordered after the conflicting ones before it?
 *
 * Each warp, and each warp's cp.async unit, is an agent with its own count of epochs. Warp w has a vector
 * clock: clock.at[a] is the last epoch of agent a whose accesses happened before what w does now. A barrier joins the
 * clocks of all who wait at it; an epoch ends there, and at __syncwarp. An access is recorded with its agent and
 * epoch, so an earlier access (a, e) is ordered before a later one by w exactly if e <= clock.at[a].
 * Within a warp, two lanes in one epoch are not ordered either: lanes run on their own since Volta.
 *
 * It does not matter in which order the emulator ran the two: what is not ordered by the program is found in every
 * run, also where the values happened to be right. */
#include "engine.h"

void emu_join(clock_vector_t *into, const clock_vector_t *from) {
  for (int a = 0; a < AGENTS; a++) into->at[a] = into->at[a] > from->at[a] ? into->at[a] : from->at[a];
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
  if (least != UINT32_MAX) w->clock.at[(int)MAX_WARPS + w->index] = least;
}

void emu_new_epoch(warp_t *w) {
  w->clock.at[w->index]++;
}

static uint32_t own_epoch(const warp_t *w) {
  uint32_t e = w->clock.at[w->index];
  return e < EPOCH_LIMIT ? e : (uint32_t)EPOCH_LIMIT;
}

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
  return r.agent == (unsigned)(MAX_WARPS + w->index) && r.lane == (unsigned)t->lane && !several &&
         r.epoch <= t->cp_landed;
}
/* What is recorded in place of `old` when `now` reads the same as well. */
static inline record_t read_too(record_t old, record_t now) {
  if (old.epoch == now.epoch && old.agent == now.agent && old.block == now.block)
    now.atomic = old.atomic || old.lane != now.lane;
  return now;
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

static void race(const char *where, record_t old, bool old_write, record_t now, bool write) {
  const char *code = old.agent >= MAX_WARPS || now.agent >= MAX_WARPS ? "E05" : "E04";
  if (!emu_is_new(code, (uint64_t)old.place << 32 | now.place)) return;
  char here[200], there[200], a[64], b[64], block[48] = "";
  if (old.block && old.block != now.block)
    snprintf(block, sizeof block, "block %u ", (unsigned)old.block - 1);
  /* The places come first: a test that fails has room for a line only. */
  emu_find(code, "data race in %s: %s at %s and %s at %s are not ordered: %s (kernel %s, %s and %s%s)", where,
           write ? "write" : "read", emu_place_text((uint32_t)now.place, here, sizeof here),
           old_write ? "write" : "read", emu_place_text((uint32_t)old.place, there, sizeof there),
           mend(old, now), emu_worker->launch->kernel, agent_text(now, false, a, sizeof a), block,
           agent_text(old, !old_write && old.atomic, b, sizeof b));
}

static void never_written(const thread_t *t, const char *space, uint32_t place) {
  if (!emu_is_new("E08", place)) return;
  char who[80], here[200];
  emu_thread_text(t, who, sizeof who);
  emu_find("E08", "%s reads %s memory that was never written, at %s", who, space,
           emu_place_text(place, here, sizeof here));
}

/* --- shared memory ---------------------------------------------------------------------------------- */

static void shared_outside(const thread_t *t, size_t offset, int bytes, bool write, uint32_t place) {
  char who[80], here[200];
  emu_thread_text(t, who, sizeof who);
  if (emu_is_new("E06", place))
    emu_find("E06", "%s %s %d bytes at offset %lld of shared memory, beyond the block's %zu, at %s", who,
             write ? "writes" : "reads", bytes, (long long)offset, t->warp->block->shared_bytes,
             emu_place_text(place, here, sizeof here));
}

static inline void note_read(shadow_t *s, record_t now, thread_t *t) {
  if (!s->write.epoch)
    never_written(t, "shared", (uint32_t)now.place);
  else if (!before(s->write, t, false))
    race("shared memory", s->write, true, now, false);
  int slot = 0; /* this agent's, an empty one, or one that is already ordered */
  while (slot < READS - 1 && s->read[slot].epoch && s->read[slot].agent != now.agent &&
         !before(s->read[slot], t, s->read[slot].atomic))
    slot++;
  s->read[slot] = read_too(s->read[slot], now);
}

static inline void note_write(shadow_t *s, record_t now, thread_t *t) {
  if (s->write.epoch && !before(s->write, t, false)) race("shared memory", s->write, true, now, true);
  for (int k = 0; k < READS && s->read[k].epoch; k++)
    if (!before(s->read[k], t, s->read[k].atomic)) race("shared memory", s->read[k], false, now, true);
  *s = {now, {}};
}

void emu_touch_shared(thread_t *t, const void *p, int bytes, bool write, emu_agent_t agent, uint32_t place) {
  block_t *b = t->warp->block;
  size_t offset = (size_t)((const char *)p - b->shared);
  emu_worker->count->shared_bytes += bytes;
  if (offset > b->shared_bytes || offset + (size_t)bytes > b->shared_bytes) {
    shared_outside(t, offset, bytes, write, place);
    return;
  }
  record_t now = {0,
                  (unsigned)(agent == EMU_CP_ASYNC ? MAX_WARPS + t->warp->index : t->warp->index),
                  (unsigned)t->lane,
                  0,
                  agent == EMU_CP_ASYNC ? t->cp_group : own_epoch(t->warp),
                  place};
  shadow_t *s = b->shadow + offset / 2, *last = b->shadow + (offset + (size_t)bytes - 1) / 2;
  const shadow_t known = *s;
  if (write)
    note_write(s, now, t);
  else
    note_read(s, now, t);
  for (const shadow_t *first = s++; s <= last; s++)
    if (!memcmp(s, &known, sizeof known)) /* as usual: then so is the outcome */
      *s = *first;
    else if (write)
      note_write(s, now, t);
    else
      note_read(s, now, t);
}

/* --- global memory ---------------------------------------------------------------------------------- */

/* Records are read and written whole, so that workers may share them without a lock; the worst that two
 * simultaneous updates can do is to lose one. */
static record_t load_record(const record_t *r) {
  uint64_t x = __atomic_load_n((const uint64_t *)(const void *)r, __ATOMIC_RELAXED);
  record_t result;
  memcpy(&result, &x, sizeof x);
  return result;
}
static void store_record(record_t *r, record_t value) {
  uint64_t x;
  memcpy(&x, &value, sizeof x);
  __atomic_store_n((uint64_t *)(void *)r, x, __ATOMIC_RELAXED);
}

/* Blocks are not ordered within a launch; two atomic operations need no order. */
static bool write_is_ordered(record_t old, record_t now, const thread_t *t) {
  if (!old.epoch || (old.atomic && now.atomic)) return true;
  return old.block == now.block && before(old, t, false);
}
static bool read_is_ordered(record_t old, record_t now, const thread_t *t) {
  return !old.epoch || (old.block == now.block && before(old, t, old.atomic));
}

static bool is_written(const allocation_t *a, size_t half) {
  return __atomic_load_n(&a->written[half / 8], __ATOMIC_RELAXED) >> (half % 8) & 1;
}

void emu_touch_global(thread_t *t, const void *p, int bytes, bool write, bool atomic, emu_agent_t agent,
                      uint32_t place) {
  allocation_t *a = emu_find_allocation(emu_worker, p);
  char who[80], here[200];
  if (write)
    emu_worker->count->hbm_written += bytes;
  else
    emu_worker->count->hbm_read += bytes;
  if (!a || (const char *)p + bytes > a->base + a->bytes) {
    emu_thread_text(t, who, sizeof who);
    if (emu_is_new("E07", place))
      emu_find("E07", "%s of %s %s %d bytes of global memory outside every buffer, at %s", who,
               emu_worker->launch->kernel, write ? "writes" : "reads", bytes,
               emu_place_text(place, here, sizeof here));
    return;
  }
  int64_t block = t->warp->block->index + 1;
  if (block > BLOCK_LIMIT) block = BLOCK_LIMIT;
  record_t now = {(uint64_t)block,
                  (unsigned)(agent == EMU_CP_ASYNC ? MAX_WARPS + t->warp->index : t->warp->index),
                  (unsigned)t->lane,
                  atomic,
                  agent == EMU_CP_ASYNC ? t->cp_group : own_epoch(t->warp),
                  place};
  size_t first = (size_t)((const char *)p - a->base) / 2,
         last = (size_t)((const char *)p - a->base + bytes - 1) / 2;
  for (size_t h = first; h <= last; h++) {
    global_shadow_t *s = &a->shadow[h];
    record_t old = load_record(&s->write);
    if (!write_is_ordered(old, now, t)) race("global memory", old, true, now, write);
    if (!write || atomic)
      if (!is_written(a, h)) {
        never_written(t, "global", place);
      }
    if (write) {
      for (int k = 0; k < 2; k++) {
        old = load_record(&s->read[k]);
        if (!read_is_ordered(old, now, t)) race("global memory", old, false, now, true);
      }
      store_record(&s->write, now);
      __atomic_fetch_or(&a->written[h / 8], (uint8_t)(1u << (h % 8)), __ATOMIC_RELAXED);
    } else {
      old = load_record(&s->read[0]); /* the last reader, and the last before it from another warp or block */
      if (old.epoch && (old.block != now.block || old.agent != now.agent)) store_record(&s->read[1], old);
      store_record(&s->read[0], read_too(old, now));
    }
  }
}
