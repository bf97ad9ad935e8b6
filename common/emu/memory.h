/* memory.h - the emulator's global memory, for its device (device_emu.cpp). */
#ifndef FA_EMU_MEMORY_H
#define FA_EMU_MEMORY_H

#include <stddef.h>

/* A buffer in emulated global memory, "never written" until marked or written; NULL without memory. */
void *emu_alloc(size_t bytes);
/* The address is not given out again, so that late uses are found. */
void emu_free(void *p);
/* Of what was allocated last, and that nobody can know any more: the address may be given out again. */
void emu_free_last(void *p);
/* What the host copies in counts as written. */
void emu_mark_written(void *p, size_t bytes);

#endif
