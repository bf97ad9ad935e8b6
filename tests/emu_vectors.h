/* emu_vectors.h - what the wrappers of common/ptx must do, as vectors: inputs from a formula, and 32-bit words that come
 * back. The same kernels (emu_wrappers.cu, emu_tiles.cu) run in the emulator and on a GPU; the words must be those of a
 * plain definition (emu_definitions.c) on both, and those of the GPU are kept in tests/golden. */
#ifndef EMU_VECTORS_H
#define EMU_VECTORS_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One kernel for each wrapper. */
enum {
  K_MUL_RN,
  K_EXP2,
  K_PASS,
  K_FROM_FP16_CODE,
  K_FROM_BF16_CODE,
  K_TO_FP16,
  K_TO_BF16,
  K_PACK_FP16,
  K_PACK_BF16,
  K_UNPACK_FP16,
  K_UNPACK_BF16,
  K_LOAD_ELEMENT,
  K_STORE_ELEMENT,
  K_LD_GLOBAL_F32X4,
  K_LD_GLOBAL_B32X4,
  K_ST_GLOBAL_F32X4,
  K_ST_GLOBAL_B32X2,
  K_ST_GLOBAL_B32,
  K_SHFL_XOR,
  K_SHFL,
  K_BALLOT,
  K_ATOM_ADD_F32,
  K_ATOM_ADD_S32,
  K_ON_TILES, /* from here on in emu_tiles.cu */
  K_LDMATRIX = K_ON_TILES,
  K_LDMATRIX_TRANS,
  K_STMATRIX,
  K_STMATRIX_TRANS,
  K_MMA_K8,
  K_MMA_K16,
  K_MMA_K16_BF16,
  K_ST_SHARED_B32X4,
  K_ST_SHARED_B32,
  K_LD_SHARED_F32X4,
  K_CP_ASYNC,
  K_CP_ASYNC_GROUPS,
  K_CP_ASYNC_EMPTY,
  K_SYNCTHREADS,
  K_SYNCWARP,
  K_BAR_SYNC,
  K_BAR_ARRIVE,
  KERNELS
};

/* What a word holds. A NaN equals every other NaN of its type: which bits it has is nobody's promise. */
typedef enum vector_kind { WORDS, ONE_FP32, ONE_FP16, ONE_BF16, TWO_FP16, TWO_BF16 } vector_kind_t;

/* Each block of a kernel reads its own `in` words and writes its own `out` words, lane after lane. */
typedef struct wrapper {
  int in, out;
  vector_kind_t kind;
  int sm; /* the least architecture */
  void (*define)(const uint32_t *in, uint32_t *out);
} wrapper_t;
extern const wrapper_t wrappers[KERNELS];

typedef struct vector {
  const char *name; /* tests/golden/NAME.txt */
  int kernel, blocks;
  void (*fill)(int block, uint32_t *in);
  int ulps;    /* 0: bit for bit */
  bool digest; /* many words: the file holds one number for each DIGEST_WORDS of them */
} vector_t;
extern const vector_t vectors[];
extern const int vector_count;

enum { DIGEST_WORDS = 1024 };

/* Runs one kernel; pointers are the device's. */
fa_status_t run_wrapper_emu(int kernel, int blocks, const uint32_t *in, uint32_t *out, fa_reason_t *why);
fa_status_t run_wrapper_gpu(int kernel, int blocks, const uint32_t *in, uint32_t *out, fa_reason_t *why);
/* The half that emu_wrappers.cu has. */
fa_status_t run_simple_emu(int kernel, int blocks, const uint32_t *in, uint32_t *out, fa_reason_t *why);
fa_status_t run_simple_gpu(int kernel, int blocks, const uint32_t *in, uint32_t *out, fa_reason_t *why);

/* Inputs, the definition's words, and the words of a machine. Arrays are the caller's, to free(). */
size_t vector_in(const vector_t *v);
size_t vector_out(const vector_t *v);
uint32_t *vector_inputs(const vector_t *v);
uint32_t *vector_defined(const vector_t *v, const uint32_t *in);
typedef fa_status_t run_wrapper_t(int kernel, int blocks, const uint32_t *in, uint32_t *out,
                                  fa_reason_t *why);
fa_status_t vector_run(const vector_t *v, const fa_machine_t *m, run_wrapper_t *run, const uint32_t *in,
                       uint32_t *out, fa_reason_t *why);

/* The first word that differs by more than `ulps`, or -1; *most is the largest distance that was seen. */
int64_t words_differ(vector_kind_t kind, int ulps, const uint32_t *a, const uint32_t *b, size_t count,
                     int64_t *most);
/* The value of a code of fp16 or bf16, as if the format went on where infinity begins. */
double code_value(vector_kind_t kind, int code);
uint32_t digest_of(vector_kind_t kind, const uint32_t *words, size_t count);
/* What the file holds of these words: themselves, or digests. The array is the caller's. */
uint32_t *golden_words(const vector_t *v, const uint32_t *out, size_t *count);

/* A recorded file: its words, or NULL with the reason; whose they are goes to `source`. */
uint32_t *golden_read(const vector_t *v, uint32_t inputs, size_t count, char source[160], fa_reason_t *why);
fa_status_t golden_write(const vector_t *v, uint32_t inputs, const uint32_t *words, size_t count,
                         const char *device, fa_reason_t *why);
bool golden_exists(const vector_t *v);

#ifdef __cplusplus
}
#endif
#endif
