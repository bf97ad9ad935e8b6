/* memory.h - the emulator's global memory, for its device (device_emu.cpp). */
#ifndef FA_EMU_MEMORY_H
#define FA_EMU_MEMORY_H

#include <stddef.h>

/* A buffer in emulated global memory, "never written" until marked or written; NULL without memory. */
void *emu_alloc(size_t bytes);
void emu_free(void *p);
/* What the host copies in counts as written. */
void emu_mark_written(void *p, size_t bytes);

#endif
