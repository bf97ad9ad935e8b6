/* progress.c - what takes long, on a terminal; silent in a pipe. */
#define _POSIX_C_SOURCE 200809L
#include "driver.h"

#include <unistd.h>

void fa_progress(const char *what) {
  static bool shown;
  if (!isatty(STDERR_FILENO) || (!what && !shown)) return;
  fprintf(stderr, "\r\033[K%s%s", what ? what : "", what ? " ..." : "");
  fflush(stderr);
  shown = what != NULL;
}
