/* emu_wrappers.cu - one tiny kernel for each wrapper that works within a thread or a warp's registers. Each block reads
 * its own words and writes its own (emu_vectors.h); nothing is computed but the wrapper. */
#include "emu_vectors.h"
#include "ptx/arith.h"
#include "ptx/atomic.h"
#include "ptx/convert.h"
#include "ptx/memory.h"
#include "ptx/warp.h"

namespace FA_KERNEL_NAMESPACE {

#define KERNEL(name) __global__ void __launch_bounds__(32) name(const uint32_t *in, uint32_t *out)
/* The lane, and this block's words. */
#define BLOCK(IN, OUT)                                                                                       \
  const int l = threadIdx.x;                                                                                 \
  in += (int64_t)blockIdx.x * (IN);                                                                          \
  out += (int64_t)blockIdx.x * (OUT)

/* The subtraction must find a rounded product, and not become an fma with it. */
KERNEL(mul_kernel) {
  BLOCK(96, 64);
  float r = mul_rn(fa_bits_float(in[l]), fa_bits_float(in[32 + l]));
  out[l] = fa_float_bits(r);
  out[32 + l] = fa_float_bits(r - fa_bits_float(in[64 + l]));
}

KERNEL(exp2_kernel) {
  BLOCK(32, 32);
  out[l] = fa_float_bits(exp2_approx(fa_bits_float(in[l])));
}

/* What hands its argument on: an optimiser's fence, and conversions from fp32 to itself. */
KERNEL(pass_kernel) {
  BLOCK(32, 96);
  float kept;
  out[l] = (uint32_t)not_ahead((int)in[l]);
  out[32 + l] = fa_float_bits(to_f32(fa_bits_float(in[l])));
  from_f32(fa_bits_float(in[l]), &kept);
  out[64 + l] = fa_float_bits(kept);
}

template <class T> KERNEL(widen_kernel) {
  BLOCK(32, 32);
  out[l] = fa_float_bits(to_f32(T{(uint16_t)in[l]}));
}

template <class T> KERNEL(narrow_kernel) {
  BLOCK(32, 32);
  T r;
  from_f32(fa_bits_float(in[l]), &r);
  out[l] = r.bits;
}

template <class T> KERNEL(pack_kernel) {
  BLOCK(64, 32);
  out[l] = pack_f32(fa_bits_float(in[2 * l]), fa_bits_float(in[2 * l + 1]), T{});
}

template <class T> KERNEL(unpack_kernel) {
  BLOCK(32, 64);
  float low, high;
  unpack_f32(&low, &high, in[l], T{});
  out[2 * l] = fa_float_bits(low);
  out[2 * l + 1] = fa_float_bits(high);
}

/* The same 128 bytes as an array of each type. */
KERNEL(load_element_kernel) {
  BLOCK(32, 160);
  out[l] = fa_float_bits(load_element(FA_FP32, in, l));
  for (int i = l; i < 64; i += 32) {
    out[32 + i] = fa_float_bits(load_element(FA_FP16, in, i));
    out[96 + i] = fa_float_bits(load_element(FA_BF16, in, i));
  }
}

KERNEL(store_element_kernel) {
  BLOCK(32, 64);
  float x = fa_bits_float(in[l]);
  store_element(FA_FP32, out, l, x);
  store_element(FA_FP16, out, 64 + l, x);
  store_element(FA_BF16, out, 96 + l, x);
}

/* Every lane's 16 bytes go to or come from another place than its own. */
FA_DEVICE int elsewhere(int l) {
  return (5 * l + 3) % 32;
}

KERNEL(ld_global_f32x4_kernel) {
  BLOCK(128, 128);
  float x[4];
  ld_global_f32x4(x, (const float *)in + 4 * elsewhere(l));
  for (int i = 0; i < 4; i++) out[4 * l + i] = fa_float_bits(x[i]);
}

KERNEL(ld_global_b32x4_kernel) {
  BLOCK(128, 128);
  uint32_t x[4];
  ld_global_b32x4(x, in + 4 * elsewhere(l));
  for (int i = 0; i < 4; i++) out[4 * l + i] = x[i];
}

KERNEL(st_global_f32x4_kernel) {
  BLOCK(128, 128);
  float x[4];
  for (int i = 0; i < 4; i++) x[i] = fa_bits_float(in[4 * l + i]);
  st_global_f32x4((float *)out + 4 * elsewhere(l), x);
}

KERNEL(st_global_b32x2_kernel) {
  BLOCK(64, 64);
  st_global_b32x2(out + 2 * elsewhere(l), in[2 * l], in[2 * l + 1]);
}

KERNEL(st_global_b32_kernel) {
  BLOCK(32, 32);
  st_global_b32(out + elsewhere(l), in[l]);
}

KERNEL(shfl_xor_kernel) {
  BLOCK(64, 32);
  out[l] = fa_float_bits(shfl_xor_f32(fa_bits_float(in[l]), (int)in[32 + l]));
}

KERNEL(shfl_kernel) {
  BLOCK(64, 32);
  out[l] = fa_float_bits(shfl_f32(fa_bits_float(in[l]), (int)in[32 + l]));
}

KERNEL(ballot_kernel) {
  BLOCK(32, 32);
  out[l] = vote_ballot(in[l] != 0);
}

/* in: 32 numbers, and what each lane adds to another's. out: the sums, what came back, and one number that all lanes add
 * to; those are small and whole, so that the sum is the same in every order. */
KERNEL(atom_add_f32_kernel) {
  BLOCK(64, 65);
  out[l] = in[l];
  if (l == 0) out[64] = 0;
  __syncwarp();
  out[32 + l] = fa_float_bits(atom_global_add_f32((float *)out + elsewhere(l), fa_bits_float(in[32 + l])));
  atom_global_add_f32((float *)out + 64, (float)(in[32 + l] & 1023));
}

/* The last word: one for each lane, so that what came back are 32 different numbers; they become bits of the last but
 * one. */
KERNEL(atom_add_s32_kernel) {
  BLOCK(64, 66);
  out[l] = in[l];
  if (l < 2) out[64 + l] = 0;
  __syncwarp();
  out[32 + l] = (uint32_t)atom_global_add_s32((int *)out + elsewhere(l), (int)in[32 + l]);
  int before = atom_global_add_s32((int *)out + 65, 1);
  atom_global_add_s32((int *)out + 64, (int)(1u << before));
}

static fa_status_t run(int kernel, int blocks, const uint32_t *in, uint32_t *out, fa_reason_t *why) {
#define RUN(number, name)                                                                                    \
  case number: LAUNCH(name, blocks, 32, 0, NULL, in, out); break
  switch (kernel) {
    RUN(K_MUL_RN, mul_kernel);
    RUN(K_EXP2, exp2_kernel);
    RUN(K_PASS, pass_kernel);
    RUN(K_FROM_FP16_CODE, widen_kernel<fp16_t>);
    RUN(K_FROM_BF16_CODE, widen_kernel<bf16_t>);
    RUN(K_TO_FP16, narrow_kernel<fp16_t>);
    RUN(K_TO_BF16, narrow_kernel<bf16_t>);
    RUN(K_PACK_FP16, pack_kernel<fp16_t>);
    RUN(K_PACK_BF16, pack_kernel<bf16_t>);
    RUN(K_UNPACK_FP16, unpack_kernel<fp16_t>);
    RUN(K_UNPACK_BF16, unpack_kernel<bf16_t>);
    RUN(K_LOAD_ELEMENT, load_element_kernel);
    RUN(K_STORE_ELEMENT, store_element_kernel);
    RUN(K_LD_GLOBAL_F32X4, ld_global_f32x4_kernel);
    RUN(K_LD_GLOBAL_B32X4, ld_global_b32x4_kernel);
    RUN(K_ST_GLOBAL_F32X4, st_global_f32x4_kernel);
    RUN(K_ST_GLOBAL_B32X2, st_global_b32x2_kernel);
    RUN(K_ST_GLOBAL_B32, st_global_b32_kernel);
    RUN(K_SHFL_XOR, shfl_xor_kernel);
    RUN(K_SHFL, shfl_kernel);
    RUN(K_BALLOT, ballot_kernel);
    RUN(K_ATOM_ADD_F32, atom_add_f32_kernel);
    RUN(K_ATOM_ADD_S32, atom_add_s32_kernel);
  default: return fa_say(why, FA_INVALID, "no kernel %d", kernel);
  }
  return FA_OK;
}

} // namespace FA_KERNEL_NAMESPACE

extern "C" fa_status_t FA_KERNEL_TABLE(run_simple)(int kernel, int blocks, const uint32_t *in, uint32_t *out,
                                                   fa_reason_t *why) {
  return FA_KERNEL_NAMESPACE::run(kernel, blocks, in, out, why);
}
