# CPU code compiled once per instruction set; the program picks one when it starts.
# A file NAME_simd.c becomes one object per set, each with its own flags and -DFA_ISA=<set>.
MACHINE := $(shell $(CC) -dumpmachine)
ifneq ($(filter x86_64%,$(MACHINE)),)
ISAS := baseline avx2 avx512
else
ISAS := baseline
endif
FLAGS_baseline :=
FLAGS_avx2 := -mavx2 -mfma
FLAGS_avx512 := -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mprefer-vector-width=512
