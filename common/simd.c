/* simd.c - which instruction set this program uses: what the CPU has, or less if FA_ISA asks for it. */
#include "simd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
static fa_isa_t widest(void) {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return FA_BASELINE;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return FA_AVX512;
  return FA_AVX2;
}
#else
static fa_isa_t widest(void) {
  return FA_BASELINE;
}
#endif

static const char *const names[] = {"baseline", "avx2", "avx512"};

fa_isa_t fa_isa(void) {
  fa_isa_t isa = widest();
  const char *asked = getenv("FA_ISA");
  for (int i = FA_BASELINE; asked && i < (int)isa; i++)
    if (!strcmp(asked, names[i])) isa = (fa_isa_t)i;
  return isa;
}

const char *fa_isa_wrong(void) {
  const char *asked = getenv("FA_ISA");
  if (!asked || !*asked) return NULL;
  const int widest_here = (int)widest();
  for (int i = FA_BASELINE; i <= widest_here; i++)
    if (!strcmp(asked, names[i])) return NULL;
  static char text[96];
  snprintf(text, sizeof text, "FA_ISA is %s%s%s on this processor, not \"%.20s\"", names[FA_BASELINE],
           widest_here >= FA_AVX2 ? " or avx2" : "", widest_here == FA_AVX512 ? " or avx512" : "", asked);
  return text;
}

const char *fa_isa_name(void) {
#if defined(__aarch64__)
  return "NEON";
#else
  static const char *const spoken[] = {"baseline", "AVX2", "AVX-512"};
  return spoken[fa_isa()];
#endif
}
