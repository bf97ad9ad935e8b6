/* memory.h - loads and stores wider than one element. Addresses are multiples of the width. */
#ifndef FA_PTX_MEMORY_H
#define FA_PTX_MEMORY_H

#include "launch.h"

/* fp32 in 32 bits, for the emulator. */
#ifndef __CUDACC__
#include "../dtype.h"
#endif

/* ld.global.v4.f32 (PTX ISA, Data Movement and Conversion: ld): 16 bytes. */
FA_DEVICE void ld_global_f32x4(float (&x)[4], const float *from FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
#else
  const emu_b32x4_t r = fa_emu_load(from, 16, here);
  for (int i = 0; i < 4; i++) x[i] = fa_bits_float(r.r[i]);
#endif
}

/* st.global.v4.f32 (PTX ISA, Data Movement and Conversion: st): 16 bytes. */
FA_DEVICE void st_global_f32x4(float *to, const float (&x)[4] FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
#else
  fa_emu_store(to, {{fa_float_bits(x[0]), fa_float_bits(x[1]), fa_float_bits(x[2]), fa_float_bits(x[3])}}, 16,
               here);
#endif
}

/* st.global.v2.b32: 8 bytes. */
FA_DEVICE void st_global_b32x2(void *to, uint32_t low, uint32_t high FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("st.global.v2.b32 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(low), "r"(high)
               : "memory");
#else
  fa_emu_store(to, {{low, high, 0, 0}}, 8, here);
#endif
}

/* ld.global.v4.b32: 16 bytes, of any type. */
FA_DEVICE void ld_global_b32x4(uint32_t (&x)[4], const void *from FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
#else
  const emu_b32x4_t r = fa_emu_load(from, 16, here);
  for (int i = 0; i < 4; i++) x[i] = r.r[i];
#endif
}

/* st.shared.v4.b32: 16 bytes. */
FA_DEVICE void st_shared_b32x4(void *to, const uint32_t (&x)[4] FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
               :
               : "r"(shared_address(to)), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
#else
  fa_emu_store(to, {{x[0], x[1], x[2], x[3]}}, 16, here);
#endif
}

/* ld.shared.v4.f32: 16 bytes. */
FA_DEVICE void ld_shared_f32x4(float (&x)[4], const void *from FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "r"(shared_address(from))
               : "memory");
#else
  const emu_b32x4_t r = fa_emu_load(from, 16, here);
  for (int i = 0; i < 4; i++) x[i] = fa_bits_float(r.r[i]);
#endif
}

/* st.shared.b32: 4 bytes. */
FA_DEVICE void st_shared_b32(void *to, uint32_t x FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("st.shared.b32 [%0], %1;" : : "r"(shared_address(to)), "r"(x) : "memory");
#else
  fa_emu_store(to, {{x, 0, 0, 0}}, 4, here);
#endif
}

/* st.global.b32: 4 bytes. */
FA_DEVICE void st_global_b32(void *to, uint32_t x FA_PLACE) {
#ifdef __CUDACC__
  asm volatile("st.global.b32 [%0], %1;" : : "l"(__cvta_generic_to_global(to)), "r"(x) : "memory");
#else
  fa_emu_store(to, {{x, 0, 0, 0}}, 4, here);
#endif
}

#endif
