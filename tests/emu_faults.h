/* emu_faults.h - kernels that are wrong in one place, for the emulator to find, each beside the right one. */
#ifndef EMU_FAULTS_H
#define EMU_FAULTS_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Global memory that a faulty kernel may use: `words` of them were uploaded, as many again never were. */
enum { FAULT_WORDS = 4096 };
typedef struct fault_memory {
  uint32_t *filled;  /* FAULT_WORDS, from the host */
  uint32_t *blank;   /* FAULT_WORDS, never written */
  uint32_t *freed;   /* was memory */
  uint32_t *foreign; /* the host's */
  uint32_t *none;    /* NULL */
} fault_memory_t;

typedef struct fault {
  const char *name;
  const char
      *codes; /* the findings that must come up, and no others: "E04", or "E04 E08" where both tell of it */
  const char *text; /* what the message says besides, or NULL */
  int places;       /* how many marked lines the message names */
  int arch;         /* the architecture that is played */
  /* Runs the faulty kernel, or its right counterpart (NULL where `right` makes no sense). */
  fa_status_t (*run)(const fault_memory_t *m, bool wrong, fa_reason_t *why);
} fault_t;

/* Lines that the last kernel marked as the places of its fault. */
extern int fault_line[4];
void fault_mark(int n, int line); /* not in a kernel file: a kernel must not write to the host's memory */

/* Ended by a row without a name. */
extern const fault_t faults_barrier[], faults_race[], faults_copy[], faults_memory[];

#ifdef __cplusplus
}
#endif
#endif
