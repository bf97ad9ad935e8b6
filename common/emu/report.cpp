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

enum { MOST_PRINTED = 40, MOST_OF_A_LAUNCH = 40 };

bool emu_is_new(const char *code, uint64_t key) {
  std::lock_guard<std::mutex> guard(lock);
  return findings.size() < MOST_OF_A_LAUNCH && said.insert({code, key}).second;
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
    if (!f.compare(0, 5, "[E04]") || !f.compare(0, 5, "[E05]")) return f.c_str();
  for (const std::string &f : findings)
    if (f.compare(0, 5, "[E08]")) return f.c_str();
  return findings.empty() ? "" : findings[0].c_str();
}

void emu_thread_text(const thread_t *t, char *text, size_t size) {
  snprintf(text, size, "block %lld thread %u (warp %d lane %d)", (long long)t->warp->block->index, t->index,
           t->warp->index, t->lane);
}

/* --- places: small numbers for (file, line) and for code addresses ----------------------------------
 * An address has the calls that led to it: the number of the place of the innermost call, which has one in turn. */

struct place_key_t {
  const void *what; /* the file's name, or the address */
  int line;
  uint32_t caller;
  bool operator<(const place_key_t &o) const {
    return what != o.what ? what < o.what : line != o.line ? line < o.line : caller < o.caller;
  }
};
static std::map<place_key_t, uint32_t> numbers;
static std::vector<place_key_t> places(1); /* number 0: unknown */
enum { PLACE_LIMIT = (1 << 14) - 1 };

__thread emu_known_place_t emu_known_places[KNOWN_PLACES];

static uint32_t number_of(const void *what, int line, uint32_t caller) {
  std::lock_guard<std::mutex> guard(lock);
  uint32_t &n = numbers[{what, line, caller}];
  if (!n && places.size() < PLACE_LIMIT) {
    n = (uint32_t)places.size();
    places.push_back({what, line, caller});
  }
  return n;
}

uint32_t emu_place_id(emu_place_t place) {
  return number_of(place.file, place.line, 0);
}
uint32_t emu_new_place(emu_known_place_t *known, uint64_t key, const void *pc, uint32_t caller) {
  *known = {key, number_of(pc, -1, caller)};
  return known->number;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* What addr2line says of some addresses, with inlined calls. It comes with every gcc, costs milliseconds, and is asked for
 * findings only. No shell in between: a path may hold quotes, spaces and anything else. */
static std::vector<std::string> ask_addr2line(const char *program,
                                              const std::vector<std::string> &addresses) {
  std::vector<std::string> lines;
  std::vector<const char *> words = {"addr2line", "-i", "-e", program};
  for (const std::string &a : addresses) words.push_back(a.c_str());
  words.push_back(NULL);
  int ends[2];
  if (pipe(ends)) return lines;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child;
  bool started = posix_spawnp(&child, words[0], &actions, NULL, (char *const *)words.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  FILE *f = fdopen(ends[0], "r");
  char line[4096];
  while (f && fgets(line, sizeof line, f)) {
    char *more = strstr(line, " (discriminator");
    if (more) *more = 0;
    line[strcspn(line, "\n")] = 0;
    lines.push_back(line);
  }
  if (f)
    fclose(f);
  else
    close(ends[0]);
  if (started) waitpid(child, NULL, 0);
  return lines;
}

/* Lines that are not the kernel's own: the wrappers, the emulator, the standard library. */
static bool is_plumbing(const std::string &line) {
  return line.find('?') != line.npos || line.find("common/ptx/") != line.npos ||
         line.find("common/emu/") != line.npos || line.find("/c++/") != line.npos;
}

/* The source lines of an address and of the calls that led to it, innermost first: "a.cuh:71 (called at b.cu:283, :390)". Asks
 * addr2line, which comes with every gcc; costs milliseconds, and happens only for findings. */
static std::string address_text(const std::vector<const void *> &pcs) {
  Dl_info info;
  char text[64];
  snprintf(text, sizeof text, "address %p", pcs[0]);
  std::string result = text;
  if (!dladdr(pcs[0], &info) || !info.dli_fname) return result;
  char self[PATH_MAX] = "";
  const char *program = info.dli_fname;
  /* The main program's name is what it was called by, perhaps found through PATH. */
  if (access(program, R_OK) && readlink("/proc/self/exe", self, sizeof self - 1) > 0) program = self;
  std::vector<std::string> addresses;
  for (const void *pc : pcs) { /* the call, not what follows it */
    snprintf(text, sizeof text, "0x%llx",
             (unsigned long long)((uintptr_t)pc - (uintptr_t)info.dli_fbase - 1));
    addresses.push_back(text);
  }
  std::string last, file;
  int shown = 0;
  for (const std::string &path : ask_addr2line(program, addresses)) {
    const std::string line = base_name(path.c_str());
    if (is_plumbing(path) || line == last) continue;
    last = line;
    const size_t colon = line.rfind(':');
    const bool same_file = colon != line.npos && line.substr(0, colon) == file;
    file = line.substr(0, colon);
    result = shown == 0 ? line
                        : result + (shown == 1 ? " (called at " : ", ") + line.substr(same_file ? colon : 0);
    shown++;
  }
  return shown > 1 ? result + ")" : result;
}

const char *emu_place_text(uint32_t place, char *text, size_t size) {
  static std::map<uint32_t, std::string> known;
  std::lock_guard<std::mutex> guard(lock);
  const place_key_t key = place < places.size() ? places[place] : places[0];
  if (!key.what) {
    snprintf(text, size, "an unknown place");
  } else if (key.line >= 0) {
    snprintf(text, size, "%s:%d", base_name((const char *)key.what), key.line);
  } else {
    std::string &answer = known[place];
    std::vector<const void *> pcs;
    for (uint32_t p = place; answer.empty() && p; p = places[p].caller) pcs.push_back(places[p].what);
    if (answer.empty()) answer = address_text(pcs);
    snprintf(text, size, "%s", answer.c_str());
  }
  return text;
}
