/* only_03_fa1_cuda.c - what only this stage has: blocks of keys that do not fit the shared memory of every GPU, and rows
 * counted in 32 bits. */
#include "03_fa1_cuda/config.h"
#include "only_03_fa1_cuda.h"
#include "run_case.h"

#include <math.h>
#include <string.h>

/* --- what is accepted fits ------------------------------------------------------------------------------ */

/* Every architecture that the emulator knows. */
static const int architectures[] = {75, 80, 86, 89, 90, 100, 120};

static fa_status_t launch(const subject_t *s, fa_tensors_t *t, fa_pass_t pass, fa_reason_t *why) {
  const fa_kernels_t *kernels = s->step->on[s->device];
  return (pass == FA_FORWARD ? kernels->forward : kernels->backward)(&t->dev, why);
}

/* The shared memory that a refused launch wanted and had: "NAME: 9 bytes of shared memory; sm_75 has 8 for a block". */
static bool same_bytes(const char *launch, const char *refusal) {
  unsigned long long wanted[2], most[2];
  const char *colon = strrchr(launch, ':'), *needs = strstr(refusal, " needs "),
             *has = strstr(refusal, " has ");
  return colon && needs && has &&
         sscanf(colon, ": %llu bytes of shared memory; sm_%*d has %llu", &wanted[0], &most[0]) == 2 &&
         sscanf(needs, " needs %llu bytes", &wanted[1]) == 1 && sscanf(has, " has %llu", &most[1]) == 1 &&
         wanted[0] == wanted[1] && most[0] == most[1];
}

/* A step's `supports` must refuse, with the same two numbers, exactly what the launch refuses. */
static void as_launched(const subject_t *s, int sm, fa_tensors_t *t, fa_pass_t pass, report_t *r) {
  fa_reason_t refusal = {""}, failure = {""};
  fa_status_t said = fa_stage_supports(s->stage, s->step, &t->dev, pass, s->device, &refusal);
  fa_status_t done = launch(s, t, pass, &failure);
  bool agree = said ? said == FA_REFUSED && done && same_bytes(failure.text, refusal.text) : !done;
  if (!agree)
    wrong(r, "%s, step %s, sm_%d, head dim %d, %s: supports says %d \"%s\", the launch %d \"%s\"",
          s->stage->name, s->step->name, sm, (int)t->host.head_dim,
          pass == FA_FORWARD ? "forward" : "backward", (int)said, refusal.text, (int)done, failure.text);
}

static void shared_memory(const subject_t *s, report_t *r) {
  for (int d = 32; d <= 128; d += 32) {
    fa_problem_t p = {.batch = 1,
                      .heads_q = 1,
                      .heads_kv = 1,
                      .seq_q = 1,
                      .seq_k = 1,
                      .head_dim = d,
                      .head_dim_v = d,
                      .dtype = FA_FP16,
                      .dtype_out = FA_FP16,
                      .scale = 1};
    fa_tensors_t t;
    if (!make_tensors(s, &p, FA_BHND, true, "shared_memory", &t, r)) return;
    /* The right result, and the workspace, from the architecture that fits every step. */
    fa_emu_gpu(90, 4);
    bool ok = fill_random(&t, "normal", 3, r) && run(s, &t, "shared_memory", r);
    for (size_t n = 0; n < sizeof architectures / sizeof *architectures && ok; n++) {
      fa_emu_gpu(architectures[n], 4);
      as_launched(s, architectures[n], &t, FA_FORWARD, r);
      as_launched(s, architectures[n], &t, FA_BACKWARD, r);
    }
    fa_tensors_free(&t);
  }
}

/* --- rows in 32 bits -------------------------------------------------------------------------------------- */

/* Lengths up to the longest, and numbers of keys that kv_len can give of them (-1: no kv_len). */
static const int64_t lengths[] = {
    1, 31, 64, 100, FA1_LONGEST / 2 + 1, FA1_LONGEST - 65, FA1_LONGEST - 1, FA1_LONGEST};
static const int64_t valid[] = {-1,          INT32_MIN, 0, 1, 63, FA1_LONGEST / 2, FA1_LONGEST - 1,
                                FA1_LONGEST, INT32_MAX};
enum { LENGTHS = sizeof lengths / sizeof *lengths, VALID = sizeof valid / sizeof *valid };
/* Rows of a block: the kernels ask for rows of it that are beyond the last query, too. */
static const int blocks[] = {16, 32, 64, 128, 256};

/* Numbers from 0 to most - 1 near to where something happens: the ends, the diagonal's, and the middle. */
static int interesting(int64_t most, int64_t diagonal, int64_t *out) {
  const int64_t near_to[] = {0, diagonal, most / 2, most - 1};
  int count = 0;
  for (size_t n = 0; n < sizeof near_to / sizeof *near_to; n++)
    for (int64_t x = near_to[n] - 2; x <= near_to[n] + 2; x++)
      if (x >= 0 && x < most) out[count++] = x;
  return count;
}

static void must_be(const fa_problem_t *p, const char *what, int64_t at, int64_t got, int64_t expected,
                    report_t *r) {
  if (got != expected)
    wrong(r, "%lld queries, %lld keys (kv_len %lld)%s: %s of %lld is %lld, not %lld", (long long)p->seq_q,
          (long long)p->seq_k, p->kv_len ? (long long)*p->kv_len : -1, p->causal ? ", causal" : "", what,
          (long long)at, (long long)got, (long long)expected);
}

/* ptx/shape.h against fa.h's 64 bits. */
static void one_shape(const fa_problem_t *p, report_t *r) {
  const int64_t keys = fa_keys(p, 0), diagonal = keys - p->seq_q;
  const fa1_shape_t s = fa1_shape(p, 0);
  must_be(p, "the queries", 0, s.queries, p->seq_q, r);
  must_be(p, "the keys", 0, s.keys, keys, r);
  must_be(p, "the blind queries", 0, s.blind, keys ? fa_first_query(p, keys, 0) : p->seq_q, r);
  int64_t at[20];
  for (int n = 0, count = interesting(p->seq_q, -diagonal, at); n < count; n++) {
    must_be(p, "visible", at[n], fa1_visible(p, 0, (int)at[n]), fa_visible(p, keys, at[n]), r);
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) {
      const int64_t i0 = at[n] / blocks[k] * blocks[k], end = i0 + blocks[k];
      must_be(p, "visible", end - 1, fa1_visible(p, 0, (int)end - 1), fa_visible(p, keys, end - 1), r);
      must_be(p, "the last key", i0, fa1_last_key(p, 0, (int)i0, blocks[k]),
              fa_visible(p, keys, (end < p->seq_q ? end : p->seq_q) - 1) - 1, r);
    }
  }
  for (int n = 0, count = interesting(keys, diagonal, at); n < count; n++)
    must_be(p, "the first query", at[n], fa1_first_query(p, 0, (int)at[n]), fa_first_query(p, keys, at[n]),
            r);
}

static void shapes(const subject_t *s, report_t *r) {
  (void)s;
  for (int n = 0; n < LENGTHS * LENGTHS * VALID * 2; n++) {
    const int64_t v = valid[n / 2 % VALID];
    const int32_t kv_len = (int32_t)v;
    fa_problem_t p = {.batch = 1,
                      .heads_q = 1,
                      .heads_kv = 1,
                      .seq_q = lengths[n / 2 / VALID % LENGTHS],
                      .seq_k = lengths[n / 2 / VALID / LENGTHS],
                      .causal = n % 2,
                      .kv_len = v == -1 ? NULL : &kv_len};
    one_shape(&p, r);
  }
}

/* A workspace of more elements than 32 bits count: as much for each row as in a small one, but for whole blocks. */
static void workspaces(const subject_t *s, report_t *r) {
  for (int pass = 0; pass < FA_PASSES; pass++)
    for (int d = 32; d <= 128; d += 32)
      for (int64_t seq_q = 65536; seq_q <= FA1_LONGEST; seq_q *= 8192) {
        const int64_t few = 4096, heads[2] = {65536, 3};
        fa_problem_t p = {.batch = 1,
                          .heads_q = 1,
                          .heads_kv = 1,
                          .seq_q = few,
                          .seq_k = 1,
                          .head_dim = d,
                          .head_dim_v = d};
        const double row = (double)fa_stage_workspace(s->step, &p, (fa_pass_t)pass, s->device) / (double)few;
        p.batch = heads[0];
        p.heads_q = heads[1];
        p.seq_q = seq_q;
        const double all = (double)fa_stage_workspace(s->step, &p, (fa_pass_t)pass, s->device);
        const double expected = row * (double)(heads[0] * heads[1] * seq_q);
        if (!(row >= 4 * d && fabs(all - expected) <= 0.1 * expected))
          wrong(r, "%s: workspace of %lld x %lld heads of %lld rows: %.17g bytes, not about %.17g",
                s->step->name, (long long)heads[0], (long long)heads[1], (long long)seq_q, all, expected);
      }
}

/* --- how far a NaN may spread -------------------------------------------------------------------------------- */

/* `paper`: its blocks. Forward, a warp's rows and the 16 keys of a product; backward, the block of keys that a thread block
 * has, of which all go into dQ, and a block of queries. `tensorcore` takes the largest that it has, or one that divides it. */
tile_t only_tile(const subject_t *s, int64_t head_dim, fa_pass_t pass) {
  const int d = (int)head_dim;
  int Bc = 0;
  if (s->step->scalar) return (tile_t){PAPER_QUERIES(d), PAPER_KEYS(d)};
  if (pass == FA_FORWARD) return (tile_t){FORWARD_ROWS(d), 16};
  if (sscanf(s->step->name, "keys_%d", &Bc) != 1) Bc = 0;
  const int warps = backward_warps(d, Bc, SIZE_MAX);
  return (tile_t){BACKWARD_QUERIES(d, warps), warps * BACKWARD_KEYS(d)};
}

static const property_t properties[] = {
    {.name = "shared_memory", .pass = FA_BACKWARD, .once = shared_memory, .devices = BIT(FA_EMU)},
    {.name = "shapes", .once = shapes, .step = "paper", .devices = BIT(FA_EMU)},
    {.name = "workspaces", .once = workspaces, .devices = BIT(FA_EMU)},
    {.name = NULL}};
const suite_t suite_only = {"shared memory, and rows in 32 bits", properties};
