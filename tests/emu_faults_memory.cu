/* emu_faults_memory.cu - faults of addresses and of values: E06 to E09. */
#include "emu_mark.cuh"
#include "ptx/copy.h"
#include "ptx/convert.h"
#include "ptx/matrix.h"
#include "ptx/memory.h"

int fault_line[4];

namespace FA_KERNEL_NAMESPACE {

typedef uint32_t words_t[256];

/* --- E06: shared memory ----------------------------------------------------------------------------------- */

KERNEL(larger_than_launched) {
  fault_line[0] = __LINE__ + 1;
  SHARED_DYN(words_t, s);
  s[threadIdx.x] = 1;
}

KERNEL(beyond_shared) {
  SHARED_DYN(words_t, s);
  AT(0), s[threadIdx.x + (WRONG ? 225 : 0)] = 1;
}

/* So far beyond that the address belongs to what another block has, or to nobody. */
KERNEL(far_beyond_shared) {
  SHARED_DYN(words_t, s);
  AT(0), s[threadIdx.x + (WRONG ? 256 * 1024 / 4 : 0)] = 1;
}

KERNEL(before_shared) {
  SHARED_DYN(words_t, s);
  AT(0), s[(int)threadIdx.x - (WRONG ? 8 : 0)] = 1;
}

KERNEL(wide_beyond_shared) {
  SHARED_DYN(words_t, s);
  const uint32_t x[4] = {1, 2, 3, 4};
  AT(0), st_shared_b32x4(s + 4 * threadIdx.x + (WRONG ? 132 : 0), x);
}

KERNEL(copied_beyond_shared) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x + (WRONG ? 132 : 0), m.filled, 16);
  cp_async_commit();
  cp_async_wait<0>();
}

/* --- E07: global memory ----------------------------------------------------------------------------------- */

KERNEL(beyond_buffer) {
  AT(0), m.filled[threadIdx.x] = m.filled[WRONG ? FAULT_WORDS : 40];
}
KERNEL(before_buffer) {
  AT(0), m.filled[(int)threadIdx.x - (WRONG ? 1 : 0)] = 1;
}
/* The last vector of a length that is no multiple of it. */
KERNEL(wide_tail) {
  float x[4];
  AT(0), ld_global_f32x4(x, (const float *)m.filled + FAULT_WORDS - (WRONG ? 0 : 4));
  m.filled[threadIdx.x] = fa_float_bits(x[0]);
}
KERNEL(after_free) {
  AT(0), m.filled[threadIdx.x] = (WRONG ? m.freed : m.filled + 64)[threadIdx.x];
}
KERNEL(pointer_of_the_host) {
  uint32_t x[4];
  AT(0), ld_global_b32x4(x, WRONG ? m.foreign : m.filled + 64);
  m.filled[threadIdx.x] = x[0];
}
KERNEL(null_pointer) {
  AT(0), m.filled[threadIdx.x] = (WRONG ? (uint32_t *)m.none : m.filled + 64)[threadIdx.x];
}
KERNEL(null_pointer_wide) {
  float x[4];
  AT(0), ld_global_f32x4(x, WRONG ? (const float *)m.none : (const float *)m.filled);
  m.filled[64 + threadIdx.x] = fa_float_bits(x[0]);
}
KERNEL(copied_from_outside) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x, m.filled + (WRONG ? FAULT_WORDS : 0), 16);
  cp_async_commit();
  cp_async_wait<0>();
}
/* With nothing valid the source is not read. */
KERNEL(copied_from_nowhere) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x, m.filled + FAULT_WORDS, WRONG ? 16 : 0);
  cp_async_commit();
  cp_async_wait<0>();
}
KERNEL(misaligned_word) {
  uint32_t *word = (uint32_t *)(void *)((char *)m.filled + (WRONG ? 2 : 0));
  AT(0), m.filled[64 + threadIdx.x] = word[threadIdx.x];
}
KERNEL(misaligned_vector) {
  float x[4];
  AT(0), ld_global_f32x4(x, (const float *)m.filled + (WRONG ? 2 : 4));
  m.filled[64 + threadIdx.x] = fa_float_bits(x[0]);
}
KERNEL(misaligned_pair) {
  AT(0), st_global_b32x2(m.filled + 2 * threadIdx.x + (WRONG ? 1 : 0), 1, 2);
}
KERNEL(misaligned_shared) {
  SHARED_DYN(words_t, s);
  const uint32_t x[4] = {1, 2, 3, 4};
  AT(0), st_shared_b32x4(s + 4 * threadIdx.x + (WRONG ? 1 : 0), x);
}
KERNEL(misaligned_copy) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x, m.filled + (WRONG ? 2 : 4), 16);
  cp_async_commit();
  cp_async_wait<0>();
}
KERNEL(misaligned_row) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t r[4];
  for (int i = t; i < 256; i += 32) s[i] = (uint32_t)i;
  __syncwarp();
  AT(0), ldmatrix_x4(r, s + 4 * t + (WRONG && t == 9 ? 2 : 0));
  m.filled[t] = r[0];
}
KERNEL(row_in_global) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t r[4];
  for (int i = t; i < 256; i += 32) s[i] = (uint32_t)i;
  __syncwarp();
  AT(0), ldmatrix_x4(r, WRONG ? (const void *)m.filled : s);
  m.filled[t] = r[0];
}

/* --- E08: never written ----------------------------------------------------------------------------------- */

KERNEL(blank_shared) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  if (!WRONG || t != 5) s[t] = 1;
  AT(0), m.filled[t] = s[t];
}
KERNEL(blank_global) {
  AT(0), m.filled[threadIdx.x] = (WRONG ? m.blank : m.filled)[threadIdx.x];
}
KERNEL(blank_tail) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t r[4];
  for (int i = t; i < (WRONG ? 100 : 128); i += 32) s[i] = (uint32_t)i;
  __syncwarp();
  AT(0), ldmatrix_x4(r, s + 4 * t);
  m.filled[t] = r[0];
}
KERNEL(blank_copied) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x, WRONG ? m.blank : m.filled, 16);
  cp_async_commit();
  cp_async_wait<0>();
}

/* --- E09: not on this architecture ------------------------------------------------------------------------ */

KERNEL(copy_on_75) {
  SHARED_DYN(words_t, s);
  if (WRONG) AT(0), cp_async_16(s + 4 * threadIdx.x, m.filled, 16);
  if (WRONG) cp_async_commit(), cp_async_wait<0>();
}
KERNEL(mma_on_75) {
  float d[4] = {0, 0, 0, 0};
  const uint32_t a[4] = {0, 0, 0, 0}, half[2] = {0, 0};
  if (WRONG)
    AT(0), mma_m16n8k16(d, a, 0, 0, fp16_t{});
  else
    mma_m16n8k8(d, half, 0, fp16_t{});
}
KERNEL(bf16_on_75) {
  float d[4] = {0, 0, 0, 0};
  const uint32_t a[4] = {0, 0, 0, 0};
  if (WRONG) AT(0), mma_m16n8k16(d, a, 0, 0, bf16_t{});
}
KERNEL(stmatrix_on_80) {
  SHARED_DYN(words_t, s);
  const uint32_t r[4] = {1, 2, 3, 4};
  if (WRONG)
    AT(0), fa_emu_stmatrix({{r[0], r[1], r[2], r[3]}}, 4, false, s + 4 * threadIdx.x, {__FILE__, __LINE__});
}

} // namespace FA_KERNEL_NAMESPACE

using namespace FA_KERNEL_NAMESPACE;
static fa_status_t larger_than_launched_run(const fault_memory_t *m, bool wrong, fa_reason_t *why) {
  LAUNCH(larger_than_launched<false>, 1, 32, sizeof(words_t) - (wrong ? 4 : 0), NULL, *m);
  return FA_OK;
}
FAULT(beyond_shared, 32, sizeof(words_t))
FAULT(far_beyond_shared, 32, sizeof(words_t))
FAULT(before_shared, 32, sizeof(words_t))
FAULT(wide_beyond_shared, 32, sizeof(words_t))
FAULT(copied_beyond_shared, 32, sizeof(words_t))
FAULT(beyond_buffer, 32, sizeof(words_t))
FAULT(before_buffer, 32, sizeof(words_t))
FAULT(wide_tail, 32, sizeof(words_t))
FAULT(after_free, 32, sizeof(words_t))
FAULT(pointer_of_the_host, 32, sizeof(words_t))
FAULT(null_pointer, 32, 0)
FAULT(null_pointer_wide, 32, 0)
FAULT(copied_from_outside, 32, sizeof(words_t))
FAULT(copied_from_nowhere, 32, sizeof(words_t))
FAULT(misaligned_word, 32, sizeof(words_t))
FAULT(misaligned_vector, 32, sizeof(words_t))
FAULT(misaligned_pair, 32, sizeof(words_t))
FAULT(misaligned_shared, 32, sizeof(words_t))
FAULT(misaligned_copy, 32, sizeof(words_t))
FAULT(misaligned_row, 32, sizeof(words_t))
FAULT(row_in_global, 32, sizeof(words_t))
FAULT(blank_shared, 32, sizeof(words_t))
FAULT(blank_global, 32, sizeof(words_t))
FAULT(blank_tail, 32, sizeof(words_t))
FAULT(blank_copied, 32, sizeof(words_t))
FAULT(copy_on_75, 32, sizeof(words_t))
FAULT(mma_on_75, 32, sizeof(words_t))
FAULT(bf16_on_75, 32, sizeof(words_t))
FAULT(stmatrix_on_80, 32, sizeof(words_t))

const fault_t faults_memory[] = {
    {"structure larger than launched", "E06", "1024 bytes", 1, 80, larger_than_launched_run},
    {"index beyond", "E06", "beyond", 1, 80, beyond_shared_run},
    {"index far beyond", "E06", "shared memory", 1, 80, far_beyond_shared_run},
    {"index below 0", "E06", "shared memory", 1, 80, before_shared_run},
    {"wide store beyond", "E06", "16 bytes", 1, 80, wide_beyond_shared_run},
    {"copy beyond", "E06", "16 bytes", 1, 80, copied_beyond_shared_run},
    {"element behind a buffer", "E07", "outside every buffer", 1, 80, beyond_buffer_run},
    {"element before a buffer", "E07", "outside every buffer", 1, 80, before_buffer_run},
    {"vector at the tail", "E07", "16 bytes", 1, 80, wide_tail_run},
    {"buffer that was freed", "E07", "outside every buffer", 1, 80, after_free_run},
    {"the host's memory", "E07", "outside every buffer", 1, 80, pointer_of_the_host_run},
    {"null pointer", "E07", "null pointer", 1, 80, null_pointer_run},
    {"null pointer, wide", "E07", "null pointer", 1, 80, null_pointer_wide_run},
    {"copy from outside", "E07", "16 bytes", 1, 80, copied_from_outside_run},
    {"copy of nothing, then of something", "E07", "16 bytes", 1, 80, copied_from_nowhere_run},
    {"misaligned word", "E07", "multiple of 4", 1, 80, misaligned_word_run},
    {"misaligned vector", "E07", "multiple of 16", 1, 80, misaligned_vector_run},
    {"misaligned pair", "E07 E04", "multiple of 8", 1, 80, misaligned_pair_run},
    {"misaligned shared vector", "E07 E04", "multiple of 16", 1, 80, misaligned_shared_run},
    {"misaligned copy", "E07", "multiples of 16", 1, 80, misaligned_copy_run},
    {"misaligned ldmatrix row", "E07", "16-byte aligned", 1, 80, misaligned_row_run},
    {"ldmatrix row in global memory", "E07", "in shared memory", 1, 80, row_in_global_run},
    {"shared memory never written", "E08", "shared memory", 1, 80, blank_shared_run},
    {"global memory never written", "E08", "global memory", 1, 80, blank_global_run},
    {"tail of a tile never written", "E08", "shared memory", 1, 80, blank_tail_run},
    {"copy of what was never written", "E08", "global memory", 1, 80, blank_copied_run},
    {"cp.async on sm_75", "E09", "sm_75", 1, 75, copy_on_75_run},
    {"mma.m16n8k16 on sm_75", "E09", "sm_75", 1, 75, mma_on_75_run},
    {"mma with bf16 on sm_75", "E09", "sm_75", 1, 75, bf16_on_75_run},
    {"stmatrix on sm_80", "E09", "sm_80", 1, 80, stmatrix_on_80_run},
    {NULL, NULL, NULL, 0, 0, NULL},
};
