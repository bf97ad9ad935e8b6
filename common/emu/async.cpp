/* async.cpp - cp.async: copies from global to shared memory that land when they like, at the latest when their group
 * is waited for. Late is the default, because whoever forgot to wait then reads what was there before. In a seeded
 * order each lands at a moment of its own: at issue, or whenever threads change (sched.cpp). */
#include "engine.h"

#include <stdlib.h>

static void land(copy_t *c) {
  memcpy(c->to, c->from, (size_t)c->valid);
  memset(c->to + c->valid, 0, (size_t)(c->bytes - c->valid));
}

/* Of a lane's copies, those of groups up to `group`, and those that `chosen` has a bit for; copy 64 shares the first. */
static void land_copies(warp_t *w, int lane, uint32_t group, uint64_t chosen) {
  copy_t *copies = w->copies[lane];
  int kept = 0;
  for (int n = 0; n < w->copy_count[lane]; n++)
    if (copies[n].group <= group || chosen >> (n % 64) & 1)
      land(&copies[n]);
    else
      copies[kept++] = copies[n];
  w->copy_count[lane] = kept;
}

/* PTX orders a thread's groups by wait_group alone: any of them may be first. Threads change often, so that most moments
 * pass with nothing landing, lest few copies be late. */
void emu_land_some(warp_t *w) {
  const uint64_t random = emu_random(emu_worker);
  if (random / WARP % 4) return;
  int lane = (int)(random % WARP); /* the first from there on that has any under way */
  for (int n = 0; n < WARP && !w->copy_count[lane]; n++) lane = (lane + 1) % WARP;
  land_copies(w, lane, 0, emu_random(emu_worker)); /* the first group is 1 */
}

/* Copies `valid` bytes and fills up to `bytes` with zeros. */
void fa_emu_cp_async(void *shared, const void *global, int bytes, int valid, emu_place_t here) {
  emu_needs(80, "cp.async", here);
  thread_t *t = current_thread();
  warp_t *w = t->warp;
  if ((uintptr_t)shared % (unsigned)bytes || (uintptr_t)global % (unsigned)bytes) {
    char who[80];
    emu_thread_text(t, who, sizeof who);
    if (emu_is_new("E07", emu_place_id(here)))
      emu_find("E07", "%s: cp.async of %d bytes between addresses that are not multiples of %d, at %s:%d",
               who, bytes, bytes, here.file, here.line);
  }
  if (emu_settings()->races) {
    const uint32_t place = emu_address_id(t, EMU_PC);
    emu_check_space(t, {"cp.async", EMU_SHARED}, shared, bytes, true, place);
    if (valid) emu_check_space(t, {"cp.async", EMU_GLOBAL}, global, valid, false, place);
    if (valid) emu_touch_global(t, global, valid, false, false, EMU_CP_ASYNC, place);
    emu_touch_shared(t, shared, bytes, true, EMU_CP_ASYNC, place);
    emu_request(t, shared, bytes, {here.file, here.line});
    if (valid) emu_request(t, global, bytes, {here.file, here.line});
  }
  t->cp_last = t->cp_group;
  memset(shared, 0xff, (size_t)bytes); /* NaN until it lands */
  copy_t copy = {(char *)shared, (const char *)global, bytes, valid, t->cp_group};
  const emu_order_t order = emu_settings()->order;
  if (order == EMU_EARLY || (order == EMU_RANDOM && emu_random(emu_worker) % 4 == 0)) {
    land(&copy);
    return;
  }
  int *count = &w->copy_count[t->lane], *room = &w->copy_room[t->lane];
  if (*count == *room) {
    int more = *room ? 2 * *room : 16;
    copy_t *grown = (copy_t *)realloc(w->copies[t->lane], (size_t)more * sizeof copy);
    if (!grown) {
      land(&copy); /* no memory to be late with */
      return;
    }
    w->copies[t->lane] = grown;
    *room = more;
  }
  w->copies[t->lane][(*count)++] = copy;
}

void fa_emu_cp_async_commit(emu_place_t here) {
  emu_needs(80, "cp.async.commit_group", here);
  thread_t *t = current_thread();
  t->committed = emu_address_id(t, EMU_PC);
  t->cp_group++;
}

/* All but the `pending` youngest groups have landed; an open group is not one of them. */
void fa_emu_cp_async_wait(int pending, emu_place_t here) {
  emu_needs(80, "cp.async.wait_group", here);
  thread_t *t = current_thread();
  uint32_t committed = t->cp_group - 1;
  uint32_t landed = committed > (uint32_t)pending ? committed - (uint32_t)pending : 0;
  if (landed > t->cp_landed) t->cp_landed = landed;
  land_copies(t->warp, t->lane, landed, 0);
}
