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
  const bool together = old.epoch == now.epoch && old.agent == now.agent && old.block == now.block;
  now.atomic = together && (old.atomic || old.lane != now.lane);
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

/* As before(), for what a barrier has ordered, which is nearly everything: without a look at lanes. */
static inline bool long_before(record_t r, const warp_t *w) {
  return r.epoch < w->clock.at[r.agent];
}

static inline void note_read(shadow_t *s, record_t now, thread_t *t) {
  const record_t written = s->write;
  if (!written.epoch)
    never_written(t, "shared", (uint32_t)now.place);
  else if (!long_before(written, t->warp) && !before(written, t, false))
    race("shared memory", written, true, now, false);
  for (int slot = 0;; slot++) { /* this agent's, an empty one, or one that is already ordered */
    const record_t old = s->read[slot];
    if (!old.epoch || old.agent == now.agent || long_before(old, t->warp) || slot == READS - 1 ||
        before(old, t, old.atomic)) {
      s->read[slot] = read_too(old, now);
      return;
    }
  }
}

static inline void note_write(shadow_t *s, record_t now, thread_t *t) {
  if (s->write.epoch && !before(s->write, t, false)) race("shared memory", s->write, true, now, true);
  for (int k = 0; k < READS && s->read[k].epoch; k++)
    if (!before(s->read[k], t, s->read[k].atomic)) race("shared memory", s->read[k], false, now, true);
  *s = {now, {}};
}

static inline void note_shared(shadow_t *s, record_t now, bool write, thread_t *t) {
  if (write)
    note_write(s, now, t);
  else
    note_read(s, now, t);
}

/* Halves first .. last of a granule, of which each has its own history from now on. */
static inline void note_halves(block_t *b, size_t granule, size_t first, size_t last, record_t now,
                               bool write, thread_t *t) {
  if (!b->split[granule]) {
    b->split[granule] = true;
    for (int k = 0; k < GRANULE; k++) b->half[granule * GRANULE + k] = b->shadow[granule];
  }
  shadow_t *s = b->half + first, *end = b->half + last;
  if (s == end) {
    note_shared(s, now, write, t);
    return;
  }
  const shadow_t known = *s, *done = s;
  note_shared(s, now, write, t);
  while (++s <= end)
    if (!memcmp(s, &known, sizeof known)) /* as usual: then so is the outcome */
      *s = *done;
    else
      note_shared(s, now, write, t);
}

void emu_touch_shared(thread_t *t, const void *p, int bytes, bool write, emu_agent_t agent, uint32_t place) {
  block_t *b = t->warp->block;
  size_t offset = (size_t)((const char *)p - b->shared);
  b->worker->shared_touched += bytes;
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
  size_t half = offset / 2;
  const size_t last = (offset + (size_t)bytes - 1) / 2;
  if (half / GRANULE == last / GRANULE && last - half < GRANULE - 1) {
    note_halves(b, half / GRANULE, half, last, now, write, t);
    return;
  }
  while (half <= last) {
    const size_t granule = half / GRANULE, end = granule * GRANULE + GRANULE - 1,
                 to = last < end ? last : end;
    const bool whole = to - half == GRANULE - 1;
    if (whole && !b->split[granule]) {
      note_shared(b->shadow + granule, now, write, t);
    } else {
      note_halves(b, granule, half, to, now, write, t);
      if (whole && write) { /* one history again */
        b->split[granule] = false;
        b->shadow[granule] = b->half[half];
      }
    }
    half = end + 1;
  }
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

/* Bits first .. last: those of one byte at a time. */
static uint8_t bits_of_byte(size_t byte, size_t first, size_t last) {
  unsigned low = first > 8 * byte ? (unsigned)(first - 8 * byte) : 0;
  unsigned high = last < 8 * byte + 7 ? (unsigned)(last - 8 * byte) : 7;
  return (uint8_t)((0xffu >> (7 - high)) & (0xffu << low));
}
static bool are_written(const allocation_t *a, size_t first, size_t last) {
  for (size_t byte = first / 8; byte <= last / 8; byte++)
    if (~__atomic_load_n(&a->written[byte], __ATOMIC_RELAXED) & bits_of_byte(byte, first, last)) return false;
  return true;
}
static void mark_written(allocation_t *a, size_t first, size_t last) {
  for (size_t byte = first / 8; byte <= last / 8; byte++) {
    const uint8_t bits = bits_of_byte(byte, first, last);
    if (~__atomic_load_n(&a->written[byte], __ATOMIC_RELAXED) & bits)
      __atomic_fetch_or(&a->written[byte], bits, __ATOMIC_RELAXED);
  }
}

static void note_global(global_shadow_t *s, record_t now, bool write, const thread_t *t) {
  global_shadow_t old = {load_record(&s->write), {load_record(&s->read[0]), load_record(&s->read[1])}};
  if (!write_is_ordered(old.write, now, t)) race("global memory", old.write, true, now, write);
  if (write) { /* the reads before it stay: they are ordered before it, or were reported */
    for (int k = 0; k < 2; k++)
      if (!read_is_ordered(old.read[k], now, t)) race("global memory", old.read[k], false, now, true);
    store_record(&s->write, now);
  } else { /* the last reader, and the last before it from another warp or block */
    const record_t last = old.read[0];
    if (last.epoch && (last.block != now.block || last.agent != now.agent)) store_record(&s->read[1], last);
    store_record(&s->read[0], read_too(last, now));
  }
}

enum { WHOLE, SPLIT, BEING_SPLIT };

/* Gives each half of a granule its own history. Another worker may do so at the same moment; what it notes of the whole
 * granule meanwhile can be lost. */
static void split_global(allocation_t *a, size_t granule) {
  uint8_t state = WHOLE, *split = a->split + granule;
  if (__atomic_load_n(split, __ATOMIC_ACQUIRE) == SPLIT) return;
  if (!__atomic_compare_exchange_n(split, &state, BEING_SPLIT, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    while (__atomic_load_n(split, __ATOMIC_ACQUIRE) != SPLIT) continue;
    return;
  }
  const global_shadow_t *s = a->shadow + granule;
  for (int k = 0; k < GRANULE; k++) {
    global_shadow_t *half = a->half + granule * GRANULE + k;
    store_record(&half->write, load_record(&s->write));
    for (int r = 0; r < 2; r++) store_record(&half->read[r], load_record(&s->read[r]));
  }
  __atomic_store_n(split, (uint8_t)SPLIT, __ATOMIC_RELEASE);
}

void emu_touch_global(thread_t *t, const void *p, int bytes, bool write, bool atomic, emu_agent_t agent,
                      uint32_t place) {
  allocation_t *a = emu_find_allocation(emu_worker, p);
  if (write)
    emu_worker->count->hbm_written += bytes;
  else
    emu_worker->count->hbm_read += bytes;
  if (!a || (const char *)p + bytes > a->base + a->bytes) {
    char who[80], here[200];
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
  const size_t first = (size_t)((const char *)p - a->base) / 2,
               last = (size_t)((const char *)p - a->base + bytes - 1) / 2;
  if ((!write || atomic) && !are_written(a, first, last)) never_written(t, "global", place);
  for (size_t half = first; half <= last;) {
    const size_t granule = half / GRANULE, end = granule * GRANULE + GRANULE - 1;
    if (half % GRANULE == 0 && end <= last &&
        __atomic_load_n(a->split + granule, __ATOMIC_ACQUIRE) == WHOLE) {
      note_global(a->shadow + granule, now, write, t);
      half = end + 1;
    } else {
      split_global(a, granule);
      for (; half <= end && half <= last; half++) note_global(a->half + half, now, write, t);
    }
  }
  if (write) mark_written(a, first, last);
}
