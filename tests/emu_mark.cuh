/* emu_mark.cuh - faulty kernels: their form, their marks, their launchers. For the emulator only. */
#ifndef EMU_MARK_CUH
#define EMU_MARK_CUH

#include "emu_faults.h"
#include "ptx/launch.h"

/* WRONG: with the fault; otherwise as it should be. */
#define KERNEL(name) template <bool WRONG> __global__ void name([[maybe_unused]] fault_memory_t m)

/* Remembers the line that it stands in: AT(0), statement. Every thread stores the same number. */
#define AT(n) fault_mark(n, __LINE__)

/* What runs the kernel in `blocks` blocks: the last entry of a row. */
#define FAULT_BLOCKS(name, blocks, threads, bytes)                                                           \
  [](const fault_memory_t *m, bool wrong, fa_reason_t *why) -> fa_status_t {                                 \
    if (wrong)                                                                                               \
      LAUNCH(name<true>, blocks, threads, bytes, NULL, *m);                                                  \
    else                                                                                                     \
      LAUNCH(name<false>, blocks, threads, bytes, NULL, *m);                                                 \
    return FA_OK;                                                                                            \
  }
#define FAULT(name, threads, bytes) FAULT_BLOCKS(name, 1, threads, bytes)

#endif
