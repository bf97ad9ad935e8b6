/* emu_requests.cu - see emu_requests.h. */
#include "emu_requests.h"
#include "ptx/atomic.h"
#include "ptx/barrier.h"
#include "ptx/copy.h"
#include "ptx/memory.h"

namespace FA_KERNEL_NAMESPACE {

typedef uint32_t words_t[REQUEST_WORDS];

__global__ void global_words(int stride, uint32_t *x) {
  x[(int)threadIdx.x * stride] = 1;
}

__global__ void shared_words(int stride, bool wide) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  const uint32_t x[4] = {1, 2, 3, 4};
  if (wide)
    st_shared_b32x4(s + 4 * t * stride, x);
  else
    s[t * stride] = 1;
}

__global__ void two_lines(const uint32_t *x) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  const uint32_t y[4] = {1, 2, 3, 4};
  cp_async_16(s + 4 * t, x + 4 * t, t % 2 ? 16 : 0);
  st_shared_b32x4(s + 128 + 4 * t, y);
  cp_async_commit();
  cp_async_wait<0>();
}

__global__ void additions(uint32_t *x) {
  atom_global_add_s32((int *)x + threadIdx.x, 1);
}

__global__ void given_up(uint32_t *x) {
  if (threadIdx.x < 16) x[threadIdx.x] = 1;
  if (threadIdx.x == 16) bar_sync(16, 32);
  __syncwarp();
}

} // namespace FA_KERNEL_NAMESPACE

using namespace FA_KERNEL_NAMESPACE;
fa_status_t run_global_words(int stride, uint32_t *x, fa_reason_t *why) {
  LAUNCH(global_words, 1, 32, 0, NULL, stride, x);
  return FA_OK;
}
fa_status_t run_shared_words(int stride, bool wide, fa_reason_t *why) {
  LAUNCH(shared_words, 1, 32, sizeof(words_t), NULL, stride, wide);
  return FA_OK;
}
fa_status_t run_two_lines(const uint32_t *x, fa_reason_t *why) {
  LAUNCH(two_lines, 1, 32, sizeof(words_t), NULL, x);
  return FA_OK;
}
fa_status_t run_additions(uint32_t *x, fa_reason_t *why) {
  LAUNCH(additions, 1, 32, 0, NULL, x);
  return FA_OK;
}
fa_status_t run_given_up(uint32_t *x, fa_reason_t *why) {
  LAUNCH(given_up, 1, 32, 0, NULL, x);
  return FA_OK;
}
