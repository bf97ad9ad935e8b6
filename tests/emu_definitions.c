/* emu_definitions.c - what each wrapper's instruction does, written from the PTX ISA's text alone: one loop for each, over
 * lanes and registers, and none of common/emu's code. */
#include "emu_vectors.h"

#include <math.h>
#include <string.h>

/* --- numbers --------------------------------------------------------------------------------------------- */

static double fp32_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return (double)x;
}
static uint32_t bits_of(double x) { /* rounded once, to the nearest fp32 */
  float rounded = (float)x;
  uint32_t bits;
  memcpy(&bits, &rounded, 4);
  return bits;
}

static int mantissa_bits(vector_kind_t kind) {
  return kind == ONE_FP16 || kind == TWO_FP16 ? 10 : 7;
}
static int least_exponent(vector_kind_t kind) {
  return kind == ONE_FP16 || kind == TWO_FP16 ? -14 : -126;
}
static int infinity_code(vector_kind_t kind) {
  return kind == ONE_FP16 || kind == TWO_FP16 ? 0x7c00 : 0x7f80;
}

double code_value(vector_kind_t kind, int code) {
  int m = mantissa_bits(kind), e = (code & 0x7fff) >> m, fraction = code & ((1 << m) - 1);
  double magnitude = e ? ldexp((1 << m) + fraction, e - 1 + least_exponent(kind) - m)
                       : ldexp(fraction, least_exponent(kind) - m);
  return code & 0x8000 ? -magnitude : magnitude;
}

static double decode(vector_kind_t kind, uint32_t code) {
  int rest = (int)(code & 0x7fff);
  if (rest > infinity_code(kind)) return NAN;
  if (rest == infinity_code(kind)) return code & 0x8000 ? -INFINITY : INFINITY;
  return code_value(kind, (int)(code & 0xffff));
}

/* Nearest, ties to even: the distance of neighbours at x, and how many of them x is. */
static uint32_t encode(vector_kind_t kind, double x) {
  uint32_t sign = signbit(x) ? 0x8000 : 0;
  int least = least_exponent(kind), m = mantissa_bits(kind);
  if (isnan(x)) return 0x7fff;
  if (isinf(x)) return sign | (uint32_t)infinity_code(kind);
  int e = x != 0 ? ilogb(x) : least;
  if (e < least) e = least;
  int code = ((e - least) << m) + (int)rint(ldexp(fabs(x), m - e));
  return sign | (uint32_t)(code < infinity_code(kind) ? code : infinity_code(kind));
}

/* --- within a thread ------------------------------------------------------------------------------------- */

static void mul_rn(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) {
    out[l] = bits_of(fp32_of(in[l]) * fp32_of(in[32 + l])); /* 24 x 24 bits are exact in a double */
    out[32 + l] = bits_of(fp32_of(out[l]) - fp32_of(in[64 + l]));
  }
}
static void exp2_ftz(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) {
    double x = fp32_of(in[l]), r = exp2(x);
    out[l] = bits_of(r < 0x1p-126 ? 0 : r);
  }
}
static void pass(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 96; l++) out[l] = in[l % 32];
}
static void from_fp16(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) out[l] = bits_of(decode(ONE_FP16, in[l]));
}
static void from_bf16(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) out[l] = bits_of(decode(ONE_BF16, in[l]));
}
static void to_fp16(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) out[l] = encode(ONE_FP16, fp32_of(in[l]));
}
static void to_bf16(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) out[l] = encode(ONE_BF16, fp32_of(in[l]));
}
static void pack(vector_kind_t kind, const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++)
    out[l] = encode(kind, fp32_of(in[2 * l])) | encode(kind, fp32_of(in[2 * l + 1])) << 16;
}
static void pack_fp16(const uint32_t *in, uint32_t *out) {
  pack(ONE_FP16, in, out);
}
static void pack_bf16(const uint32_t *in, uint32_t *out) {
  pack(ONE_BF16, in, out);
}
/* Element i of an array of 16-bit elements: two to a word, the lower half first. */
static double element(vector_kind_t kind, const uint32_t *words, int i) {
  return decode(kind, words[i / 2] >> (16 * (i % 2)) & 0xffff);
}
static void unpack_fp16(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 64; i++) out[i] = bits_of(element(ONE_FP16, in, i));
}
static void unpack_bf16(const uint32_t *in, uint32_t *out) {
  for (int i = 0; i < 64; i++) out[i] = bits_of(element(ONE_BF16, in, i));
}
static void load_element(const uint32_t *in, uint32_t *out) {
  memcpy(out, in, 32 * sizeof *in);
  unpack_fp16(in, out + 32);
  unpack_bf16(in, out + 96);
}
static void store_element(const uint32_t *in, uint32_t *out) {
  memcpy(out, in, 32 * sizeof *in);
  for (int l = 0; l < 16; l++) {
    out[32 + l] = encode(ONE_FP16, fp32_of(in[2 * l])) | encode(ONE_FP16, fp32_of(in[2 * l + 1])) << 16;
    out[48 + l] = encode(ONE_BF16, fp32_of(in[2 * l])) | encode(ONE_BF16, fp32_of(in[2 * l + 1])) << 16;
  }
}

/* Lane l's words come from place 5l + 3 of 32, or go there. */
static void gathered(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) memcpy(out + 4 * l, in + 4 * ((5 * l + 3) % 32), 16);
}
static void scattered(int words, const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++)
    memcpy(out + words * ((5 * l + 3) % 32), in + words * l, (size_t)words * sizeof *in);
}
static void scattered4(const uint32_t *in, uint32_t *out) {
  scattered(4, in, out);
}
static void scattered2(const uint32_t *in, uint32_t *out) {
  scattered(2, in, out);
}
static void scattered1(const uint32_t *in, uint32_t *out) {
  scattered(1, in, out);
}

/* --- within a warp --------------------------------------------------------------------------------------- */

/* The manual's loop with c = 0x1f: b counts modulo 32, and every source lane is within the warp. */
static void shfl_bfly(const uint32_t *in, uint32_t *out) {
  for (uint32_t l = 0; l < 32; l++) out[l] = in[l ^ (in[32 + l] & 31)];
}
static void shfl_idx(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) out[l] = in[in[32 + l] & 31];
}

static void vote_ballot(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) out[l] = 0;
  for (int l = 0; l < 32; l++)
    for (int voter = 0; voter < 32; voter++) out[l] |= (uint32_t)(in[voter] != 0) << voter;
}

/* --- atomics ---------------------------------------------------------------------------------------------- */

static double flushed(double x) { /* a NaN passes */
  return fabs(x) < 0x1p-126 ? copysign(0, x) : x;
}
static void atom_add_f32(const uint32_t *in, uint32_t *out) {
  out[64] = 0;
  for (int l = 0; l < 32; l++) {
    int at = (5 * l + 3) % 32;
    double sum = fp32_of(bits_of(flushed(fp32_of(in[at])) + flushed(fp32_of(in[32 + l]))));
    out[at] = bits_of(flushed(sum));
    out[32 + l] = in[at];
    out[64] = bits_of(fp32_of(out[64]) + (in[32 + l] & 1023));
  }
}
static void atom_add_s32(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) {
    int at = (5 * l + 3) % 32;
    out[at] = in[at] + in[32 + l];
    out[32 + l] = in[at];
  }
  out[64] = 0xffffffffu;
  out[65] = 32;
}

/* Row i of matrix m is where lane 8m + i points. Thread l's register m: elements 2(l%4) and the next of row l/4; with
 * .trans, of column l/4. */
static uint32_t matrix_element(const uint32_t *in, int m, int row, int column) {
  const uint32_t *eight = in + 32 + 4 * in[8 * m + row];
  return eight[column / 2] >> (16 * (column % 2)) & 0xffff;
}
static void ldmatrix(const uint32_t *in, uint32_t *out) {
  for (int m = 0; m < 4; m++)
    for (int l = 0; l < 32; l++)
      out[32 * m + l] =
          matrix_element(in, m, l / 4, 2 * (l % 4)) | matrix_element(in, m, l / 4, 2 * (l % 4) + 1) << 16;
}
static void ldmatrix_trans(const uint32_t *in, uint32_t *out) {
  for (int m = 0; m < 4; m++)
    for (int l = 0; l < 32; l++)
      out[32 * m + l] =
          matrix_element(in, m, 2 * (l % 4), l / 4) | matrix_element(in, m, 2 * (l % 4) + 1, l / 4) << 16;
}

/* The same places, written. */
static void stmatrix_element(const uint32_t *in, uint32_t *out, int m, int row, int column, uint32_t x) {
  out[4 * in[8 * m + row] + (uint32_t)column / 2] |= (x & 0xffff) << (16 * (column % 2));
}
static void stmatrix(const uint32_t *in, uint32_t *out) {
  memset(out, 0, 128 * sizeof *out);
  for (int m = 0; m < 4; m++)
    for (int l = 0; l < 32; l++)
      for (int k = 0; k < 2; k++)
        stmatrix_element(in, out, m, l / 4, 2 * (l % 4) + k, in[32 + 4 * l + m] >> (16 * k));
}
static void stmatrix_trans(const uint32_t *in, uint32_t *out) {
  memset(out, 0, 128 * sizeof *out);
  for (int m = 0; m < 4; m++)
    for (int l = 0; l < 32; l++)
      for (int k = 0; k < 2; k++)
        stmatrix_element(in, out, m, 2 * (l % 4) + k, l / 4, in[32 + 4 * l + m] >> (16 * k));
}

/* The manual's formulas for the elements a0 .., b0 .., c0 .. of a thread: groupID = lane / 4, and the thread's number in
 * its group. Elements are numbered within the thread, two to a register. */
static void mma(int depth, vector_kind_t kind, const uint32_t *in, uint32_t *out) {
  double a[16][16] = {{0}}, b[16][8] = {{0}}, c[16][8];
  const int a_words = depth / 4, b_words = depth / 8;
  const uint32_t *in_b = in + 32 * a_words, *in_c = in_b + 32 * b_words;
  for (int lane = 0; lane < 32; lane++) {
    int group = lane / 4, member = lane % 4;
    for (int i = 0; i < depth / 2; i++) {
      int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      int column = member * 2 + (i & 1) + (i < 4 ? 0 : 8);
      a[row][column] = element(kind, in + a_words * lane, i);
    }
    for (int i = 0; i < depth / 4; i++)
      b[member * 2 + (i & 1) + (i < 2 ? 0 : 8)][group] = element(kind, in_b + b_words * lane, i);
    for (int i = 0; i < 4; i++)
      c[i < 2 ? group : group + 8][member * 2 + (i & 1)] = fp32_of(in_c[4 * lane + i]);
  }
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 8; j++)
      for (int k = 0; k < depth; k++) c[i][j] += a[i][k] * b[k][j];
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < 4; i++)
      out[4 * lane + i] = bits_of(c[i < 2 ? lane / 4 : lane / 4 + 8][lane % 4 * 2 + (i & 1)]);
}
static void mma_k8(const uint32_t *in, uint32_t *out) {
  mma(8, ONE_FP16, in, out);
}
static void mma_k16(const uint32_t *in, uint32_t *out) {
  mma(16, ONE_FP16, in, out);
}
static void mma_k16_bf16(const uint32_t *in, uint32_t *out) {
  mma(16, ONE_BF16, in, out);
}

/* --- through shared memory ------------------------------------------------------------------------------- */

static void st_shared4(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++)
    for (int i = 0; i < 4; i++) out[32 * i + l] = in[4 * (31 - l) + i];
}
static void reversed(int n, const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < n; l++) out[l] = in[n - 1 - l];
}
static void st_shared1(const uint32_t *in, uint32_t *out) {
  reversed(32, in, out);
}
static void ld_shared4(const uint32_t *in, uint32_t *out) {
  for (int l = 0; l < 32; l++) memcpy(out + 4 * l, in + 4 * (31 - l), 16);
}
/* Bytes beyond the valid ones become 0. */
static void cp_async(const uint32_t *in, uint32_t *out) {
  memset(out, 0, 256 * sizeof *out);
  for (int t = 0; t < 64; t++) memcpy(out + 4 * t, in + 4 * ((t + 33) % 64), (size_t)in[256 + (t + 33) % 64]);
}
static void cp_async_groups(const uint32_t *in, uint32_t *out) {
  memcpy(out, in, 768 * sizeof *in);
}
static void cp_async_empty(const uint32_t *in, uint32_t *out) {
  memcpy(out, in, 256 * sizeof *in);
}
static void syncthreads(const uint32_t *in, uint32_t *out) {
  reversed(128, in, out);
  for (int t = 0; t < 128; t++) out[128 + t] = ~out[(t + 40) % 128];
}
static void syncwarp(const uint32_t *in, uint32_t *out) {
  reversed(32, in, out);
  for (int l = 0; l < 32; l++) out[32 + l] = ~out[(l + 5) % 32];
}
static void bar_sync(const uint32_t *in, uint32_t *out) {
  reversed(64, in, out);
  reversed(64, in + 64, out + 64);
  for (int t = 0; t < 128; t++) out[128 + t] = ~out[127 - t];
}
static void bar_arrive(const uint32_t *in, uint32_t *out) {
  for (int t = 0; t < 64; t++) out[t] = 9 * in[63 - t] + 3 * in[64 + 63 - t] + in[128 + 63 - t];
}

const wrapper_t wrappers[KERNELS] = {
    [K_MUL_RN] = {96, 64, ONE_FP32, 75, mul_rn},
    [K_EXP2] = {32, 32, ONE_FP32, 75, exp2_ftz},
    [K_PASS] = {32, 96, WORDS, 75, pass},
    [K_FROM_FP16_CODE] = {32, 32, ONE_FP32, 75, from_fp16},
    [K_FROM_BF16_CODE] = {32, 32, ONE_FP32, 75, from_bf16},
    [K_TO_FP16] = {32, 32, ONE_FP16, 75, to_fp16},
    [K_TO_BF16] = {32, 32, ONE_BF16, 75, to_bf16},
    [K_PACK_FP16] = {64, 32, TWO_FP16, 75, pack_fp16},
    [K_PACK_BF16] = {64, 32, TWO_BF16, 75, pack_bf16},
    [K_UNPACK_FP16] = {32, 64, ONE_FP32, 75, unpack_fp16},
    [K_UNPACK_BF16] = {32, 64, ONE_FP32, 75, unpack_bf16},
    [K_LOAD_ELEMENT] = {32, 160, ONE_FP32, 75, load_element},
    [K_STORE_ELEMENT] = {32, 64, WORDS, 75, store_element},
    [K_LD_GLOBAL_F32X4] = {128, 128, WORDS, 75, gathered},
    [K_LD_GLOBAL_B32X4] = {128, 128, WORDS, 75, gathered},
    [K_ST_GLOBAL_F32X4] = {128, 128, WORDS, 75, scattered4},
    [K_ST_GLOBAL_B32X2] = {64, 64, WORDS, 75, scattered2},
    [K_ST_GLOBAL_B32] = {32, 32, WORDS, 75, scattered1},
    [K_SHFL_XOR] = {64, 32, WORDS, 75, shfl_bfly},
    [K_SHFL] = {64, 32, WORDS, 75, shfl_idx},
    [K_BALLOT] = {32, 32, WORDS, 75, vote_ballot},
    [K_ATOM_ADD_F32] = {64, 65, ONE_FP32, 75, atom_add_f32},
    [K_ATOM_ADD_S32] = {64, 66, WORDS, 75, atom_add_s32},
    [K_LDMATRIX] = {160, 128, WORDS, 75, ldmatrix},
    [K_LDMATRIX_TRANS] = {160, 128, WORDS, 75, ldmatrix_trans},
    [K_STMATRIX] = {160, 128, WORDS, 90, stmatrix},
    [K_STMATRIX_TRANS] = {160, 128, WORDS, 90, stmatrix_trans},
    [K_MMA_K8] = {224, 128, ONE_FP32, 75, mma_k8},
    [K_MMA_K16] = {320, 128, ONE_FP32, 80, mma_k16},
    [K_MMA_K16_BF16] = {320, 128, ONE_FP32, 80, mma_k16_bf16},
    [K_ST_SHARED_B32X4] = {128, 128, WORDS, 75, st_shared4},
    [K_ST_SHARED_B32] = {32, 32, WORDS, 75, st_shared1},
    [K_LD_SHARED_F32X4] = {128, 128, WORDS, 75, ld_shared4},
    [K_CP_ASYNC] = {320, 256, WORDS, 80, cp_async},
    [K_CP_ASYNC_GROUPS] = {768, 768, WORDS, 80, cp_async_groups},
    [K_CP_ASYNC_EMPTY] = {256, 256, WORDS, 80, cp_async_empty},
    [K_SYNCTHREADS] = {128, 256, WORDS, 75, syncthreads},
    [K_SYNCWARP] = {32, 64, WORDS, 75, syncwarp},
    [K_BAR_SYNC] = {128, 256, WORDS, 75, bar_sync},
    [K_BAR_ARRIVE] = {192, 64, WORDS, 75, bar_arrive},
};
