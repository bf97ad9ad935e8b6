/* requests.cpp - one request is one instruction executed by the lanes of a warp together: how many 32-byte sectors of
 * global memory, or passes over the 32 banks of shared memory, does it take?
 *
 * Lanes run one after another here, so requests are put together afterwards: the n-th execution of an instruction by
 * each lane since the warp last came together is one request. */
#include "engine.h"

#include <unordered_map>
#include <vector>

struct request_t {
  uint32_t lanes;
  const void *address[WARP];
};
struct instruction_t {
  uint32_t done[WARP];
  std::vector<request_t> open;
};
/* One instruction may be about two memories (cp.async), and a line may hold two instructions. */
struct executed_t {
  emu_instruction_t by;
  int bytes;
  bool global;
  bool operator==(const executed_t &x) const {
    return by.at == x.by.at && by.line == x.by.line && bytes == x.bytes && global == x.global;
  }
};
struct hash_t {
  size_t operator()(const executed_t &x) const {
    return ((uintptr_t)x.by.at * 31 + (unsigned)x.by.line) * 64 + (unsigned)(2 * x.bytes + x.global);
  }
};
struct request_table_t {
  std::unordered_map<executed_t, instruction_t, hash_t> of;
};

/* Banks: 8- and 16-byte accesses go in 2 and 4 phases of 16 and 8 lanes; lanes that want the same word share it. */
static void count_shared(const request_t &r, int bytes, fa_count_t *count) {
  int words = bytes > 4 ? bytes / 4 : 1, lanes = WARP / words;
  for (int first = 0; first < WARP; first += lanes) {
    uintptr_t word[WARP];
    int in_bank[WARP] = {0}, n = 0, waves = 0;
    for (int lane = first; lane < first + lanes; lane++)
      for (int k = 0; r.lanes >> lane & 1 && k < words; k++) {
        uintptr_t x = (uintptr_t)r.address[lane] / 4 + (unsigned)k;
        bool seen = false;
        for (int i = 0; i < n && !seen; i++) seen = word[i] == x;
        if (seen) continue;
        word[n++] = x;
        int *bank = &in_bank[x % WARP];
        if (++*bank > waves) waves = *bank;
      }
    count->shared_waves += waves;
    if (waves > 1) count->conflicts += waves - 1;
  }
}

static void count_global(const request_t &r, int bytes, fa_count_t *count) {
  uintptr_t sector[2 * WARP];
  int n = 0, lanes = 0;
  for (int lane = 0; lane < WARP; lane++) {
    if (!(r.lanes >> lane & 1)) continue;
    lanes++;
    uintptr_t first = (uintptr_t)r.address[lane] / 32,
              last = ((uintptr_t)r.address[lane] + (unsigned)bytes - 1) / 32;
    for (uintptr_t x = first; x <= last; x++) {
      bool seen = false;
      for (int i = 0; i < n && !seen; i++) seen = sector[i] == x;
      if (!seen) sector[n++] = x;
    }
  }
  count->sectors += n;
  count->sectors_least += (lanes * bytes + 31) / 32;
}

void emu_note_request(thread_t *t, const void *p, int bytes, emu_instruction_t by) {
  warp_t *w = t->warp;
  if (!w->requests) w->requests = new request_table_t;
  instruction_t &i = w->requests->of[{by, bytes, emu_in_region(p)}];
  uint32_t n = i.done[t->lane]++;
  if (n >= i.open.size()) i.open.resize(n + 1);
  i.open[n].lanes |= 1u << t->lane;
  i.open[n].address[t->lane] = p;
}

void emu_requests_end(warp_t *w) {
  if (!w->requests) return;
  for (auto &entry : w->requests->of) {
    instruction_t &i = entry.second;
    for (const request_t &r : i.open)
      if (r.lanes && entry.first.global)
        count_global(r, entry.first.bytes, emu_worker->count);
      else if (r.lanes)
        count_shared(r, entry.first.bytes, emu_worker->count);
    i.open.clear();
    memset(i.done, 0, sizeof i.done);
  }
}

void emu_requests_free(warp_t *w) {
  delete w->requests;
  w->requests = NULL;
}
