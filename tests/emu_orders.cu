/* emu_orders.cu - see emu_orders.h. For the emulator only. */
#include "emu_orders.h"
#include "ptx/atomic.h"
#include "ptx/copy.h"
#include "ptx/warp.h"

uint32_t everybody_adds(int64_t block, int thread, int threads) {
  return (uint32_t)(1000000 + 5000 * block + (threads - 1 - thread) + (thread ^ 3));
}

namespace FA_KERNEL_NAMESPACE {

typedef uint32_t words_t[1024];

__global__ void everybody(uint32_t *out) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x, threads = blockDim.x;
  s[t] = 5000 * blockIdx.x + (uint32_t)t;
  __syncthreads();
  uint32_t other = s[threads - 1 - t];
  __syncthreads();
  s[t] = other;
  __syncwarp();
  uint32_t lane = (uint32_t)shfl_xor_f32((float)t, 3);
  out[(int64_t)blockIdx.x * threads + t] += 1000000 + s[t] + lane;
}

__global__ void tickets(uint32_t *counter, uint32_t *out) {
  for (int round = 0; round < 2; round++) {
    int ticket = atom_global_add_s32((int *)counter, 1);
    out[ticket] = blockIdx.x * blockDim.x + threadIdx.x;
    __syncthreads();
  }
}

__global__ void waiting(uint32_t *counter, uint32_t *out) {
  if (threadIdx.x != 0) return;
  if (blockIdx.x == 1) {
    atom_global_add_s32((int *)counter, 1);
    return;
  }
  int found = 0;
  while (found == 0) found = atom_global_add_s32((int *)counter, 0);
  out[0] = (uint32_t)found;
}

__global__ void queue(int tiles, uint32_t *counter, uint32_t *out) {
  if (threadIdx.x != 0) return;
  for (int n = 0; (n = atom_global_add_s32((int *)counter, 1)) < tiles;) out[n] = blockIdx.x;
}

__global__ void peeking(bool waits, const uint32_t *in, uint32_t *out) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  for (int group = 0; group < 2; group++) {
    if (t < 8) cp_async_16(s + 32 * group + 4 * t, in + 4 * t, 16);
    cp_async_commit();
  }
  if (waits) cp_async_wait<0>();
  for (int moment = 0; moment < MOMENTS; moment++) {
    if (moment == 1) __syncthreads();
    if (moment == 2) cp_async_wait<0>();
    for (int group = 0; group < 2 && t < 8; group++) out[16 * moment + 8 * group + t] = s[32 * group + 4 * t];
  }
}

__global__ void filling(int words, uint32_t *out) {
  SHARED_DYN(uint32_t, s);
  for (int i = threadIdx.x; i < words; i += blockDim.x) (&s)[i] = 7;
  __syncthreads();
  if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = (&s)[words - 1];
}

__global__ void put(uint32_t *between) {
  between[threadIdx.x] = threadIdx.x + 1;
}
__global__ void get(const uint32_t *between, uint32_t *out) {
  out[threadIdx.x] = between[63 - threadIdx.x];
}

} // namespace FA_KERNEL_NAMESPACE

using namespace FA_KERNEL_NAMESPACE;
fa_status_t run_everybody(int64_t blocks, int threads, uint32_t *out, fa_reason_t *why) {
  LAUNCH(everybody, blocks, threads, sizeof(words_t), NULL, out);
  return FA_OK;
}
fa_status_t run_tickets(int blocks, int threads, uint32_t *counter, uint32_t *out, fa_reason_t *why) {
  LAUNCH(tickets, blocks, threads, 0, NULL, counter, out);
  return FA_OK;
}
fa_status_t run_waiting(uint32_t *counter, uint32_t *out, fa_reason_t *why) {
  LAUNCH(waiting, 2, 32, 0, NULL, counter, out);
  return FA_OK;
}
fa_status_t run_queue(int blocks, int tiles, uint32_t *counter, uint32_t *out, fa_reason_t *why) {
  LAUNCH(queue, blocks, 32, 0, NULL, tiles, counter, out);
  return FA_OK;
}
fa_status_t run_peeking(bool waits, const uint32_t *in, uint32_t *out, fa_reason_t *why) {
  LAUNCH(peeking, 1, 32, sizeof(words_t), NULL, waits, in, out);
  return FA_OK;
}
fa_status_t run_filling(int64_t blocks, int threads, size_t shared_bytes, uint32_t *out, fa_reason_t *why) {
  LAUNCH(filling, blocks, threads, shared_bytes, NULL, (int)(shared_bytes / 4), out);
  return FA_OK;
}
fa_status_t run_two_launches(uint32_t *between, uint32_t *out, fa_reason_t *why) {
  LAUNCH(put, 1, 64, 0, NULL, between);
  LAUNCH(get, 1, 64, 0, NULL, between, out);
  return FA_OK;
}
