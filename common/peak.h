/* peak.h - what this machine's cores can do at most: fp32 fused multiply-adds on registers alone. */
#ifndef FA_PEAK_H
#define FA_PEAK_H

#ifdef __cplusplus
extern "C" {
#endif

/* FLOP/s of all OpenMP threads together over about `seconds`, with the widest vectors that the CPU has. */
double fa_fma_peak(double seconds);

#ifdef __cplusplus
}
#endif
#endif
