/* stage.c - the table of 03_fa1_cuda: FlashAttention on a GPU, in the order of its first paper. */
#include "config.h"
#include "device_limits.h"
#include "formulas.h"

#include <math.h>

FA_KERNELS(fa1_paper)
FA_KERNELS(fa1_tensorcore)
FA_KERNELS(fa1_keys_64)
FA_KERNELS(fa1_keys_128)
FA_KERNELS(fa1_keys_256)

/* B_c of steps that fix it: the number in their name; 0 for the others. */
static int keys_of(const fa_step_t *step) {
  int Bc = 0;
  return sscanf(step->name, "keys_%d", &Bc) == 1 ? Bc : 0;
}

static bool has_head_dim(int64_t d) {
#define IS_IT(D, d) || (d) == D
  return false FA1_HEAD_DIMS(IS_IT, d);
}

/* What the launchers will ask for, where a block can have shared_bytes. */
static size_t shared_wanted(const fa_step_t *step, int d, fa_pass_t pass, size_t shared_bytes) {
  const int Bc = keys_of(step);
  if (step->scalar) return 0; /* paper fits every GPU: paper.cu and paper_backward.cu assert it */
  if (pass == FA_FORWARD) return forward_bytes(d, Bc ? Bc : forward_keys(d, shared_bytes));
  return backward_bytes(d, backward_warps(d, Bc, shared_bytes));
}

/* Thread blocks of the largest launch: one for each head; but backward, `tensorcore` has some for the rows of LSE and D. */
static double blocks_wanted(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass) {
  const double heads = (double)p->batch * (double)p->heads_q;
  if (step->scalar || pass == FA_FORWARD) return heads;
  return heads * (double)((p->seq_q + STATS_BLOCK - 1) / STATS_BLOCK * (STATS_BLOCK / STATS_ROWS));
}

static fa_status_t supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass, fa_device_t device,
                            fa_reason_t *why) {
  int64_t d = p->head_dim;
  if (d != p->head_dim_v || !has_head_dim(d))
    return fa_say(why, FA_REFUSED,
                  "03_fa1_cuda, step %s has head dim " FA1_HEAD_DIMS_TEXT ", the same for V; not %lld, %lld",
                  step->name, (long long)d, (long long)p->head_dim_v);
  if (p->splits > 1)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s does not split keys (splits is %d)", step->name,
                  p->splits);
  if (p->seq_q > FA1_LONGEST || p->seq_k > FA1_LONGEST)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s counts rows of a head in 32 bits: at most 2^29",
                  step->name);
  if (blocks_wanted(step, p, pass) > INT32_MAX)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s would need more than 2^31 - 1 blocks in one launch",
                  step->name);
  fa_limits_t has;
  fa_ask_limits_t *limits = fa_limits_of(device);
  fa_status_t status = limits ? limits(&has, why) : FA_OK;
  if (status) return status;
  const size_t wanted = limits ? shared_wanted(step, (int)d, pass, has.shared_bytes) : 0;
  if (limits && wanted > has.shared_bytes)
    return fa_say(why, FA_REFUSED,
                  "03_fa1_cuda, step %s needs %zu bytes of shared memory at head dim %lld, %s; sm_%d has %zu",
                  step->name, wanted, (long long)d, pass == FA_FORWARD ? "forward" : "backward", has.sm,
                  has.shared_bytes);
  if (p->dtype != FA_FP16 && p->dtype != FA_BF16)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s computes in fp16 and bf16, not in %s", step->name,
                  fa_dtype_name(p->dtype));
  if (p->dtype_out != p->dtype)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda, step %s writes O in the type of Q, not in %s", step->name,
                  fa_dtype_name(p->dtype_out));
  if (limits && p->dtype == FA_BF16 && has.sm < 80)
    return fa_say(why, FA_REFUSED, "03_fa1_cuda needs sm_80 or later for bf16; this is sm_%d", has.sm);
  return FA_OK;
}

/* --- HBM by formula: FA1's order of loops, with the B_c that the step takes on this device ------------------ */

static double paper_bytes(const fa_problem_t *p, fa_pass_t pass, fa_device_t device) {
  (void)device;
  return fa_formula_bytes_keys_outer(p, pass, PAPER_KEYS((int)p->head_dim), true);
}

static double tensorcore_bytes(const fa_problem_t *p, fa_pass_t pass, fa_device_t device, int Bc) {
  const int d = (int)p->head_dim;
  fa_limits_t has = {0, 0};
  fa_reason_t why;
  fa_ask_limits_t *limits = fa_limits_of(device);
  if (limits && limits(&has, &why)) return NAN;
  if (pass == FA_FORWARD)
    Bc = Bc ? Bc : forward_keys(d, has.shared_bytes);
  else
    Bc = backward_warps(d, Bc, has.shared_bytes) * BACKWARD_KEYS(d);
  return fa_formula_bytes_keys_outer(p, pass, Bc, false);
}

#define BYTES(name, Bc)                                                                                      \
  static double name(const fa_problem_t *p, fa_pass_t pass, fa_device_t device) {                            \
    return tensorcore_bytes(p, pass, device, Bc);                                                            \
  }
BYTES(keys_64_bytes, 64)
BYTES(keys_128_bytes, 128)
BYTES(keys_256_bytes, 256)
BYTES(largest_bytes, 0)

#define STEP(step_name, kernels, what, is_main, is_scalar, formula)                                          \
  {                                                                                                          \
    .name = step_name, .idea = what, .main = is_main, .scalar = is_scalar, .bytes = formula, .on = {         \
      [FA_GPU] = FA_ON_GPU(kernels),                                                                         \
      [FA_EMU] = FA_ON_EMU(kernels)                                                                          \
    }                                                                                                        \
  }

static const fa_step_t steps[] = {
    STEP("paper", fa1_paper, "Algorithms 1 and 4 as printed, on CUDA cores", true, true, paper_bytes),
    STEP("keys_64", fa1_keys_64, "tensorcore with B_c = 64 keys: most passes over O", false, false,
         keys_64_bytes),
    STEP("keys_128", fa1_keys_128, "tensorcore with B_c = 128 keys", false, false, keys_128_bytes),
    STEP("keys_256", fa1_keys_256, "tensorcore with B_c = 256 keys, 128 backward from d = 96 on", false,
         false, keys_256_bytes),
    STEP("tensorcore", fa1_tensorcore, "the same algorithms with mma.sync, tiles in shared memory", true,
         false, largest_bytes),
    {.name = NULL},
};

const fa_stage_t fa_stage_03_fa1_cuda = {"03_fa1_cuda", "FlashAttention-1: S and P never leave the SM", steps,
                                         supports};
