/* shadow_global.cpp - the history of global memory, and which of it was ever written. */
#include "race.h"

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

static inline global_shadow_t load_shadow(const global_shadow_t *s) {
  return {load_record(&s->write), {load_record(s->read), load_record(s->read + 1), load_record(s->read + 2)}};
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
  const global_shadow_t old = load_shadow(s);
  if (!write_is_ordered(old.write, now, t)) emu_race("global memory", old.write, true, now, write);
  if (write) { /* the reads before it stay: they are ordered before it, or were reported */
    for (int k = 0; k < GLOBAL_READS; k++)
      if (!read_is_ordered(old.read[k], now, t)) emu_race("global memory", old.read[k], false, now, true);
    record_t kept = now; /* atomic writes of several blocks: none of these is ordered before a plain access */
    if (now.atomic && old.write.epoch && old.write.atomic && old.write.block != now.block)
      kept.block = MANY_BLOCKS;
    store_record(&s->write, kept);
  } else {
    const record_t last = old.read[0];
    if (last.epoch && last.block != now.block)
      store_record(&s->read[2], last);
    else if (last.epoch && last.agent != now.agent)
      store_record(&s->read[1], last);
    store_record(&s->read[0], read_too(last, now));
  }
}

enum { UNSPLIT, SPLIT, BEING_SPLIT };

/* Gives each half of a granule its own history. Another worker may do so at the same moment; what it notes of the whole
 * granule meanwhile can be lost. */
static void split_global(allocation_t *a, size_t granule) {
  uint8_t state = UNSPLIT, *split = a->split + granule;
  if (__atomic_load_n(split, __ATOMIC_ACQUIRE) == SPLIT) return;
  if (!__atomic_compare_exchange_n(split, &state, BEING_SPLIT, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    while (__atomic_load_n(split, __ATOMIC_ACQUIRE) != SPLIT) continue;
    return;
  }
  const global_shadow_t whole = load_shadow(a->shadow + granule);
  for (int k = 0; k < GRANULE / 2; k++) {
    global_shadow_t *half = a->half + granule * (GRANULE / 2) + k;
    store_record(&half->write, whole.write);
    for (int r = 0; r < GLOBAL_READS; r++) store_record(&half->read[r], whole.read[r]);
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
  const record_t now = emu_record(t, agent, (uint32_t)block, atomic, place);
  const size_t first = (size_t)((const char *)p - a->base) / 2,
               last = (size_t)((const char *)p - a->base + bytes - 1) / 2;
  if ((!write || atomic) && !are_written(a, first, last)) emu_never_written(t, "global", place);
  for (size_t half = first; half <= last;) {
    const size_t granule = half / (GRANULE / 2), end = (granule + 1) * (GRANULE / 2) - 1;
    if (half % (GRANULE / 2) == 0 && end <= last &&
        __atomic_load_n(a->split + granule, __ATOMIC_ACQUIRE) == UNSPLIT) {
      note_global(a->shadow + granule, now, write, t);
      half = end + 1;
    } else {
      split_global(a, granule);
      for (; half <= end && half <= last; half++) note_global(a->half + half, now, write, t);
    }
  }
  if (write) mark_written(a, first, last);
}
