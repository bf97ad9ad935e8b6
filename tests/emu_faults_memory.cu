/* emu_faults_memory.cu - faults of addresses and of values: E06 to E09. */
#include "emu_mark.cuh"
#include "ptx/atomic.h"
#include "ptx/copy.h"
#include "ptx/convert.h"
#include "ptx/matrix.h"
#include "ptx/memory.h"

namespace FA_KERNEL_NAMESPACE {

typedef uint32_t words_t[256];

/* By one warp. */
FA_DEVICE void fill(words_t &s, int words) {
  for (int i = threadIdx.x; i < words; i += 32) s[i] = (uint32_t)i;
  __syncwarp();
}

FA_DEVICE void wait_for_all(void) {
  cp_async_commit();
  cp_async_wait<0>();
}

/* --- E06: shared memory ----------------------------------------------------------------------------------- */

KERNEL(larger_than_launched) {
  fault_mark(0, __LINE__ + 1);
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
  wait_for_all();
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
/* Without an instruction of its own: a launcher gave the kernel a pointer to what it has. */
KERNEL(host_is_read) {
  AT(0), m.filled[threadIdx.x] = (WRONG ? m.foreign : m.filled + 64)[threadIdx.x];
}
KERNEL(host_is_written) {
  AT(0), (WRONG ? m.foreign : m.filled)[threadIdx.x] = 1;
}
/* What the program itself can only read is a kernel's constant memory. */
static const uint32_t table[4] = {2, 3, 5, 7};
KERNEL(constant_is_written) {
  const uint32_t x = table[threadIdx.x % 4];
  AT(0), (WRONG ? (uint32_t *)(uintptr_t)table : m.filled)[threadIdx.x % 4 + threadIdx.x / 4 * 4] = x;
}
KERNEL(wild_pointer) {
  AT(0), m.filled[threadIdx.x] = (WRONG ? (uint32_t *)(uintptr_t)0x123456789000 : m.filled + 64)[threadIdx.x];
}
typedef struct triple {
  uint64_t x[3];
} triple_t;
KERNEL(null_structure) {
  const triple_t *from = WRONG ? (const triple_t *)(const void *)m.none : (const triple_t *)(void *)m.filled;
  AT(0), *(triple_t *)(void *)(m.filled + 64 + 6 * threadIdx.x) = from[0];
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
  wait_for_all();
}
/* With nothing valid the source is not read. */
KERNEL(copied_from_nowhere) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x, m.filled + FAULT_WORDS, WRONG ? 16 : 0);
  wait_for_all();
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
  wait_for_all();
}
KERNEL(misaligned_row) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t r[4];
  fill(s, 256);
  AT(0), ldmatrix_x4(r, s + 4 * t + (WRONG && t == 9 ? 2 : 0));
  m.filled[t] = r[0];
}
KERNEL(row_in_global) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t r[4];
  fill(s, 256);
  AT(0), ldmatrix_x4(r, WRONG ? (const void *)m.filled : s);
  m.filled[t] = r[0];
}

/* --- E07: the other memory -------------------------------------------------------------------------------- */

KERNEL(global_load_of_shared) {
  SHARED_DYN(words_t, s);
  float x[4];
  fill(s, 256);
  AT(0), ld_global_f32x4(x, (const float *)(WRONG ? s : m.filled));
  m.filled[64 + threadIdx.x] = fa_float_bits(x[0]);
}
KERNEL(global_store_to_shared) {
  SHARED_DYN(words_t, s);
  AT(0), st_global_b32((WRONG ? s : m.filled) + threadIdx.x, 1);
}
/* Another block's shared memory is no global memory either. */
KERNEL(global_store_far_beyond_shared) {
  SHARED_DYN(words_t, s);
  AT(0), st_global_b32((WRONG ? s + 256 * 1024 / 4 : m.filled) + threadIdx.x, 1);
}
KERNEL(shared_load_of_global) {
  SHARED_DYN(words_t, s);
  float x[4];
  fill(s, 256);
  AT(0), ld_shared_f32x4(x, WRONG ? m.filled : s);
  m.filled[64 + threadIdx.x] = fa_float_bits(x[0]);
}
KERNEL(shared_store_to_global) {
  SHARED_DYN(words_t, s);
  const uint32_t x[4] = {1, 2, 3, 4};
  AT(0), st_shared_b32x4((WRONG ? m.filled : s) + 4 * threadIdx.x, x);
}
KERNEL(shared_store_to_local) {
  SHARED_DYN(words_t, s);
  uint32_t mine[4] = {1, 2, 3, 4};
  AT(0), st_shared_b32(WRONG ? mine : s + threadIdx.x, 5);
  m.filled[threadIdx.x] = mine[threadIdx.x % 4];
}
KERNEL(copied_to_global) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16((WRONG ? m.filled + 512 : s) + 4 * threadIdx.x, m.filled, 16);
  wait_for_all();
}
KERNEL(copied_from_shared) {
  SHARED_DYN(words_t, s);
  fill(s, 256);
  AT(0), cp_async_16(s + 128 + 4 * threadIdx.x, WRONG ? s : m.filled, 16);
  wait_for_all();
}
KERNEL(copied_from_null) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x, WRONG ? m.none : m.filled, 16);
  wait_for_all();
}
KERNEL(copied_to_null) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(WRONG ? (uint32_t *)m.none : s + 4 * threadIdx.x, m.filled, 16);
  wait_for_all();
}
KERNEL(added_in_shared) {
  SHARED_DYN(words_t, s);
  s[threadIdx.x] = 0;
  __syncwarp();
  AT(0), atom_global_add_s32((int *)(WRONG ? s : m.filled), 1);
}
KERNEL(added_to_null) {
  AT(0), atom_global_add_f32((float *)(WRONG ? m.none : m.filled), 1);
}

/* --- E08: never written ----------------------------------------------------------------------------------- */

KERNEL(blank_shared) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  if (!WRONG || t != 5) s[t] = 1;
  AT(0), m.filled[t] = s[t];
}
/* What an earlier block left in the SM's shared memory is not there for a later one. */
KERNEL(blank_in_later_blocks) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  const uint32_t x[4] = {1, 2, 3, 4};
  float y[4];
  if (!WRONG || blockIdx.x < 8) st_shared_b32x4(s + 4 * t, x);
  AT(0), ld_shared_f32x4(y, s + 4 * t);
  m.filled[1024 + 32 * blockIdx.x + t] = fa_float_bits(y[0]);
}
KERNEL(blank_global) {
  AT(0), m.filled[threadIdx.x] = (WRONG ? m.blank : m.filled)[threadIdx.x];
}
KERNEL(blank_tail) {
  SHARED_DYN(words_t, s);
  const int t = threadIdx.x;
  uint32_t r[4];
  fill(s, (WRONG ? 100 : 128));
  AT(0), ldmatrix_x4(r, s + 4 * t);
  m.filled[t] = r[0];
}
KERNEL(blank_copied) {
  SHARED_DYN(words_t, s);
  AT(0), cp_async_16(s + 4 * threadIdx.x, WRONG ? m.blank : m.filled, 16);
  wait_for_all();
}

/* --- E09: not on this architecture ------------------------------------------------------------------------ */

KERNEL(copy_on_75) {
  SHARED_DYN(words_t, s);
  if (WRONG) AT(0), cp_async_16(s + 4 * threadIdx.x, m.filled, 16);
  if (WRONG) wait_for_all();
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
  if (WRONG) AT(0), stmatrix_x4(s + 4 * threadIdx.x, r);
}

} // namespace FA_KERNEL_NAMESPACE

using namespace FA_KERNEL_NAMESPACE;
static fa_status_t larger_than_launched_run(const fault_memory_t *m, bool wrong, fa_reason_t *why) {
  LAUNCH(larger_than_launched<false>, 1, 32, sizeof(words_t) - (wrong ? 4 : 0), NULL, *m);
  return FA_OK;
}

const fault_t faults_memory[] = {
    {"structure larger than launched", "E06", "1024 bytes", 1, 80, larger_than_launched_run},
    {"index beyond", "E06", "beyond", 1, 80, FAULT(beyond_shared, 32, sizeof(words_t))},
    {"index far beyond", "E06", "shared memory", 1, 80, FAULT(far_beyond_shared, 32, sizeof(words_t))},
    {"index below 0", "E06", "shared memory", 1, 80, FAULT(before_shared, 32, sizeof(words_t))},
    {"wide store beyond", "E06", "16 bytes", 1, 80, FAULT(wide_beyond_shared, 32, sizeof(words_t))},
    {"copy beyond", "E06", "16 bytes", 1, 80, FAULT(copied_beyond_shared, 32, sizeof(words_t))},
    {"element behind a buffer", "E07", "outside every buffer", 1, 80,
     FAULT(beyond_buffer, 32, sizeof(words_t))},
    {"element before a buffer", "E07", "outside every buffer", 1, 80,
     FAULT(before_buffer, 32, sizeof(words_t))},
    {"vector at the tail", "E07", "16 bytes", 1, 80, FAULT(wide_tail, 32, sizeof(words_t))},
    {"buffer that was freed", "E07", "outside every buffer", 1, 80, FAULT(after_free, 32, sizeof(words_t))},
    {"the host's memory", "E07", "neither global nor shared", 1, 80,
     FAULT(pointer_of_the_host, 32, sizeof(words_t))},
    {"the host's memory, plain load", "E07", "neither global nor shared", 1, 80, FAULT(host_is_read, 32, 0)},
    {"the host's memory, plain store", "E07", "neither global nor shared", 1, 80,
     FAULT(host_is_written, 32, 0)},
    {"store to a constant", "E07", "neither global nor shared", 1, 80, FAULT(constant_is_written, 32, 0)},
    {"pointer to nowhere", "E07", "neither global nor shared", 1, 80, FAULT(wild_pointer, 32, 0)},
    {"structure at a null pointer", "E07", "null pointer", 1, 80, FAULT(null_structure, 32, 0)},
    {"null pointer", "E07", "null pointer", 1, 80, FAULT(null_pointer, 32, 0)},
    {"null pointer, wide", "E07", "null pointer", 1, 80, FAULT(null_pointer_wide, 32, 0)},
    {"copy from outside", "E07", "16 bytes", 1, 80, FAULT(copied_from_outside, 32, sizeof(words_t))},
    {"copy of nothing, then of something", "E07", "16 bytes", 1, 80,
     FAULT(copied_from_nowhere, 32, sizeof(words_t))},
    {"misaligned word", "E07", "multiple of 4", 1, 80, FAULT(misaligned_word, 32, sizeof(words_t))},
    {"misaligned vector", "E07", "multiple of 16", 1, 80, FAULT(misaligned_vector, 32, sizeof(words_t))},
    {"misaligned pair", "E07 E04", "multiple of 8", 1, 80, FAULT(misaligned_pair, 32, sizeof(words_t))},
    {"misaligned shared vector", "E07 E04", "multiple of 16", 1, 80,
     FAULT(misaligned_shared, 32, sizeof(words_t))},
    {"misaligned copy", "E07", "multiples of 16", 1, 80, FAULT(misaligned_copy, 32, sizeof(words_t))},
    {"misaligned ldmatrix row", "E07", "16-byte aligned", 1, 80, FAULT(misaligned_row, 32, sizeof(words_t))},
    {"ldmatrix row in global memory", "E07", "in shared memory", 1, 80,
     FAULT(row_in_global, 32, sizeof(words_t))},
    {"global load of a shared address", "E07", "address in shared memory", 1, 80,
     FAULT(global_load_of_shared, 32, sizeof(words_t))},
    {"global store to a shared address", "E07", "st_global_b32 writes", 1, 80,
     FAULT(global_store_to_shared, 32, sizeof(words_t))},
    {"the same, beyond the block's", "E07", "in shared memory", 1, 80,
     FAULT(global_store_far_beyond_shared, 32, sizeof(words_t))},
    {"shared load of a global address", "E07", "address in global memory", 1, 80,
     FAULT(shared_load_of_global, 32, sizeof(words_t))},
    {"shared store to a global address", "E07", "st_shared_b32x4 writes", 1, 80,
     FAULT(shared_store_to_global, 32, sizeof(words_t))},
    {"shared store to a local variable", "E07", "neither global nor shared", 1, 80,
     FAULT(shared_store_to_local, 32, sizeof(words_t))},
    {"copy to global memory", "E07", "cp.async writes", 1, 80, FAULT(copied_to_global, 32, sizeof(words_t))},
    {"copy from shared memory", "E07", "cp.async reads", 1, 80,
     FAULT(copied_from_shared, 32, sizeof(words_t))},
    {"copy through a null pointer", "E07", "reads 16 bytes", 1, 80,
     FAULT(copied_from_null, 32, sizeof(words_t))},
    {"copy to a null pointer", "E07", "null pointer", 1, 80, FAULT(copied_to_null, 32, sizeof(words_t))},
    {"addition in shared memory", "E07", "atom_global_add_s32", 1, 80,
     FAULT(added_in_shared, 32, sizeof(words_t))},
    {"addition through a null pointer", "E07", "null pointer", 1, 80,
     FAULT(added_to_null, 32, sizeof(words_t))},
    {"shared memory never written", "E08", "shared memory", 1, 80, FAULT(blank_shared, 32, sizeof(words_t))},
    {"never written by this block", "E08", "shared memory", 1, 80,
     FAULT_BLOCKS(blank_in_later_blocks, 12, 32, sizeof(words_t))},
    {"global memory never written", "E08", "global memory", 1, 80, FAULT(blank_global, 32, sizeof(words_t))},
    {"tail of a tile never written", "E08", "shared memory", 1, 80, FAULT(blank_tail, 32, sizeof(words_t))},
    {"copy of what was never written", "E08", "global memory", 1, 80,
     FAULT(blank_copied, 32, sizeof(words_t))},
    {"cp.async on sm_75", "E09", "sm_75", 1, 75, FAULT(copy_on_75, 32, sizeof(words_t))},
    {"mma.m16n8k16 on sm_75", "E09", "sm_75", 1, 75, FAULT(mma_on_75, 32, sizeof(words_t))},
    {"mma with bf16 on sm_75", "E09", "sm_75", 1, 75, FAULT(bf16_on_75, 32, sizeof(words_t))},
    {"stmatrix on sm_80", "E09", "sm_80", 1, 80, FAULT(stmatrix_on_80, 32, sizeof(words_t))},
    {NULL, NULL, NULL, 0, 0, NULL},
};
