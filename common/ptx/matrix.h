/* matrix.h - 8 x 8 blocks of 16-bit elements between shared memory and registers, and their product on the tensor
 * cores (PTX ISA, Warp-level Matrix Instructions). All 32 lanes of a warp take part in each.
 *
 * A fragment of an 8 x 8 block: lane l holds row l/4, columns 2(l%4) and 2(l%4)+1, in one 32-bit register:
 *
 *     columns    0 1    2 3    4 5    6 7
 *     row 0      l0     l1     l2     l3        the lower half of a register is the lower column
 *     row 1      l4     l5     l6     l7
 *     ...
 *     row 7      l28    l29    l30    l31                                                             */
#ifndef FA_PTX_MATRIX_H
#define FA_PTX_MATRIX_H

#include "launch.h"

#ifndef __CUDACC__
/* mma in the emulator: operands go and come by value. */
FA_DEVICE void emu_add_product(float (&d)[4], emu_b32x4_t a, emu_b32x2_t b, int k, fa_dtype_t type,
                               emu_place_t here) {
  const emu_f32x4_t x = fa_emu_mma({{d[0], d[1], d[2], d[3]}}, a, b, k, type, here);
  d[0] = x.r[0], d[1] = x.r[1], d[2] = x.r[2], d[3] = x.r[3];
}
#endif

/* ldmatrix (sm_75): four 8 x 8 blocks. Lane 8m + i gives the address of row i of block m, 16 bytes in shared memory,
 * aligned to 16; r[m] becomes the fragment of block m. With _trans each block is transposed on the way: lane l then
 * holds column l/4, rows 2(l%4) and 2(l%4)+1. */
FA_DEVICE void ldmatrix_x4(uint32_t (&r)[4], const void *row FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#else
  const emu_b32x4_t x = fa_emu_ldmatrix(4, false, row, here);
  r[0] = x.r[0], r[1] = x.r[1], r[2] = x.r[2], r[3] = x.r[3];
#endif
}
FA_DEVICE void ldmatrix_x4_trans(uint32_t (&r)[4], const void *row FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
#else
  const emu_b32x4_t x = fa_emu_ldmatrix(4, true, row, here);
  r[0] = x.r[0], r[1] = x.r[1], r[2] = x.r[2], r[3] = x.r[3];
#endif
}

/* stmatrix (sm_90): the way back, with the same rows and fragments. */
FA_DEVICE void stmatrix_x4(void *row, const uint32_t (&r)[4] FA_PLACE) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
               "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
               : "memory");
#else
  (void)row, (void)r;
  __trap(); /* not reached: see target_sm() in limits.h */
#endif
#else
  fa_emu_stmatrix({{r[0], r[1], r[2], r[3]}}, 4, false, row, here);
#endif
}
FA_DEVICE void stmatrix_x4_trans(void *row, const uint32_t (&r)[4] FA_PLACE) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
#else
  (void)row, (void)r;
  __trap(); /* not reached: see target_sm() in limits.h */
#endif
#else
  fa_emu_stmatrix({{r[0], r[1], r[2], r[3]}}, 4, true, row, here);
#endif
}

/* mma.m16n8k8 (fp16: sm_75): D [16][8] += A [16][8] B [8][8] in fp32. Of A, register i is the fragment of rows 8i ..
 * 8i+7; B's register is that of B transposed: lane l holds column l/4, rows 2(l%4) and the next. Of D, d[2i], d[2i+1]
 * are row l/4 + 8i, columns 2(l%4) and the next. */
FA_DEVICE void mma_m16n8k8(float (&d)[4], const uint32_t (&a)[2], uint32_t b, fp16_t FA_PLACE) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#else
  emu_add_product(d, {{a[0], a[1], 0, 0}}, {{b, 0}}, 8, FA_FP16, here);
#endif
}

/* mma.m16n8k16 (sm_80): D [16][8] += A [16][16] B [16][8] in fp32. Of A, registers 0..3 are the blocks (rows 0-7,
 * columns 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15); of B, register i holds rows 8i .. 8i+7. A row of D in fp32 thus
 * has the layout of A in 16 bit: P needs no exchange between lanes. */
FA_DEVICE void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                            fp16_t FA_PLACE) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  (void)d, (void)a, (void)b0, (void)b1;
  __trap(); /* not reached: see target_sm() in limits.h */
#endif
#else
  emu_add_product(d, {{a[0], a[1], a[2], a[3]}}, {{b0, b1}}, 16, FA_FP16, here);
#endif
}
FA_DEVICE void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                            bf16_t FA_PLACE) {
#ifdef __CUDACC__
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
  (void)d, (void)a, (void)b0, (void)b1;
  __trap(); /* not reached: see target_sm() in limits.h */
#endif
#else
  emu_add_product(d, {{a[0], a[1], a[2], a[3]}}, {{b0, b1}}, 16, FA_BF16, here);
#endif
}

#endif
