/* gpu.c - what the GPU steps refuse before anything is launched. */
#include "gpu.h"

#include <string.h>

/* Columns of a row are counted in 32 bits, and so are the dimensions that cuBLAS takes. */
#define LONGEST ((int64_t)1 << 30)
/* Far more than any GPU has: what is larger is refused here, so that no size below can wrap. */
#define MOST_BYTES 1e15
/* Blocks of one launch: a 64 x 64 tile in a product, a row or more in softmax. */
#define MOST_BLOCKS 2147483647.0

static double tiles(int64_t n) {
  return (double)((n + 63) / 64);
}

fa_status_t naive_gpu_supports(const fa_step_t *step, const fa_problem_t *p, fa_pass_t pass,
                               fa_reason_t *why) {
  bool cublas = !strcmp(step->name, "cublas");
#if FA_HAVE_GPU && !FA_HAVE_CUBLAS
  if (cublas) return fa_say(why, FA_REFUSED, "01_naive, step cublas: this build was made without cuBLAS");
#endif
  const int64_t group = p->heads_q / p->heads_kv;
  if (p->seq_k > LONGEST || p->seq_q > LONGEST / group || p->head_dim > LONGEST || p->head_dim_v > LONGEST)
    return fa_say(why, FA_REFUSED, "01_naive, step %s counts rows of a head in 32 bits: at most 2^30",
                  step->name);

  int64_t dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
  double heads = (double)p->batch * (double)p->heads_q;
  double bytes = heads * (double)p->seq_q * (double)(p->seq_k + 8) * (pass == FA_FORWARD ? 8 : 16);
  double copies = 4 * heads * (double)(p->seq_q + p->seq_k) * (double)(dim + 8) * 4;
  if (bytes > MOST_BYTES || copies > MOST_BYTES)
    return fa_say(why, FA_REFUSED,
                  "01_naive, step %s stores the N x N scores of every head: %.3g GB of GPU memory are wanted "
                  "(%.0f bytes)",
                  step->name, (bytes > copies ? bytes : copies) / 1e9, bytes > copies ? bytes : copies);
  double q = tiles(p->seq_q), k = tiles(p->seq_k), d = tiles(dim), rows = (double)p->seq_q;
  double blocks = cublas ? 0 : q * k > q * d ? q * k : q * d;
  if (!cublas && k * d > blocks) blocks = k * d;
  if (heads * (blocks > rows ? blocks : rows) > MOST_BLOCKS)
    return fa_say(why, FA_REFUSED, "01_naive, step %s would need more than 2^31 - 1 blocks in one launch",
                  step->name);
  return FA_OK;
}
