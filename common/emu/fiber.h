/* fiber.h - stacks that can be left and entered again: one for every emulated CUDA thread.
 *
 * A switch saves what the calling convention asks a function to preserve, and the stack pointer; it takes a
 * few nanoseconds. Nothing else is needed, because a switch is an ordinary call for the compiler. */
#ifndef FA_EMU_FIBER_H
#define FA_EMU_FIBER_H

#include <stddef.h>
#if !defined(__x86_64__) && !defined(__aarch64__)
#include <ucontext.h>
#define FIBER_UCONTEXT 1
#endif

/* A fiber's saved state, or that of the thread that started the first one. */
struct fiber_t {
#if FIBER_UCONTEXT
  ucontext_t context;
#else
  void *sp; /* where its registers are saved */
#endif
  char *stack; /* NULL for the thread's own stack */
  size_t size;
};

/* Enough for a few kilobytes of "registers" in local arrays, and for calls into the C library. */
enum { FIBER_STACK = 64 * 1024 };

/* Gives f a stack with a guard page below it, so that an overflow stops the program where it happens.
 * Returns false without memory. */
bool fiber_new(fiber_t *f);
void fiber_delete(fiber_t *f);

/* Makes the next switch to f call entry(), which must never return. May be repeated on one stack. The first `skip` bytes
 * of the stack stay unused: stacks lie a multiple of a page apart, so that the same variable of all fibers would meet in
 * the few places of a cache that its address selects. */
void fiber_prepare(fiber_t *f, void (*entry)(void), size_t skip);

/* Leaves `from` and goes on in `to`. Returns when somebody switches back to `from`. */
void fiber_switch(fiber_t *from, fiber_t *to);

#endif
