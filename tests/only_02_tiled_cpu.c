/* only_02_tiled_cpu.c - what only this stage has: blocks of any size, and code for several instruction sets. */
#define _GNU_SOURCE
#define FA_ISA baseline /* the vectors of fast_simd.h that every CPU has */
#include "02_tiled_cpu/fast_simd.h"
#include "02_tiled_cpu/tiled.h"
#include "run_case.h"
#include "simd.h"

#include <stdlib.h>
#include <string.h>

/* --- bl29: the block sizes change nothing ------------------------------------------------------------ */

static const int64_t block_sizes[][2] = {{32, 32}, {16, 64}, {64, 16},   {32, 64},  {1, 1},  {1, 128},
                                         {128, 1}, {7, 13},  {100, 100}, {99, 101}, {300, 3}};

/* Runs `tiled` on t with the given blocks; the arrays are in place already. */
static bool run_blocks(fa_tensors_t *t, int64_t Br, int64_t Bc, const char *what, report_t *r) {
  size_t forward = fa_tiled_workspace(&t->host, FA_FORWARD, Br, Bc);
  size_t bytes = t->backward ? fa_tiled_workspace(&t->host, FA_BACKWARD, Br, Bc) : 0;
  if (bytes < forward) bytes = forward;
  void *workspace;
  fa_reason_t why = {""};
  if (fa_tensors_upload(t, &why) || fa_machine_cpu.alloc(&workspace, bytes, &why)) {
    wrong(r, "%s: %s", what, why.text);
    return false;
  }
  memset(workspace, 0xff, bytes); /* NaN: nothing may depend on what a workspace held */
  fa_tiled_forward(&t->host, Br, Bc, workspace);
  if (t->backward) fa_tiled_backward(&t->host, Br, Bc, workspace);
  fa_machine_cpu.release(workspace);
  if (!fa_tensors_guards(t, &why)) return true;
  wrong(r, "%s: %s", what, why.text);
  return false;
}

static void blocks(const subject_t *s, bool backward, report_t *r) {
  for (int causal = 0; causal < 2; causal++) {
    fa_problem_t p = {.batch = 1,
                      .heads_q = 4,
                      .heads_kv = 2,
                      .seq_q = 100,
                      .seq_k = 100,
                      .head_dim = 20,
                      .head_dim_v = 12,
                      .causal = causal,
                      .scale = fa_default_scale(20)};
    fa_tensors_t t;
    if (!make_tensors(s, &p, FA_PADDED, backward, "bl29", &t, r)) return;
    bool ok = fill_random(&t, "normal", 29, r);
    int arrays[5], count = output_arrays(backward, arrays);
    copy_t first[5] = {{0}};
    for (size_t n = 0; n < sizeof block_sizes / sizeof *block_sizes && ok; n++) {
      char what[80];
      snprintf(what, sizeof what, "bl29: N=100%s, blocks of %d x %d", causal ? " causal" : "",
               (int)block_sizes[n][0], (int)block_sizes[n][1]);
      ok = run_blocks(&t, block_sizes[n][0], block_sizes[n][1], what, r) && right(s, &t, what, r);
      for (int a = 0; a < count && ok; a++) {
        copy_t now = copy_of(&t, arrays[a]);
        if (n == 0)
          first[a] = now;
        else {
          ok = near(&first[a], &now, tolerance_of(&p), arrays[a], what, r);
          free_copy(&now);
        }
      }
    }
    for (int a = 0; a < count; a++) free_copy(&first[a]);
    fa_tensors_free(&t);
  }
}

static void blocks_forward(const subject_t *s, report_t *r) {
  blocks(s, false, r);
}

static void blocks_backward(const subject_t *s, report_t *r) {
  blocks(s, true, r);
}

/* The sizes of FlashAttention's Algorithm 1 for the SRAM that tiled.h assumes. */
static void block_rule(const subject_t *s, report_t *r) {
  static const int64_t dims[] = {1, 3, 32, 64, 100, 128, 256, 1000, 100000};
  for (size_t n = 0; n < sizeof dims / sizeof *dims; n++) {
    fa_problem_t p = {.batch = 1,
                      .heads_q = 1,
                      .heads_kv = 1,
                      .seq_q = 5000,
                      .seq_k = 5000,
                      .head_dim = dims[n],
                      .head_dim_v = dims[n]};
    int64_t Br = 0, Bc = 0;
    fa_tiled_sizes(&p, &Br, &Bc);
    if (Br < 1 || Bc < 1 || (dims[n] == 64 && (Br != 32 || Bc != 32)))
      wrong(r, "%s, step %s: head_dim %d gives blocks of %d x %d", s->stage->name, s->step->name,
            (int)dims[n], (int)Br, (int)Bc);
  }
}

/* --- the polynomial -------------------------------------------------------------------------------- */

/* The error that the lesson and exp_poly.h state, over an even sample of the numbers that softmax needs. */
static void exp_error(const subject_t *s, report_t *r) {
  const int many = 2000000;
  for (int n = 0; n <= many; n++) {
    float x = (float)(-87.3 * n / many);
    double right = exp((double)x), one = fa_exp_poly(x), lane = vexp(splat(x))[n % LANES];
    if (fabs(one - right) <= 1.96e-7 * right && fabs(lane - right) <= 1.96e-7 * right) continue;
    wrong(r, "%s, step %s: exp(%.9g) is %.9g, in a vector %.9g, must be %.9g within 1.95e-7", s->stage->name,
          s->step->name, (double)x, one, lane, right);
    break;
  }
  bool ends = fa_exp_poly(0) == 1 && fa_exp_poly(-INFINITY) == 0 && isnan(fa_exp_poly(NAN)) &&
              vexp(splat(0))[0] == 1 && vexp(splat(-INFINITY))[0] == 0 && isnan(vexp(splat(NAN))[0]);
  if (!ends) wrong(r, "%s, step %s: exp of 0, -inf or NaN is not 1, 0, NaN", s->stage->name, s->step->name);
}

/* --- a query that sees one key ----------------------------------------------------------------------- */

/* P is 1 and O is V, so dP and D are the same sum: dQ is 0, not what two ways of rounding leave of it. */
static void one_key(const subject_t *s, report_t *r) {
  static const char *const names[] = {"baseline", "avx2", "avx512"};
  for (int isa = FA_BASELINE; isa <= FA_AVX512; isa++)
    for (int64_t dim = 1; dim <= 67; dim += dim < 20 ? 1 : 13) {
      fa_problem_t p = {.batch = 2,
                        .heads_q = 4,
                        .heads_kv = 2,
                        .seq_q = 37,
                        .seq_k = 37,
                        .head_dim = 5,
                        .head_dim_v = dim,
                        .causal = true,
                        .scale = 3};
      fa_tensors_t t;
      fa_reason_t why = {""};
      setenv("FA_ISA", names[isa], 1); /* where the CPU has less, that is tested once more */
      if (!make_tensors(s, &p, FA_PADDED, true, "one_key", &t, r)) return;
      bool ok = fill_random(&t, "large", 7, r);
      if (ok && fa_tensors_run(&t, s->stage, s->step, &why)) wrong(r, "one_key: %s", why.text);
      for (int64_t n = 0; n < p.batch * p.heads_q && ok; n++)
        for (int64_t c = 0; c < p.head_dim; c++) {
          float x = ((const float *)t.host.dq.data)[fa_row(&t.host.dq, n / p.heads_q, n % p.heads_q, 0) + c];
          if (!(x == 0)) wrong(r, "%s, head_dim_v %d: dQ of row 0 is %.9g", names[isa], (int)dim, (double)x);
          ok = ok && x == 0;
        }
      fa_tensors_free(&t);
    }
}

/* --- every instruction set that this CPU has --------------------------------------------------------- */

static bool is_quick_fp32(const instance_t *i) {
  return !i->row->expect && !(i->row->use & FORWARD_ONLY) && i->pair == IN_FP32 && i->row->tier == QUICK;
}

/* Each test is a process of its own, so that the environment changes for nobody else. */
static bool choose_isa(const char *name, fa_isa_t isa, report_t *r) {
  static const char *chosen;
  static bool runs;
  if (chosen && !strcmp(chosen, name)) return runs;
  chosen = name;
  runs = false;
  unsetenv("FA_ISA");
  if (fa_isa() == isa) {
    not_run(r, "%s is what all other tests of the step ran with", name);
  } else {
    setenv("FA_ISA", name, 1);
    runs = fa_isa() == isa;
    if (!runs) not_run(r, "this CPU has no %s", name);
  }
  return runs;
}

static void on_isa(const subject_t *s, const instance_t *i, bool backward, const char *name, fa_isa_t isa,
                   report_t *r) {
  fa_tensors_t t;
  if (!choose_isa(name, isa, r) || !make_instance(s, i, backward, &t, r)) return;
  run_right(s, &t, i->name, r);
  fa_tensors_free(&t);
}

#define ON_ISA(name, isa)                                                                                    \
  static void name##_forward(const subject_t *s, const instance_t *i, report_t *r) {                         \
    on_isa(s, i, false, #name, isa, r);                                                                      \
  }                                                                                                          \
  static void name##_backward(const subject_t *s, const instance_t *i, report_t *r) {                        \
    on_isa(s, i, true, #name, isa, r);                                                                       \
  }
ON_ISA(baseline, FA_BASELINE)
ON_ISA(avx2, FA_AVX2)
ON_ISA(avx512, FA_AVX512)

#define EACH(title, function, way)                                                                           \
  { .name = title, .pass = way, .each = function, .wants = is_quick_fp32, .one_test = true, .step = "fast" }
/* Hidden pairs are left out. */
tile_t only_tile(const subject_t *s, int64_t head_dim, fa_pass_t pass) {
  (void)s, (void)head_dim, (void)pass;
  return (tile_t){1, 1};
}

static const property_t properties[] = {
    {.name = "block_rule", .once = block_rule, .step = "tiled"},
    {.name = "bl29_blocks", .once = blocks_forward, .step = "tiled"},
    {.name = "bl29_blocks_backward", .pass = FA_BACKWARD, .once = blocks_backward, .step = "tiled"},
    {.name = "exp_error", .once = exp_error, .step = "fast"},
    {.name = "one_key", .pass = FA_BACKWARD, .once = one_key, .step = "fast"},
    EACH("isa_baseline", baseline_forward, FA_FORWARD),
    EACH("isa_baseline_backward", baseline_backward, FA_BACKWARD),
#ifdef __x86_64__
    EACH("isa_avx2", avx2_forward, FA_FORWARD),
    EACH("isa_avx2_backward", avx2_backward, FA_BACKWARD),
    EACH("isa_avx512", avx512_forward, FA_FORWARD),
    EACH("isa_avx512_backward", avx512_backward, FA_BACKWARD),
#endif
    {.name = NULL}};
const suite_t suite_only = {"block sizes and instruction sets", properties};
