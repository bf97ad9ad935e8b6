/* access.cpp - the calls that -fsanitize=thread puts before every load and store of a kernel file. The compiler's own
 * library is not linked: the functions are these.
 *
 * A local array that the compiler keeps in memory is the thread's own stack: its accesses are "registers" and are
 * dropped first. Constants of the program are dropped last. */
#include "engine.h"

/* Notes an access to shared or global memory, as the address says; false for anything else. Beside the block's shared
 * memory is another block's: still a shared address, and reported as one that is outside. */
static inline bool touch(thread_t *t, const void *p, int bytes, bool write, uint32_t place) {
  if (emu_is_shared(t, p))
    emu_touch_shared(t, p, bytes, write, EMU_WARP, place);
  else if (emu_in_region(p))
    emu_touch_global(t, p, bytes, write, false, EMU_WARP, place);
  else if (emu_in_arena(emu_worker, p))
    emu_touch_shared(t, p, bytes, write, EMU_WARP, place);
  else
    return false;
  return true;
}

/* Finding E07 for an address that this program may not even have: it could end here without a word, so the launch does.
 * Addresses below NOWHERE no memory ever has: a pointer that was never set, and an index. */
enum { NOWHERE = 64 * 1024 };
static void nowhere(const thread_t *t, const void *p, size_t bytes, bool write, uint32_t place) {
  char who[80], here[200];
  emu_thread_text(t, who, sizeof who);
  if (emu_is_new("E07", place))
    emu_find("E07", "%s %s %zu bytes at %p, %s, at %s", who, write ? "writes" : "reads", bytes, p,
             (uintptr_t)p < NOWHERE ? "through a null pointer" : "which is neither global nor shared memory",
             emu_place_text(place, here, sizeof here));
  emu_worker->stop = true;
  emu_block_thread("nothing: the launch is given up", {"", 0});
}

void emu_check_space(thread_t *t, emu_wrapper_t by, const void *p, int bytes, bool write, uint32_t place) {
  const bool global = emu_in_region(p),
             shared = !global && (emu_is_shared(t, p) || emu_in_arena(emu_worker, p));
  if (!global && !shared) nowhere(t, p, (size_t)bytes, write, place);
  if (by.space == EMU_ANY_SPACE || shared == (by.space == EMU_SHARED)) return;
  char who[80], here[200];
  emu_thread_text(t, who, sizeof who);
  if (emu_is_new("E07", place))
    emu_find("E07", "%s: %s %s %d bytes of %s memory, but %p is an address in %s memory, at %s", who, by.name,
             write ? "writes" : "reads", bytes, shared ? "global" : "shared", p, shared ? "shared" : "global",
             emu_place_text(place, here, sizeof here));
  emu_worker->stop = true;
  emu_block_thread("nothing: the launch is given up", {"", 0});
}

static void misaligned(const thread_t *t, const void *p, int bytes, bool write, uint32_t place) {
  char who[80], here[200];
  emu_thread_text(t, who, sizeof who);
  if (emu_is_new("E07", place))
    emu_find("E07", "%s: %d-byte %s at %p, which is not a multiple of %d, at %s", who, bytes,
             write ? "store" : "load", p, bytes, emu_place_text(place, here, sizeof here));
}

/* What is in neither memory: the launch's arguments and constants of the program may be read, and nothing else. */
static void elsewhere(const thread_t *t, const void *p, size_t bytes, bool write, const void *pc) {
  const launch_t *l = emu_worker->launch;
  if (!write && (uintptr_t)p - (uintptr_t)l->arguments < l->argument_bytes) return;
  if ((uintptr_t)p < NOWHERE || write || !emu_is_constant(p, bytes))
    nowhere(t, p, bytes, write, emu_address_id(t, pc));
}

/* Inlined where `bytes` is a constant: a division less. */
static inline __attribute__((always_inline)) void access(void *p, int bytes, bool write, const void *pc) {
  worker_t *w = emu_worker;
  if (!w || !emu_settings()->races) return;
  thread_t *t = w->current;
  if ((uintptr_t)p - (uintptr_t)t->fiber.stack < t->fiber.size) return;
  const bool shared = emu_is_shared(t, p);
  if (!shared && !emu_in_region(p) && !emu_in_arena(w, p)) return elsewhere(t, p, (size_t)bytes, write, pc);
  const uint32_t place = emu_address_id(t, pc);
  if ((uintptr_t)p % (unsigned)bytes) misaligned(t, p, bytes, write, place);
  if (shared)
    emu_touch_shared(t, p, bytes, write, EMU_WARP, place);
  else
    touch(t, p, bytes, write, place);
  emu_request(t, p, bytes, {pc, 0});
}

#define HOOKS(n)                                                                                             \
  extern "C" void __tsan_read##n(void *p) {                                                                  \
    access(p, n, false, EMU_PC);                                                                             \
  }                                                                                                          \
  extern "C" void __tsan_write##n(void *p) {                                                                 \
    access(p, n, true, EMU_PC);                                                                              \
  }                                                                                                          \
  extern "C" void __tsan_unaligned_read##n(void *p) {                                                        \
    access(p, n, false, EMU_PC);                                                                             \
  }                                                                                                          \
  extern "C" void __tsan_unaligned_write##n(void *p) {                                                       \
    access(p, n, true, EMU_PC);                                                                              \
  }                                                                                                          \
  extern "C" void __tsan_volatile_read##n(void *p) {                                                         \
    access(p, n, false, EMU_PC);                                                                             \
  }                                                                                                          \
  extern "C" void __tsan_volatile_write##n(void *p) {                                                        \
    access(p, n, true, EMU_PC);                                                                              \
  }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

/* Copies of structures: g++ uses the ranges, clang the functions. What alignment their elements want is not known here,
 * and not checked. */
static void range(void *p, size_t bytes, bool write, const void *pc) {
  if (!emu_worker || !emu_settings()->races || !bytes) return;
  thread_t *t = emu_worker->current;
  if ((uintptr_t)p - (uintptr_t)t->fiber.stack < t->fiber.size) return;
  if (!touch(t, p, (int)bytes, write, emu_address_id(t, pc))) elsewhere(t, p, bytes, write, pc);
}
/* memcpy and memset of a kernel that are no single load or store (emu.h). */
void *fa_emu_memcpy(void *to, const void *from, size_t bytes) {
  range((void *)(uintptr_t)from, bytes, false, EMU_PC);
  range(to, bytes, true, EMU_PC);
  return memcpy(to, from, bytes);
}
void *fa_emu_memset(void *to, int value, size_t bytes) {
  range(to, bytes, true, EMU_PC);
  return memset(to, value, bytes);
}
extern "C" void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
  range((void *)(uintptr_t)from, bytes, false, EMU_PC);
  range(to, bytes, true, EMU_PC);
  return memcpy(to, from, bytes);
}
extern "C" void *__tsan_memset(void *to, int value, size_t bytes) {
  range(to, bytes, true, EMU_PC);
  return memset(to, value, bytes);
}
extern "C" void __tsan_read_range(void *p, size_t bytes) {
  range(p, bytes, false, EMU_PC);
}
extern "C" void __tsan_write_range(void *p, size_t bytes) {
  range(p, bytes, true, EMU_PC);
}
extern "C" void __tsan_init(void) {}
/* A function that was not inlined: pc is behind its call. A finding shows the calls that led to its places. */
extern "C" void __tsan_func_entry(void *pc) {
  thread_t *t = emu_worker ? emu_worker->current : NULL;
  if (!t || !emu_settings()->races) return;
  if (t->depth < MOST_CALLS) {
    uint32_t place = emu_address_id(t, pc);
    t->call[t->depth] = place;
  }
  t->depth++;
}
extern "C" void __tsan_func_exit(void) {
  thread_t *t = emu_worker ? emu_worker->current : NULL;
  if (t && t->depth) t->depth--;
}
extern "C" void __tsan_vptr_update(void **slot, void *value) {
  (void)slot, (void)value;
}
extern "C" void __tsan_vptr_read(void **slot) {
  (void)slot;
}

/* Loads and stores that a wrapper makes in one piece. */
static void wide(const void *p, int bytes, bool write, emu_place_t here, emu_wrapper_t by, const void *pc) {
  if (!emu_settings()->races) return;
  thread_t *t = current_thread();
  const uint32_t place = emu_address_id(t, pc);
  if ((uintptr_t)p % (unsigned)bytes) misaligned(t, p, bytes, write, place);
  emu_check_space(t, by, p, bytes, write, place);
  touch(t, p, bytes, write, place);
  emu_request(t, p, bytes, {here.file, here.line});
}

emu_b32x4_t fa_emu_load(const void *from, int bytes, emu_place_t here, emu_wrapper_t by) {
  emu_b32x4_t x = {};
  wide(from, bytes, false, here, by, EMU_PC);
  memcpy(&x, from, (size_t)bytes);
  return x;
}

void fa_emu_store(void *to, emu_b32x4_t x, int bytes, emu_place_t here, emu_wrapper_t by) {
  wide(to, bytes, true, here, by, EMU_PC);
  memcpy(to, &x, (size_t)bytes);
}

/* --- atomics: they meet other blocks, so another SM may run before each ------------------------------ */

/* PTX: atom.add.f32 on global memory takes subnormal numbers for zeros of their sign; integers count modulo 2^32. */
static float normal(float x) {
  return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}
static float sum_of(float a, float b) {
  return normal(normal(a) + normal(b));
}
static int sum_of(int a, int b) {
  return (int)((unsigned)a + (unsigned)b);
}

template <class T> static T atomic_add(T *p, T x, emu_place_t here, emu_wrapper_t by, const void *pc) {
  thread_t *t = current_thread();
  uint32_t place = emu_address_id(t, pc);
  emu_check_space(t, by, p, sizeof x, true, place);
  if ((uintptr_t)p % sizeof x) misaligned(t, p, sizeof x, true, place);
  emu_let_others_run();
  emu_touch_global(t, p, sizeof x, true, true, EMU_WARP, place);
  emu_request(t, p, sizeof x, {here.file, here.line});
  emu_worker->count->hbm_read += sizeof x;
  T old = *p, sum;
  do sum = sum_of(old, x);
  while (!__atomic_compare_exchange(p, &old, &sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
float fa_emu_atomic_add_f32(float *p, float x, emu_place_t here, emu_wrapper_t by) {
  return atomic_add(p, x, here, by, EMU_PC);
}
int fa_emu_atomic_add_s32(int *p, int x, emu_place_t here, emu_wrapper_t by) {
  return atomic_add(p, x, here, by, EMU_PC);
}
