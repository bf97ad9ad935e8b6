/* report.cpp - findings: collected once each, printed with their place, explained in notes/findings.md. */
#include "engine.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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

/* Asks addr2line, which comes with every gcc; costs milliseconds, and happens only for findings. */
static void address_text(const void *pc, char *text, size_t size) {
  Dl_info info;
  snprintf(text, size, "address %p", pc);
  if (!dladdr(pc, &info) || !info.dli_fname) return;
  char command[600], line[400];
  uintptr_t offset = (uintptr_t)pc - (uintptr_t)info.dli_fbase - 1; /* the call, not what follows it */
  snprintf(command, sizeof command, "addr2line -e '%s' 0x%lx 2>/dev/null", info.dli_fname,
           (unsigned long)offset);
  FILE *f = popen(command, "r");
  if (!f) return;
  if (fgets(line, sizeof line, f) && line[0] != '?') {
    line[strcspn(line, "\n (")] = 0;
    snprintf(text, size, "%s", base_name(line));
  }
  pclose(f);
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
