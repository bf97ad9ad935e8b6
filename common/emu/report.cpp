/* report.cpp - findings: collected once each, printed with their place, explained in notes/findings.md. */
#include "engine.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

static std::mutex lock;                   /* all below is shared by the workers */
static std::vector<std::string> findings; /* of this launch */
static std::set<std::pair<std::string, uint64_t>> said;
static int printed;

enum { MOST_PRINTED = 40 };

bool emu_is_new(const char *code, uint64_t key) {
  std::lock_guard<std::mutex> guard(lock);
  return said.insert({code, key}).second;
}

void emu_find(const char *code, const char *format, ...) {
  char text[1200];
  int used = snprintf(text, sizeof text, "[%s] ", code);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + used, sizeof text - (size_t)used, format, arguments);
  va_end(arguments);
  std::lock_guard<std::mutex> guard(lock);
  findings.push_back(text);
  if (printed == MOST_PRINTED) fprintf(stderr, "emulator: further findings are not printed\n");
  if (printed++ < MOST_PRINTED) fprintf(stderr, "emulator: %s (notes/findings.md explains %s)\n", text, code);
}

void emu_findings_clear(void) {
  std::lock_guard<std::mutex> guard(lock);
  findings.clear();
  said.clear();
}

int emu_finding_count(void) {
  std::lock_guard<std::mutex> guard(lock);
  return (int)findings.size();
}

const char *emu_main_finding(void) {
  std::lock_guard<std::mutex> guard(lock);
  for (const std::string &f : findings)
    if (f.compare(0, 5, "[E08]")) return f.c_str();
  return findings.empty() ? "" : findings[0].c_str();
}

void emu_thread_text(const thread_t *t, char *text, size_t size) {
  snprintf(text, size, "block %lld thread %u (warp %d lane %d)", (long long)t->warp->block->index,
           t->self.thread.x, t->warp->index, t->lane);
}

/* --- places: small numbers for (file, line) and for code addresses ---------------------------------- */

struct place_key_t {
  const void *what; /* the file's name, or the address */
  int line;
  bool operator<(const place_key_t &o) const { return what != o.what ? what < o.what : line < o.line; }
};
static std::map<place_key_t, uint32_t> numbers;
static std::vector<place_key_t> places(1); /* number 0: unknown */
enum { PLACE_LIMIT = (1 << 14) - 1 };

static uint32_t number_of(const void *what, int line) {
  struct slot_t {
    const void *what;
    int line;
    uint32_t number;
  };
  static __thread slot_t cache[1024];
  slot_t *c = &cache[((uintptr_t)what * 31 + (uintptr_t)line * 7) >> 1 & 1023];
  if (c->number && c->what == what && c->line == line) return c->number;
  std::lock_guard<std::mutex> guard(lock);
  uint32_t &n = numbers[{what, line}];
  if (!n && places.size() < PLACE_LIMIT) {
    n = (uint32_t)places.size();
    places.push_back({what, line});
  }
  *c = {what, line, n};
  return n;
}

uint32_t emu_place_id(emu_place_t place) {
  return number_of(place.file, place.line);
}
uint32_t emu_address_id(const void *pc) {
  return number_of(pc, -1);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The first line that addr2line prints. It comes with every gcc, costs milliseconds, and is asked for findings only.
 * No shell in between: a path may hold quotes, spaces and anything else. */
static bool ask_addr2line(const char *program, uintptr_t offset, char *line, int size) {
  char address[32];
  snprintf(address, sizeof address, "0x%llx", (unsigned long long)offset);
  const char *words[] = {"addr2line", "-e", program, address, NULL};
  int ends[2];
  if (pipe(ends)) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child;
  bool started = posix_spawnp(&child, words[0], &actions, NULL, (char *const *)words, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  bool read = f && fgets(line, size, f);
  if (f)
    fclose(f);
  else
    close(ends[0]);
  if (started) waitpid(child, NULL, 0);
  return started && read;
}

static void address_text(const void *pc, char *text, size_t size) {
  Dl_info info;
  char line[4096];
  snprintf(text, size, "address %p", pc);
  if (!dladdr(pc, &info) || !info.dli_fname) return;
  uintptr_t offset = (uintptr_t)pc - (uintptr_t)info.dli_fbase - 1; /* the call, not what follows it */
  char self[PATH_MAX] = "";
  const char *program = info.dli_fname;
  /* The main program's name is what it was called by, perhaps found through PATH. */
  if (access(program, R_OK) && readlink("/proc/self/exe", self, sizeof self - 1) > 0) program = self;
  if (!ask_addr2line(program, offset, line, sizeof line) || line[0] == '?') return;
  char *more = strstr(line, " (discriminator");
  if (more) *more = 0;
  line[strcspn(line, "\n")] = 0;
  snprintf(text, size, "%s", base_name(line));
}

const char *emu_place_text(uint32_t place, char *text, size_t size) {
  place_key_t key;
  {
    std::lock_guard<std::mutex> guard(lock);
    key = place < places.size() ? places[place] : places[0];
  }
  if (!key.what)
    snprintf(text, size, "an unknown place");
  else if (key.line >= 0)
    snprintf(text, size, "%s:%d", base_name((const char *)key.what), key.line);
  else
    address_text(key.what, text, size);
  return text;
}
