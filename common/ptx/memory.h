/* memory.h - loads and stores of global memory wider than one element. Addresses are multiples of the width. */
#ifndef FA_PTX_MEMORY_H
#define FA_PTX_MEMORY_H

#include "launch.h"

/* ld.global.v4.f32 (PTX ISA, Data Movement and Conversion: ld): 16 bytes. */
FA_DEVICE void ld_global_f32x4(float (&x)[4], const float *from) {
  asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x[0]), "=f"(x[1]), "=f"(x[2]), "=f"(x[3])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
}

/* st.global.v4.f32 (PTX ISA, Data Movement and Conversion: st): 16 bytes. */
FA_DEVICE void st_global_f32x4(float *to, const float (&x)[4]) {
  asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(__cvta_generic_to_global(to)), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
               : "memory");
}

/* st.global.v2.b32: 8 bytes. */
FA_DEVICE void st_global_b32x2(void *to, uint32_t low, uint32_t high) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(to)), "r"(low), "r"(high)
               : "memory");
}

#endif
