/* emu_tiles.cu - one tiny kernel for each wrapper that needs shared memory, a barrier or the tensor cores. Matrix
 * operands come in as registers, lane after lane: what they mean is the definition's affair (emu_definitions.c). */
#include "emu_vectors.h"
#include "ptx/barrier.h"
#include "ptx/convert.h"
#include "ptx/copy.h"
#include "ptx/limits.h"
#include "ptx/matrix.h"
#include "ptx/memory.h"

namespace FA_KERNEL_NAMESPACE {

#define KERNEL(name) __global__ void __launch_bounds__(128) name(const uint32_t *in, uint32_t *out)
/* The thread, and this block's words. */
#define BLOCK(IN, OUT)                                                                                       \
  const int t = threadIdx.x;                                                                                 \
  in += (int64_t)blockIdx.x * (IN);                                                                          \
  out += (int64_t)blockIdx.x * (OUT)

typedef struct cell {
  uint32_t x[4];
} cell_t; /* 16 bytes */
typedef cell_t cells_t[192];
typedef uint32_t words_t[128];

/* Rows stand 32 bytes apart, so that an address is more than a count of rows. */
typedef struct rows {
  struct {
    cell_t eight, gap;
  } row[32];
} rows_t;

/* in: the row that each lane names, then 32 rows of eight 16-bit elements. out: register after register. */
template <bool TRANS> KERNEL(ldmatrix_kernel) {
  SHARED_DYN(rows_t, s);
  BLOCK(160, 128);
  for (int i = 0; i < 4; i++) s.row[t].eight.x[i] = in[32 + 4 * t + i];
  __syncwarp();
  uint32_t r[4];
  if (TRANS)
    ldmatrix_x4_trans(r, &s.row[in[t]].eight);
  else
    ldmatrix_x4(r, &s.row[in[t]].eight);
  for (int m = 0; m < 4; m++) out[32 * m + t] = r[m];
}

/* in: the row that each lane names, then each lane's four registers. out: the rows. */
template <bool TRANS> KERNEL(stmatrix_kernel) {
  SHARED_DYN(rows_t, s);
  BLOCK(160, 128);
  if (target_sm() < 90) return;
  const uint32_t r[4] = {in[32 + 4 * t], in[33 + 4 * t], in[34 + 4 * t], in[35 + 4 * t]};
  if (TRANS)
    stmatrix_x4_trans(&s.row[in[t]].eight, r);
  else
    stmatrix_x4(&s.row[in[t]].eight, r);
  __syncwarp();
  for (int i = 0; i < 4; i++) out[4 * t + i] = s.row[t].eight.x[i];
}

/* in: each lane's registers of A, of B, and of D. */
KERNEL(mma_k8_kernel) {
  BLOCK(224, 128);
  const uint32_t a[2] = {in[2 * t], in[2 * t + 1]};
  float d[4];
  for (int i = 0; i < 4; i++) d[i] = fa_bits_float(in[96 + 4 * t + i]);
  mma_m16n8k8(d, a, in[64 + t], fp16_t{});
  for (int i = 0; i < 4; i++) out[4 * t + i] = fa_float_bits(d[i]);
}

template <class T> KERNEL(mma_k16_kernel) {
  BLOCK(320, 128);
  if (target_sm() < 80) return;
  const uint32_t a[4] = {in[4 * t], in[4 * t + 1], in[4 * t + 2], in[4 * t + 3]};
  float d[4];
  for (int i = 0; i < 4; i++) d[i] = fa_bits_float(in[192 + 4 * t + i]);
  mma_m16n8k16(d, a, in[128 + 2 * t], in[128 + 2 * t + 1], T{});
  for (int i = 0; i < 4; i++) out[4 * t + i] = fa_float_bits(d[i]);
}

KERNEL(st_shared_b32x4_kernel) {
  SHARED_DYN(cells_t, s);
  BLOCK(128, 128);
  const uint32_t x[4] = {in[4 * t], in[4 * t + 1], in[4 * t + 2], in[4 * t + 3]};
  st_shared_b32x4(&s[31 - t], x);
  __syncwarp();
  for (int i = 0; i < 4; i++) out[32 * i + t] = s[t].x[i];
}

KERNEL(st_shared_b32_kernel) {
  SHARED_DYN(words_t, s);
  BLOCK(32, 32);
  st_shared_b32(&s[31 - t], in[t]);
  __syncwarp();
  out[t] = s[t];
}

KERNEL(ld_shared_f32x4_kernel) {
  SHARED_DYN(cells_t, s);
  BLOCK(128, 128);
  float x[4];
  for (int i = 0; i < 4; i++) s[t].x[i] = in[4 * t + i];
  __syncwarp();
  ld_shared_f32x4(x, &s[31 - t]);
  for (int i = 0; i < 4; i++) out[4 * t + i] = fa_float_bits(x[i]);
}

FA_DEVICE void give(uint32_t *out, const cell_t *c) {
  for (int i = 0; i < 4; i++) out[i] = c->x[i];
}

/* in: 64 pieces of 16 bytes, and how many bytes of each are valid. Read by another warp's thread, after a barrier. */
KERNEL(cp_async_kernel) {
  SHARED_DYN(cells_t, s);
  BLOCK(320, 256);
  if (target_sm() < 80) return;
  cp_async_16(&s[t], in + 4 * t, (int)in[256 + t]);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  give(out + 4 * t, &s[(t + 33) % 64]);
}

/* Three groups of each thread, read by the thread itself: two after a wait that leaves one under way. */
KERNEL(cp_async_groups_kernel) {
  SHARED_DYN(cells_t, s);
  BLOCK(768, 768);
  if (target_sm() < 80) return;
  for (int g = 0; g < 3; g++) {
    cp_async_16(&s[64 * g + t], in + 256 * g + 4 * t, 16);
    cp_async_commit();
  }
  cp_async_wait<1>();
  give(out + 4 * t, &s[t]);
  give(out + 256 + 4 * t, &s[64 + t]);
  cp_async_wait<0>();
  give(out + 512 + 4 * t, &s[128 + t]);
}

/* An empty group is one all the same: to leave one under way is then to wait for all copies. */
KERNEL(cp_async_empty_kernel) {
  SHARED_DYN(cells_t, s);
  BLOCK(256, 256);
  if (target_sm() < 80) return;
  cp_async_16(&s[t], in + 4 * t, 16);
  cp_async_commit();
  cp_async_commit();
  cp_async_wait<1>();
  give(out + 4 * t, &s[t]);
}

/* There and back through shared memory, by a warp or a block: the second barrier lets the buffer be filled again. */
template <int THREADS> FA_DEVICE void meet(void) {
  if (THREADS == 32)
    __syncwarp();
  else
    __syncthreads();
}
template <int THREADS, int STEP> KERNEL(sync_kernel) {
  SHARED_DYN(words_t, s);
  BLOCK(THREADS, 2 * THREADS);
  s[t] = in[t];
  meet<THREADS>();
  uint32_t x = s[THREADS - 1 - t];
  meet<THREADS>();
  s[t] = ~x;
  meet<THREADS>();
  out[t] = x;
  out[THREADS + t] = s[(t + STEP) % THREADS];
}

/* Each half of the block meets at a barrier of its own, then all of it at the last id. */
KERNEL(bar_sync_kernel) {
  SHARED_DYN(words_t, s);
  BLOCK(128, 256);
  const int half = t / 64;
  s[t] = in[t];
  bar_sync(1 + half, 64);
  uint32_t x = s[t ^ 63];
  bar_sync(1 + half, 64);
  s[t] = ~x;
  bar_sync(15, 128);
  out[t] = x;
  out[128 + t] = s[127 - t];
}

/* Whoever arrives goes on: if it waited, the first two barriers would never open. Then warps 0 and 1 fill a buffer and say so without waiting, warps 2 and 3 wait for that and say that it is empty again:
 * three times, and every word of each round counts. */
KERNEL(bar_arrive_kernel) {
  enum { EARLY = 1, ALL = 2, FULL = 3, EMPTY = 4 };
  SHARED_DYN(words_t, s);
  BLOCK(192, 64);
  uint32_t sum = 0;
  if (t < 64) bar_arrive(EARLY, 128);
  bar_sync(ALL, 128);
  if (t >= 64) bar_sync(EARLY, 128);
  for (int round = 0; round < 3; round++)
    if (t < 64) {
      if (round) bar_sync(EMPTY, 128);
      s[t] = in[64 * round + t];
      bar_arrive(FULL, 128);
    } else {
      bar_sync(FULL, 128);
      sum = 3 * sum + s[127 - t];
      if (round < 2) bar_arrive(EMPTY, 128);
    }
  if (t >= 64) out[t - 64] = sum;
}

static fa_status_t run(int kernel, int blocks, const uint32_t *in, uint32_t *out, fa_reason_t *why) {
#define RUN(number, threads, bytes, name)                                                                    \
  case number: LAUNCH(name, blocks, threads, bytes, NULL, in, out); break
  switch (kernel) {
    RUN(K_LDMATRIX, 32, sizeof(rows_t), ldmatrix_kernel<false>);
    RUN(K_LDMATRIX_TRANS, 32, sizeof(rows_t), ldmatrix_kernel<true>);
    RUN(K_STMATRIX, 32, sizeof(rows_t), stmatrix_kernel<false>);
    RUN(K_STMATRIX_TRANS, 32, sizeof(rows_t), stmatrix_kernel<true>);
    RUN(K_MMA_K8, 32, 0, mma_k8_kernel);
    RUN(K_MMA_K16, 32, 0, mma_k16_kernel<fp16_t>);
    RUN(K_MMA_K16_BF16, 32, 0, mma_k16_kernel<bf16_t>);
    RUN(K_ST_SHARED_B32X4, 32, sizeof(cells_t), st_shared_b32x4_kernel);
    RUN(K_ST_SHARED_B32, 32, sizeof(words_t), st_shared_b32_kernel);
    RUN(K_LD_SHARED_F32X4, 32, sizeof(cells_t), ld_shared_f32x4_kernel);
    RUN(K_CP_ASYNC, 64, sizeof(cells_t), cp_async_kernel);
    RUN(K_CP_ASYNC_GROUPS, 64, sizeof(cells_t), cp_async_groups_kernel);
    RUN(K_CP_ASYNC_EMPTY, 64, sizeof(cells_t), cp_async_empty_kernel);
    RUN(K_SYNCTHREADS, 128, sizeof(words_t), (sync_kernel<128, 40>));
    RUN(K_SYNCWARP, 32, sizeof(words_t), (sync_kernel<32, 5>));
    RUN(K_BAR_SYNC, 128, sizeof(words_t), bar_sync_kernel);
    RUN(K_BAR_ARRIVE, 128, sizeof(words_t), bar_arrive_kernel);
  default: return fa_say(why, FA_INVALID, "no kernel %d", kernel);
  }
  return FA_OK;
}

} // namespace FA_KERNEL_NAMESPACE

extern "C" fa_status_t FA_KERNEL_TABLE(run_wrapper)(int kernel, int blocks, const uint32_t *in, uint32_t *out,
                                                    fa_reason_t *why) {
  if (kernel < K_ON_TILES) return FA_KERNEL_TABLE(run_simple)(kernel, blocks, in, out, why);
  return FA_KERNEL_NAMESPACE::run(kernel, blocks, in, out, why);
}
