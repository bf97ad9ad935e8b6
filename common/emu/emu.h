/* emu.h - what a kernel file sees of the emulator: CUDA's words, given another meaning.
 *
 * The same .cu file that nvcc builds for a GPU is built by g++ with this header. A CUDA thread is a fiber, and
 * a block's threads run one after another until they must wait; every load and store of the kernel file is
 * seen through the compiler (-fsanitize=thread without its library), so that races, reads of what was never
 * written and accesses outside buffers are found although they would do no harm here. */
#ifndef FA_EMU_H
#define FA_EMU_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include "../stage.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__ __restrict
#define __launch_bounds__(...)

struct emu_dim_t {
  unsigned x, y, z;
};
/* The running thread's coordinates, of which only x is used: the same whenever a kernel asks. */
unsigned fa_emu_thread_index(void) noexcept __attribute__((const, leaf));
unsigned fa_emu_block_index(void) noexcept __attribute__((const, leaf));
unsigned fa_emu_block_size(void) noexcept __attribute__((const, leaf));
#define threadIdx (emu_dim_t{fa_emu_thread_index(), 0, 0})
#define blockIdx (emu_dim_t{fa_emu_block_index(), 0, 0})
#define blockDim (emu_dim_t{fa_emu_block_size(), 1, 1})

/* Where a call stands in the kernel: the default argument is evaluated at the caller. */
struct emu_place_t {
  const char *file;
  int line;
};
#define EMU_HERE emu_place_t here = {__builtin_FILE(), __builtin_LINE()}

/* --- launch --------------------------------------------------------------------------------------- */
typedef void emu_body_t(void *arguments);

/* Runs the kernel to its end. FA_FAILED if the emulator found a fault: `why` holds the first, and all of them
 * were printed. */
fa_status_t fa_emu_launch(const char *kernel, int64_t blocks, int threads, size_t shared_bytes,
                          emu_body_t *body, void *arguments, size_t argument_bytes, fa_reason_t *why);

template <class... P> struct emu_call_t {
  void (*kernel)(P...);
  std::tuple<P...> arguments;
  static void run(void *self) {
    emu_call_t *c = (emu_call_t *)self;
    std::apply(c->kernel, c->arguments);
  }
};
template <class... P, class... A>
static inline fa_status_t emu_launch(const char *name, fa_reason_t *why, void (*kernel)(P...), int64_t blocks,
                                     int threads, size_t shared_bytes, void *stream, A... arguments) {
  (void)stream; /* launches are complete when they return */
  emu_call_t<P...> call = {kernel, std::tuple<P...>(P(arguments)...)};
  return fa_emu_launch(name, blocks, threads, shared_bytes, emu_call_t<P...>::run, &call, sizeof call, why);
}

/* --- what the wrappers of common/ptx do under g++ -------------------------------------------------- */
/* Registers of a lane, passed by value: an array whose address goes to a function counts as memory, and then every use of
 * it would be shown to the checker as an access. */
struct emu_f32x4_t {
  float r[4];
};
struct emu_b32x4_t {
  uint32_t r[4];
};
struct emu_b32x2_t {
  uint32_t r[2];
};

void *fa_emu_shared(size_t bytes, emu_place_t here);

/* What is no single load or store would be a call of the library, which the compiler does not show to the checker. */
void *fa_emu_memcpy(void *to, const void *from, size_t bytes);
void *fa_emu_memset(void *to, int value, size_t bytes);
#define EMU_ONE_ACCESS(bytes) (__builtin_constant_p(bytes) && (bytes) <= 16)
#define memcpy(to, from, bytes)                                                                              \
  (EMU_ONE_ACCESS(bytes) ? __builtin_memcpy(to, from, bytes) : fa_emu_memcpy(to, from, bytes))
#define memset(to, value, bytes)                                                                             \
  (EMU_ONE_ACCESS(bytes) ? __builtin_memset(to, value, bytes) : fa_emu_memset(to, value, bytes))

enum { EMU_WHOLE_BLOCK = 0 };
void fa_emu_barrier(int id, int threads, bool wait, emu_place_t here);
void fa_emu_named_barrier(int id, int threads, bool wait, emu_place_t here);
void fa_emu_syncwarp(emu_place_t here);
enum emu_shuffle_t { EMU_SHUFFLE_XOR, EMU_SHUFFLE_INDEX };
uint32_t fa_emu_shuffle(uint32_t x, int argument, emu_shuffle_t kind, emu_place_t here);
uint32_t fa_emu_ballot(bool x, emu_place_t here);

/* The memory that an instruction is about. A wrapper's name says it, as the instruction's does: ld_shared_f32x4. Compilers
 * know the answer where the name is a constant: nothing is looked for when a kernel runs. */
enum emu_space_t { EMU_ANY_SPACE, EMU_GLOBAL, EMU_SHARED };
struct emu_wrapper_t {
  const char *name;
  emu_space_t space;
};
static inline __attribute__((always_inline)) emu_wrapper_t emu_wrapper(const char *name) {
  return {name, strstr(name, "_shared_")   ? EMU_SHARED
                : strstr(name, "_global_") ? EMU_GLOBAL
                                           : EMU_ANY_SPACE};
}
#define EMU_WRAPPER emu_wrapper_t by = emu_wrapper(__builtin_FUNCTION())

emu_b32x4_t fa_emu_load(const void *from, int bytes, emu_place_t here, EMU_WRAPPER);
/* The first `bytes` of x. */
void fa_emu_store(void *to, emu_b32x4_t x, int bytes, emu_place_t here, EMU_WRAPPER);
float fa_emu_atomic_add_f32(float *p, float x, emu_place_t here, EMU_WRAPPER);
int fa_emu_atomic_add_s32(int *p, int x, emu_place_t here, EMU_WRAPPER);

void fa_emu_cp_async(void *shared, const void *global, int bytes, int valid, emu_place_t here);
void fa_emu_cp_async_commit(emu_place_t here);
void fa_emu_cp_async_wait(int pending, emu_place_t here);

emu_b32x4_t fa_emu_ldmatrix(int matrices, bool transposed, const void *row, emu_place_t here);
void fa_emu_stmatrix(emu_b32x4_t r, int matrices, bool transposed, void *row, emu_place_t here);
/* Returns d [16][8] + a [16][k] b [k][8], k 8 or 16, fragments as in the PTX manual. */
emu_f32x4_t fa_emu_mma(emu_f32x4_t d, emu_b32x4_t a, emu_b32x2_t b, int k, fa_dtype_t type, emu_place_t here);

/* The architecture that is emulated (80 for sm_80), and the shared memory that it has for a block. */
int fa_emu_arch(void) noexcept __attribute__((const, leaf)); /* for the length of a launch */
size_t fa_emu_shared_limit(void);
void fa_emu_count_flop(double matmul, double other);
void fa_emu_count_exp(double special, double polynomial);
void fa_emu_count_rescales(double done, double skipped);

/* --- CUDA's own names that kernels use directly ----------------------------------------------------- */
static inline void __syncthreads(EMU_HERE) {
  fa_emu_barrier(0, EMU_WHOLE_BLOCK, true, here);
}
static inline void __syncwarp(EMU_HERE) {
  fa_emu_syncwarp(here);
}

#endif
