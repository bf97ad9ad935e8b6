/* constants.cpp - the program's own read-only data: tables and texts that a kernel file holds. On a GPU they are in the
 * kernel's constant memory; all other memory of the host is out of a kernel's reach. */
#include "engine.h"

#ifdef __linux__
#include <link.h>

struct asked_t {
  uintptr_t first, last;
  bool found;
};

/* What cannot be written, and what could be only until the program was linked. */
static int look(struct dl_phdr_info *object, size_t, void *data) {
  asked_t *asked = (asked_t *)data;
  for (int n = 0; n < object->dlpi_phnum && !asked->found; n++) {
    const auto &h = object->dlpi_phdr[n];
    const bool constant = h.p_type == PT_GNU_RELRO || (h.p_type == PT_LOAD && !(h.p_flags & PF_W));
    const uintptr_t begin = object->dlpi_addr + h.p_vaddr;
    asked->found = constant && asked->first >= begin && asked->last < begin + h.p_memsz;
  }
  return asked->found;
}

bool emu_is_constant(const void *p, size_t bytes) {
  asked_t asked = {(uintptr_t)p, (uintptr_t)p + (bytes ? bytes - 1 : 0), false};
  dl_iterate_phdr(look, &asked);
  return asked.found;
}

#else

/* Nobody to ask: what a kernel reads of the host's memory is not found. */
bool emu_is_constant(const void *, size_t) {
  return true;
}

#endif
