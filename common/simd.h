/* simd.h - CPU code compiled once per instruction set (common/simd.mk), chosen when the program runs.
 *
 * A file NAME_simd.c is compiled with FA_ISA = baseline, avx2 and avx512 on x86-64, and with baseline alone
 * elsewhere (NEON on AArch64). Its external functions are named with FA_SIMD(name); FA_PICK(name) in any
 * other file is the one for this CPU. */
#ifndef FA_SIMD_H
#define FA_SIMD_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum fa_isa { FA_BASELINE, FA_AVX2, FA_AVX512 } fa_isa_t;

/* The widest that this CPU has; the environment variable FA_ISA=baseline|avx2|avx512 asks for less. */
fa_isa_t fa_isa(void);
/* One line if FA_ISA asks for anything else, which fa_isa does not heed and programs refuse; else NULL. */
const char *fa_isa_wrong(void);
const char *fa_isa_name(void); /* "baseline", "NEON", "AVX2" or "AVX-512" */

#ifdef __cplusplus
}
#endif

#define FA_JOIN2(a, b) a##_##b
#define FA_JOIN(a, b) FA_JOIN2(a, b)
#ifdef FA_ISA
#define FA_SIMD(name) FA_JOIN(name, FA_ISA)
#endif

#if defined(__x86_64__)
#define FA_PICK(name)                                                                                        \
  (fa_isa() == FA_AVX512 ? name##_avx512 : fa_isa() == FA_AVX2 ? name##_avx2 : name##_baseline)
#else
#define FA_PICK(name) name##_baseline
#endif

#endif
