/* engine.h - the emulator's own data: threads, warps, blocks, and one worker per processor.
 *
 * A worker is an OS thread that runs some of the emulated SMs. Blocks are dealt to the SMs in launch order and
 * stay on their worker, so that nothing below needs a lock; what workers share (global memory's shadow, the
 * findings) says so. */
#ifndef FA_EMU_ENGINE_H
#define FA_EMU_ENGINE_H

#include "../count.h"
#include "emu.h"
#include "fiber.h"

#undef memcpy /* here they are the library's, not a kernel's */
#undef memset

#include <mutex>

enum {
  WARP = 32,
  MAX_WARPS = 32,
  AGENTS = 2 * MAX_WARPS, /* each warp, and each warp's cp.async unit */
  SHARED_MAX = 227 * 1024,
  SHARED_STRIDE = 256 * 1024,
  BARRIERS = 16,
  MOST_CALLS = 12 /* of functions within functions; deeper ones are shown as if they were here */
};

/* --- who did what: one 64-bit record ---------------------------------------------------------------
 * Both memories keep one for the last write of each 2 bytes and three for reads. Reads by more warps than that share
 * a record: of those, the emulator may miss one that is not ordered with a later write, but never one by another block.
 * 2 bytes, so that neighbouring 16-bit stores are no race. Most accesses are of 16 bytes: as long as those
 * of a granule have the same history it is kept once, which saves time, and room in the caches even more; in shared
 * memory, that of 4 bytes likewise. */
struct record_t {
  /* atomic: of a write in global memory, that it was. several, in the same bit: of another access, that more than one lane
   * of the agent made it in this epoch, so that it is not ordered with any of theirs. */
  uint64_t block : 20, agent : 6, lane : 5, atomic : 1, epoch : 18, place : 14;
};
enum { GRANULE = 16 }; /* bytes */
/* The block is stored plus one: an all-zero record is "nobody". Both counters stop at their largest value. */
enum { MANY_BLOCKS = (1 << 20) - 1, BLOCK_LIMIT = MANY_BLOCKS - 1, EPOCH_LIMIT = (1 << 18) - 1 };

/* at[a]: everything that agent a did up to this epoch has happened before. */
struct clock_vector_t {
  uint32_t at[AGENTS];
};

struct warp_t;
struct block_t;
struct worker_t;

struct thread_t {
  fiber_t fiber;
  warp_t *warp;
  int lane;
  unsigned index; /* in its block */
  bool done;
  const char *waits; /* what for, while it is not ready */
  emu_place_t place;
  int barrier;
  /* cp.async: number of the open group; groups up to here are waited for; the last group with a copy in it */
  uint32_t cp_group, cp_landed, cp_last;
  uint32_t committed; /* place of the last commit */
  /* The functions that it is in and the compiler did not inline: where each was called, as a place. */
  int depth;
  uint32_t call[MOST_CALLS];
};

/* A copy that was issued and has not landed. */
struct copy_t {
  char *to;
  const char *from;
  int bytes, valid;
  uint32_t group;
};

/* Of a lane that had waited for more groups than the lane of its warp that had waited for least, when an epoch ended. */
struct ahead_t {
  uint32_t epoch, lane, landed;
};

struct warp_t {
  block_t *block;
  int index;
  thread_t *thread; /* its 32 threads */
  uint32_t alive, ready, arrived;
  clock_vector_t clock;
  /* the collective that lanes are gathering for */
  const char *operation;
  emu_place_t place;
  void *argument[WARP];
  struct request_table_t *requests;
  copy_t *copies[WARP];
  int copy_count[WARP], copy_room[WARP];
  ahead_t *ahead;
  int ahead_count, ahead_room;
};

struct barrier_t {
  int expected, arrived;
  uint32_t waiting[MAX_WARPS];  /* until all have come */
  uint32_t arriving[MAX_WARPS]; /* until the rest of the warp has */
  emu_place_t place[MAX_WARPS]; /* where each warp's first lane arrived */
  uint32_t came[MAX_WARPS];
  clock_vector_t clock;
};

enum { READS = 3 }; /* more warps may read at once: the last of them share a record */
struct shadow_t {
  record_t write, read[READS];
};

enum part_t : uint8_t { HALVES = 1, WORDS = 2, WHOLE = 4 }; /* parts of a granule, of 2 ^ part bytes */

struct block_t {
  worker_t *worker;
  int64_t index;
  int threads, warps, live;
  bool used;
  char *shared;
  size_t shared_bytes;
  shadow_t *shadow; /* one per granule of shared memory, where its bytes have one history */
  shadow_t *part;   /* else one per 4 or 2 bytes; room for 8 to a granule */
  part_t *split;    /* per granule */
  barrier_t barrier[BARRIERS];
  warp_t warp[MAX_WARPS];
  thread_t *thread;
};

struct launch_t {
  const char *kernel;
  int64_t blocks;
  int threads;
  size_t shared_bytes;
  emu_body_t *body;
  void *arguments; /* the launch's copy of them: each thread begins by taking its own */
  size_t argument_bytes;
};

struct worker_t {
  int index;
  fiber_t main;
  thread_t *current;
  block_t *block; /* its SMs */
  int blocks;
  char *arena; /* their shared memory, one stride each, and one more at both ends */
  int room;    /* SMs that there is memory for */
  uint64_t random;
  bool stop; /* a fault after which going on is pointless */
  launch_t *launch;
  struct allocation_t *last_hit;
  fa_count_t *count;
  int64_t shared_touched; /* bytes; becomes part of the count when the launch ends */
};

static inline uint64_t emu_random(worker_t *w) { /* xorshift64 */
  w->random ^= w->random << 13;
  w->random ^= w->random >> 7;
  w->random ^= w->random << 17;
  return w->random;
}

extern __thread worker_t *emu_worker;
static inline thread_t *current_thread(void) {
  return emu_worker->current;
}

/* --- settings (environment, read once): see settings.cpp ------------------------------------------- */
enum emu_order_t { EMU_LATE, EMU_EARLY, EMU_RANDOM };
struct emu_settings_t {
  int sms;           /* EMU_SMS: blocks resident together (4) */
  int arch;          /* EMU_ARCH: the architecture that is emulated (80) */
  emu_order_t order; /* EMU_ORDER: late, early, or a number that seeds random orders of threads and copies */
  uint64_t seed;
  bool races;        /* EMU_RACES=0 turns the checks of memory accesses off */
  bool requests;     /* --count: sectors and bank conflicts, which cost time to put together */
  const char *wrong; /* what the environment says and the emulator does not know */
};
extern emu_settings_t emu_settings_now;
static inline const emu_settings_t *emu_settings(void) {
  return &emu_settings_now;
}

/* Finding E09 if the emulated architecture is older than sm. */
void emu_lacks(int sm, const char *instruction, emu_place_t here);
static inline void emu_needs(int sm, const char *instruction, emu_place_t here) {
  if (emu_settings()->arch < sm) emu_lacks(sm, instruction, here);
}

/* --- scheduling: sched.cpp -------------------------------------------------------------------------- */
/* The current thread cannot go on: runs others until somebody makes it ready again. */
void emu_block_thread(const char *waits, emu_place_t place);
/* The current thread could go on, but others go first: those of another SM, if any of them can. */
void emu_let_others_run(void);
static inline void emu_make_ready(warp_t *w, uint32_t lanes) {
  w->ready |= lanes & w->alive;
}

/* Runs the SMs' threads until a block has ended, or more often; false where none can go on, with a finding. */
bool emu_run_threads(worker_t *w);
void emu_thread_main(void); /* what a fiber does */

/* --- barriers: barrier.cpp ----------------------------------------------------------------------------- */
/* A thread that has ended counts as arrived at the block's own barrier. */
void emu_barrier_lost_a_thread(block_t *b);

/* --- copies: async.cpp -------------------------------------------------------------------------------- */
/* A moment of a seeded order: of the copies that one lane has under way, some land. */
void emu_land_some(warp_t *w);

/* --- happens-before and bounds: race.cpp, shadow_shared.cpp, shadow_global.cpp --------------------- */
uint32_t emu_place_id(emu_place_t place);
/* For loads, stores and copies: the address behind the call of the emulator, with the calls that led there. */
struct emu_known_place_t {
  uint64_t key; /* address and caller */
  uint32_t number;
};
enum { KNOWN_PLACES = 256 };
extern __thread emu_known_place_t emu_known_places[KNOWN_PLACES]; /* those asked for last */
uint32_t emu_new_place(emu_known_place_t *known, uint64_t key, const void *pc, uint32_t caller);
static inline uint32_t emu_address_id(const thread_t *t, const void *pc) {
  const uint32_t caller = t->depth ? t->call[(t->depth < MOST_CALLS ? t->depth : (int)MOST_CALLS) - 1] : 0;
  const uint64_t address = (uint64_t)(uintptr_t)pc, key = address ^ (uint64_t)caller << 48;
  emu_known_place_t *known = &emu_known_places[(address ^ address >> 8 ^ caller) % KNOWN_PLACES];
  return known->number && known->key == key ? known->number : emu_new_place(known, key, pc, caller);
}
#define EMU_PC __builtin_extract_return_addr(__builtin_return_address(0))
enum emu_agent_t { EMU_WARP, EMU_CP_ASYNC };
/* `several`: by more than one lane of the warp, of which t is one at most. */
void emu_touch_shared(thread_t *t, const void *p, int bytes, bool write, emu_agent_t agent, uint32_t place,
                      bool several = false);
void emu_touch_global(thread_t *t, const void *p, int bytes, bool write, bool atomic, emu_agent_t agent,
                      uint32_t place);
static inline bool emu_is_shared(const thread_t *t, const void *p) {
  return (uintptr_t)p - (uintptr_t)t->warp->block->shared < SHARED_STRIDE;
}
/* Another block's shared memory, or just outside all of it. */
static inline bool emu_in_arena(const worker_t *w, const void *p) {
  return (uintptr_t)p - ((uintptr_t)w->arena - SHARED_STRIDE) < ((size_t)w->room + 2) * SHARED_STRIDE;
}
/* Finding E07, and the launch is given up, if the wrapper cannot use the address: null, or of the other memory. */
void emu_check_space(thread_t *t, emu_wrapper_t by, const void *p, int bytes, bool write, uint32_t place);
/* Does the program only ever read what is there? constants.cpp */
bool emu_is_constant(const void *p, size_t bytes);
void emu_join(clock_vector_t *into, const clock_vector_t *from);
/* What this warp does from now on is a new epoch; also takes in which cp.async groups all lanes waited for. */
void emu_new_epoch(warp_t *w);
void emu_land_copies(warp_t *w); /* clock of the warp's cp.async unit: the least of its lanes */

/* Held for the length of a launch, and by whoever allocates: several host threads may use the emulator, in turn. */
extern std::recursive_mutex emu_lock;

/* --- global memory: memory.cpp ---------------------------------------------------------------------- */
enum { GLOBAL_READS = 3 }; /* the last; the last of another warp before it; the last of another block */
struct global_shadow_t {
  record_t write, read[GLOBAL_READS];
};
struct allocation_t {
  char *base;
  size_t bytes;
  global_shadow_t *shadow; /* one per granule, cleared at every launch */
  global_shadow_t *half;   /* one per 2 bytes, where accesses were to parts of the granule */
  uint8_t *split;          /* per granule: look at `half`; cleared at every launch */
  uint8_t *written;        /* one bit per 2 bytes, never cleared */
};
allocation_t *emu_find_allocation(worker_t *w, const void *p);
#define EMU_REGION ((size_t)1 << 36) /* where allocations come from */
extern char *emu_region;
static inline bool emu_in_region(const void *p) {
  return (uintptr_t)p - (uintptr_t)emu_region < EMU_REGION && emu_region;
}
void emu_memory_new_launch(void);

/* --- together: warp.cpp ------------------------------------------------------------------------------ */
/* Every lane of the warp calls it; `work` runs once, when the last has come, and finds their arguments in the warp. */
void emu_together(const char *operation, void (*work)(warp_t *), void *argument, emu_place_t here);

/* --- sectors and bank conflicts: requests.cpp -------------------------------------------------------- */
/* An instruction: its address, or the file and line of a wrapper's call. */
struct emu_instruction_t {
  const void *at;
  int line;
};
void emu_note_request(thread_t *t, const void *p, int bytes, emu_instruction_t by);
static inline void emu_request(thread_t *t, const void *p, int bytes, emu_instruction_t by) {
  if (emu_settings()->requests) emu_note_request(t, p, bytes, by);
}
void emu_requests_free(warp_t *w); /* also forgets what was gathered */
void emu_requests_end(warp_t *w);  /* the warp has come together: what was gathered is counted */

/* --- findings: report.cpp --------------------------------------------------------------------------- */
/* A fault is told once a launch for each `key` (places), so that 1024 threads with the same one are one finding:
 *   if (emu_is_new("E07", key)) emu_find("E07", "text ...", ...);
 * The test comes first because a text costs time: places are looked up in the program's debug information. */
bool emu_is_new(const char *code, uint64_t key);
void emu_find(const char *code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emu_findings_clear(void);
int emu_finding_count(void);
/* The most telling of them: a missing barrier or wait shows as a race and also as a read of what was never written, or
 * as a copy outstanding at the end, and the race names both sides. */
const char *emu_main_finding(void);
const char *emu_place_text(uint32_t place, char *text, size_t size);
void emu_thread_text(const thread_t *t, char *text, size_t size);

#endif
