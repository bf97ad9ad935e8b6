/* emu_vectors.c - the vectors' inputs and their table. Inputs are whole numbers put together by integer arithmetic, so
 * that they are the same on every machine. */
#include "emu_vectors.h"

#include <math.h>
#include <string.h>

/* The n-th of a row of numbers that look random (the mixing step of MurmurHash3). */
static uint32_t mix(uint32_t n) {
  n = n * 0x9e3779b9u + 0x7f4a7c15u;
  n = (n ^ n >> 16) * 0x85ebca6bu;
  n = (n ^ n >> 13) * 0xc2b2ae35u;
  return n ^ n >> 16;
}
static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
/* Between low and high, in steps of 2^-24 of their distance. */
static float between(uint32_t n, double low, double high) {
  return (float)(low + (high - low) * (mix(n) >> 8) * 0x1p-24);
}

/* Zeros, ones, the ends of fp32, of fp16 and of bf16, and what is not finite. */
static const uint32_t special[16] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800001, 0x00800000, /* 2^-126, the least normal */
    0x00000001, 0x807fffff, 0x7f7fffff, 0xff7fffff, 0x7f800000,
    0xff800000, 0x7fc00000, 0x7f800001, /* a signalling NaN */
    0x477fefff, 0x477ff000, 0x33000001, /* around 65520, where fp16 ends; just above half its least */
};
/* All of them in pairs, then any bits, then numbers near 1. */
static uint32_t operand(int n, int which) {
  if (n < 256) return special[which ? n / 16 : n % 16];
  uint32_t x = mix((uint32_t)(2 * n + which));
  return n < 384 ? x : 0x3f000000u + (x >> 8 | (x & 0x80) << 24);
}

static void words(int block, uint32_t *in, int count) {
  for (int i = 0; i < count; i++) in[i] = mix((uint32_t)(block * 4096 + i));
}
static void words32(int block, uint32_t *in) {
  words(block, in, 32);
}
static void words64(int block, uint32_t *in) {
  words(block, in, 64);
}
static void words128(int block, uint32_t *in) {
  words(block, in, 128);
}
static void words192(int block, uint32_t *in) {
  words(block, in, 192);
}
static void words256(int block, uint32_t *in) {
  words(block, in, 256);
}
static void words768(int block, uint32_t *in) {
  words(block, in, 768);
}

/* The product in double precision, rounded. Which NaN comes out is each CPU's own affair, so it is said here. */
static uint32_t product_of(uint32_t a, uint32_t b) {
  const double x = (double)float_of(a) * (double)float_of(b);
  if (!isnan(x)) return bits_of((float)x);
  return isnan(float_of(b)) ? b | 0x400000 : isnan(float_of(a)) ? a | 0x400000 : 0xffc00000;
}

static void products(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) {
    in[l] = operand(32 * block + l, 0);
    in[32 + l] = operand(32 * block + l, 1);
    in[64 + l] = product_of(in[l], in[32 + l]);
  }
}

/* What is special, whole numbers from -160 on, tenths below 0 as in a softmax, and numbers from everywhere. */
static void exponents(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) {
    int n = 32 * block + l;
    in[l] = n < 16    ? special[n]
            : n < 320 ? bits_of((float)(n - 176))
            : n < 512 ? bits_of(between((uint32_t)n, -1, 1))
            : n < 768 ? bits_of(between((uint32_t)n, -40, 0))
                      : bits_of(between((uint32_t)n, -150, 129));
  }
}

static void codes(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) in[l] = (uint32_t)(32 * block + l);
}
static void singles(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) in[l] = operand(32 * block + l, 0);
}
static void pairs(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++)
    for (int which = 0; which < 2; which++) in[2 * l + which] = operand(32 * block + l, which);
}
/* Store_element's words have no type, and its NaNs thus no class: finite numbers only. */
static void finite(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) in[l] = operand(384 + 32 * block + l, 0);
}

/* Between each code and the next: half way, and the fp32 numbers below and above. */
static void ties_fp16(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) {
    int n = 32 * block + l, code = n / 3;
    double half_way = (code_value(ONE_FP16, code) + code_value(ONE_FP16, code + 1)) / 2;
    in[l] = bits_of((float)(code == 0x7fff || code == 0xffff ? NAN : half_way)) + (uint32_t)(n % 3) - 1;
  }
}
static void ties_bf16(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) {
    int n = 32 * block + l;
    in[l] = ((uint32_t)(n / 3) << 16 | 0x8000u) + (uint32_t)(n % 3) - 1;
  }
}

/* Every mask or lane for the whole warp; some that count modulo 32; another for each lane. */
static void lanes(int block, uint32_t *in) {
  static const int far[] = {32, 33, 63, 64, 1000, -1, -32, -33};
  words32(block, in);
  for (int l = 0; l < 32; l++)
    in[32 + l] = block < 32   ? (uint32_t)block
                 : block < 40 ? (uint32_t)far[block - 32]
                              : mix((uint32_t)(block * 4096 + 32 + l)) & 31;
}

/* Each lane alone, all but one, nobody, everybody, and any. What is not 0 says yes, whichever of its bits are set. */
static void votes(int block, uint32_t *in) {
  words32(block, in);
  for (int l = 0; l < 32; l++) {
    bool yes = block < 32   ? l == block
               : block < 64 ? l != block - 32
               : block < 66 ? block == 65
                            : mix((uint32_t)(block * 4096 + 64 + l)) & 1;
    in[l] = yes ? 1u << in[l] % 32 : 0;
  }
}

/* What is special in pairs, any bits, and numbers near 1, as for products; then numbers from 2^-126 to 2^-125, whose
 * differences are subnormal. Lane l adds to number 5l + 3 of 32. */
static void summands(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++) {
    int n = 32 * block + l;
    uint32_t tiny = 0x00800000u | (mix((uint32_t)n) & 0x7fffff);
    in[(5 * l + 3) % 32] = block < 15 ? operand(n, 0) : tiny;
    in[32 + l] = block < 15 ? operand(n, 1) : tiny ^ 0x80000000u ^ (uint32_t)l;
  }
}

/* Rows in order, backwards, shuffled (17 has no factor in common with 32), and, to read only, one row for all. */
static void matrices(int block, uint32_t *in) {
  for (int l = 0; l < 32; l++)
    in[l] = (uint32_t)(block == 0 ? l : block == 1 ? 31 - l : block == 2 ? (17 * l + 5) % 32 : 19);
  for (int i = 0; i < 128; i++) in[32 + i] = (uint32_t)(2 * i + 1) << 16 | (uint32_t)(2 * i); /* all differ */
}

/* --- operands of mma: n-th 16-bit element of all lanes' registers of A, then of B ------------------------- */

static vector_kind_t type_of(int kernel) {
  return kernel == K_MMA_K16_BF16 ? ONE_BF16 : ONE_FP16;
}
static uint32_t whole(vector_kind_t kind, int x) { /* a small whole number's code: its top bits in fp32's */
  uint32_t b = bits_of((float)x);
  if (kind == ONE_BF16) return b >> 16;
  return x ? (b >> 16 & 0x8000) | ((b & 0x7fffffff) - 0x38000000) >> 13 : 0;
}
typedef uint32_t element_t(vector_kind_t kind, int block, int n, int all_of_a, int all_of_b);
static void operands(int kernel, int block, uint32_t *in, element_t *element, float d_size) {
  int a = kernel == K_MMA_K8 ? 128 : 256, b = a / 2;
  for (int n = 0; n < a + b; n += 2)
    in[n / 2] = element(type_of(kernel), block, n, a, b) | element(type_of(kernel), block, n + 1, a, b) << 16;
  for (int i = 0; i < 128; i++)
    in[(a + b) / 2 + i] =
        bits_of(d_size < 4 ? d_size * between((uint32_t)(block * 128 + i), 0, 1)
                           : floorf(between((uint32_t)(block * 128 + i), -(double)d_size, (double)d_size)));
}

/* Block n: element n is 1, the others of its matrix 0, and those of the other matrix count 1, 2, 3 ... */
static uint32_t one_hot(vector_kind_t kind, int block, int n, int a, int b) {
  (void)b;
  bool hot_in_a = block < a;
  if (hot_in_a == (n < a)) return whole(kind, n == block);
  return whole(kind, 1 + (n < a ? n : n - a));
}
static uint32_t integer(vector_kind_t kind, int block, int n, int a, int b) {
  (void)a, (void)b;
  return whole(kind, (int)(mix((uint32_t)(block * 512 + n)) % 17) - 8);
}
/* From 1/2 to 1: nothing cancels, so that ulps of the result mean something. */
static uint32_t positive(vector_kind_t kind, int block, int n, int a, int b) {
  (void)a, (void)b;
  uint32_t x = mix((uint32_t)(block * 512 + n));
  return kind == ONE_BF16 ? 0x3f00 | (x & 0x7f) : 0x3800 | (x & 0x3ff);
}
/* A: subnormal numbers of fp16, B: -4 .. 4. Sums are multiples of 2^-24 with no more than 17 bits. */
static uint32_t subnormal(vector_kind_t kind, int block, int n, int a, int b) {
  uint32_t x = mix((uint32_t)(block * 512 + n));
  if (n < a) return (x & 0x3ff) | (x & 0x8000);
  return integer(kind, block, n, a, b) ? whole(kind, (int)(x % 9) - 4) : 0;
}
/* Some elements of A are infinite, some NaN; B holds -1, 0 and 1. */
static uint32_t infinite(vector_kind_t kind, int block, int n, int a, int b) {
  (void)b;
  uint32_t x = mix((uint32_t)(block * 512 + n)), top = kind == ONE_BF16 ? 0x7f80 : 0x7c00;
  if (n >= a) return whole(kind, (int)(x % 3) - 1);
  return x % 19 == 0 ? top : x % 23 == 0 ? top | 0x8000 : x % 101 == 0 ? top | 1 : whole(kind, (int)(x % 5));
}

#define MMA(name, element, d_size)                                                                           \
  static void name##_k8(int block, uint32_t *in) {                                                           \
    operands(K_MMA_K8, block, in, element, d_size);                                                          \
  }                                                                                                          \
  static void name##_k16(int block, uint32_t *in) {                                                          \
    operands(K_MMA_K16, block, in, element, d_size);                                                         \
  }                                                                                                          \
  static void name##_bf16(int block, uint32_t *in) {                                                         \
    operands(K_MMA_K16_BF16, block, in, element, d_size);                                                    \
  }
MMA(basis, one_hot, 0)
MMA(integers, integer, 1000)
MMA(reals, positive, 2)
MMA(specials, infinite, 0)
static void subnormals_k8(int block, uint32_t *in) {
  operands(K_MMA_K8, block, in, subnormal, 0);
}
static void subnormals_k16(int block, uint32_t *in) {
  operands(K_MMA_K16, block, in, subnormal, 0);
}

/* All valid, none, and every third. */
static void copies(int block, uint32_t *in) {
  words(block, in, 256);
  for (int t = 0; t < 64; t++) in[256 + t] = block == 0 || (block == 2 && t % 3) ? 16 : 0;
}

/* Of mma with fractions: the tensor cores cut every term of a sum of k + 1 to the place of the largest, the emulator
 * rounds k times: 2 ulps for each k bound the distance of the two. */
enum { REAL_K8 = 16, REAL_K16 = 32 };

const vector_t vectors[] = {
    {"mul_rn", K_MUL_RN, 16, products, 0, false},
    {"exp2_approx", K_EXP2, 32, exponents, 2, false},
    {"pass", K_PASS, 1, words32, 0, false},
    {"to_f32_fp16", K_FROM_FP16_CODE, 2048, codes, 0, true},
    {"to_f32_bf16", K_FROM_BF16_CODE, 2048, codes, 0, true},
    {"from_f32_fp16", K_TO_FP16, 16, singles, 0, false},
    {"from_f32_bf16", K_TO_BF16, 16, singles, 0, false},
    {"from_f32_fp16_ties", K_TO_FP16, 6144, ties_fp16, 0, true},
    {"from_f32_bf16_ties", K_TO_BF16, 6144, ties_bf16, 0, true},
    {"pack_f32_fp16", K_PACK_FP16, 16, pairs, 0, false},
    {"pack_f32_bf16", K_PACK_BF16, 16, pairs, 0, false},
    {"unpack_f32_fp16", K_UNPACK_FP16, 8, words32, 0, false},
    {"unpack_f32_bf16", K_UNPACK_BF16, 8, words32, 0, false},
    {"load_element", K_LOAD_ELEMENT, 4, words32, 0, false},
    {"store_element", K_STORE_ELEMENT, 4, finite, 0, false},
    {"ld_global_f32x4", K_LD_GLOBAL_F32X4, 2, words128, 0, false},
    {"ld_global_b32x4", K_LD_GLOBAL_B32X4, 2, words128, 0, false},
    {"st_global_f32x4", K_ST_GLOBAL_F32X4, 2, words128, 0, false},
    {"st_global_b32x2", K_ST_GLOBAL_B32X2, 2, words64, 0, false},
    {"st_global_b32", K_ST_GLOBAL_B32, 2, words32, 0, false},
    {"st_shared_b32x4", K_ST_SHARED_B32X4, 2, words128, 0, false},
    {"st_shared_b32", K_ST_SHARED_B32, 2, words32, 0, false},
    {"ld_shared_f32x4", K_LD_SHARED_F32X4, 2, words128, 0, false},
    {"shfl_xor_f32", K_SHFL_XOR, 48, lanes, 0, false},
    {"shfl_f32", K_SHFL, 48, lanes, 0, false},
    {"vote_ballot", K_BALLOT, 80, votes, 0, false},
    {"atom_global_add_f32", K_ATOM_ADD_F32, 16, summands, 0, false},
    {"atom_global_add_s32", K_ATOM_ADD_S32, 4, words64, 0, false},
    {"ldmatrix_x4", K_LDMATRIX, 4, matrices, 0, false},
    {"ldmatrix_x4_trans", K_LDMATRIX_TRANS, 4, matrices, 0, false},
    {"stmatrix_x4", K_STMATRIX, 3, matrices, 0, false},
    {"stmatrix_x4_trans", K_STMATRIX_TRANS, 3, matrices, 0, false},
    {"mma_m16n8k8_basis", K_MMA_K8, 192, basis_k8, 0, true},
    {"mma_m16n8k8_integers", K_MMA_K8, 4, integers_k8, 0, false},
    {"mma_m16n8k8_subnormals", K_MMA_K8, 2, subnormals_k8, 0, false},
    {"mma_m16n8k8_specials", K_MMA_K8, 4, specials_k8, 0, false},
    {"mma_m16n8k8_reals", K_MMA_K8, 4, reals_k8, REAL_K8, false},
    {"mma_m16n8k16_fp16_basis", K_MMA_K16, 384, basis_k16, 0, true},
    {"mma_m16n8k16_fp16_integers", K_MMA_K16, 4, integers_k16, 0, false},
    {"mma_m16n8k16_fp16_subnormals", K_MMA_K16, 2, subnormals_k16, 0, false},
    {"mma_m16n8k16_fp16_specials", K_MMA_K16, 4, specials_k16, 0, false},
    {"mma_m16n8k16_fp16_reals", K_MMA_K16, 4, reals_k16, REAL_K16, false},
    {"mma_m16n8k16_bf16_basis", K_MMA_K16_BF16, 384, basis_bf16, 0, true},
    {"mma_m16n8k16_bf16_integers", K_MMA_K16_BF16, 4, integers_bf16, 0, false},
    {"mma_m16n8k16_bf16_specials", K_MMA_K16_BF16, 4, specials_bf16, 0, false},
    {"mma_m16n8k16_bf16_reals", K_MMA_K16_BF16, 4, reals_bf16, REAL_K16, false},
    {"cp_async_16", K_CP_ASYNC, 3, copies, 0, false},
    {"cp_async_groups", K_CP_ASYNC_GROUPS, 1, words768, 0, false},
    {"cp_async_empty_group", K_CP_ASYNC_EMPTY, 1, words256, 0, false},
    {"syncthreads", K_SYNCTHREADS, 2, words128, 0, false},
    {"syncwarp", K_SYNCWARP, 2, words32, 0, false},
    {"bar_sync", K_BAR_SYNC, 2, words128, 0, false},
    {"bar_arrive", K_BAR_ARRIVE, 2, words192, 0, false},
};
const int vector_count = sizeof vectors / sizeof *vectors;
