/* fiber.cpp - see fiber.h. Hand-written for x86-64 and AArch64, ucontext elsewhere (about a hundred times
 * slower: it enters the kernel for the signal mask). */
#include "fiber.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#endif
#endif
#if FIBER_ASAN
#include <sanitizer/asan_interface.h>
#endif

#if defined(__APPLE__)
#define SYMBOL(name) "_" name
#define HIDE ".private_extern "
#else
#define SYMBOL(name) name
#define HIDE ".hidden "
#endif

extern "C" void fa_fiber_switch(void **save, void *load);

#if defined(__x86_64__)
/* System V ABI: rbx, rbp, r12-r15 are preserved by a called function; so are the control bits of mxcsr and of
 * the x87 unit, which nobody here changes. */
asm(".text\n"
    ".globl " SYMBOL("fa_fiber_switch") "\n" HIDE SYMBOL("fa_fiber_switch") "\n" SYMBOL(
        "fa_fiber_switch") ":\n"
                           "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq "
                           "%r15\n"
                           "  movq %rsp, (%rdi)\n"
                           "  movq %rsi, %rsp\n"
                           "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
                           "  ret\n");
enum { SAVED_WORDS = 6 };
static void *first_frame(char *top, void (*entry)(void)) {
  /* entry() finds the stack as after a call: 8 bytes below a multiple of 16, a return address of 0. */
  uint64_t *s = (uint64_t *)((uintptr_t)top & ~(uintptr_t)15);
  *--s = 0;
  *--s = (uint64_t)(uintptr_t)entry;
  for (int i = 0; i < SAVED_WORDS; i++) *--s = 0;
  return s;
}
#elif defined(__aarch64__)
/* AAPCS64: x19-x29, the link register x30 and d8-d15. */
asm(".text\n"
    ".globl " SYMBOL("fa_fiber_switch") "\n" HIDE SYMBOL("fa_fiber_switch") "\n" SYMBOL(
        "fa_fiber_switch") ":\n"
                           "  sub sp, sp, #160\n"
                           "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
                           "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
                           "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, "
                           "#128]\n  stp d14, d15, [sp, #144]\n"
                           "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
                           "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
                           "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
                           "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, "
                           "#128]\n  ldp d14, d15, [sp, #144]\n"
                           "  add sp, sp, #160\n"
                           "  ret\n");
enum { SAVED_WORDS = 20, LINK_REGISTER = 11 };
static void *first_frame(char *top, void (*entry)(void)) {
  uint64_t *s = (uint64_t *)((uintptr_t)top & ~(uintptr_t)15) - SAVED_WORDS;
  memset(s, 0, SAVED_WORDS * sizeof *s);
  s[LINK_REGISTER] = (uint64_t)(uintptr_t)entry;
  return s;
}
#endif

bool fiber_new(fiber_t *f) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t size = (FIBER_STACK + page - 1) / page * page;
  void *memory = mmap(NULL, size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  if (mprotect(memory, page, PROT_NONE)) {
    munmap(memory, size + page);
    return false;
  }
  f->stack = (char *)memory + page;
  f->size = size;
  return true;
}

void fiber_delete(fiber_t *f) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
#if FIBER_ASAN
  if (f->stack) __asan_unpoison_memory_region(f->stack, f->size); /* the addresses may become another stack */
#endif
  if (f->stack) munmap(f->stack - page, f->size + page);
  memset(f, 0, sizeof *f);
}

void fiber_prepare(fiber_t *f, void (*entry)(void), size_t skip) {
#if FIBER_ASAN
  /* A fiber never returns from its frames: what they poisoned would stay so for the next user. */
  __asan_unpoison_memory_region(f->stack, f->size);
#endif
#if FIBER_UCONTEXT
  ucontext_t *c = &f->context;
  getcontext(c);
  c->uc_stack.ss_sp = f->stack;
  c->uc_stack.ss_size = f->size - skip;
  c->uc_link = NULL;
  makecontext(c, entry, 0);
#else
  f->sp = first_frame(f->stack + f->size - skip, entry);
#endif
}

void fiber_switch(fiber_t *from, fiber_t *to) {
#if FIBER_UCONTEXT
  swapcontext(&from->context, &to->context);
#else
  fa_fiber_switch(&from->sp, to->sp);
#endif
}
