/* tiles.c - block buffers for `tiled`, and the copies between them and main memory. */
#include "tiled.h"

#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

int fa_thread_count(void) {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

int fa_thread_index(void) {
#ifdef _OPENMP
  return omp_get_thread_num();
#else
  return 0;
#endif
}

void fa_tiled_sizes(const fa_problem_t *p, int64_t *Br, int64_t *Bc) {
  int64_t d = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
  *Bc = (FA_TILED_SRAM_FLOATS + 4 * d - 1) / (4 * d);
  *Br = *Bc < d ? *Bc : d;
}

/* Bytes that one thread's blocks take, rounded up to cache lines so that threads share none. */
static size_t tile_bytes(const fa_problem_t *p, int64_t Br, int64_t Bc, fa_pass_t pass) {
  size_t d = (size_t)p->head_dim, dv = (size_t)p->head_dim_v, r = (size_t)Br, c = (size_t)Bc;
  size_t floats = r * d + c * d + c * dv + r * dv + r * c + 2 * r;
  if (pass == FA_BACKWARD) floats += r * dv + r * c + c * d + c * dv + r * d + 2 * r;
  return (floats * sizeof(float) + r * sizeof(int64_t) + 63) / 64 * 64;
}

size_t fa_tiled_workspace(const fa_problem_t *p, fa_pass_t pass, int64_t Br, int64_t Bc) {
  return (size_t)fa_thread_count() * tile_bytes(p, Br, Bc, pass);
}

fa_tiles_t fa_tiles_at(const fa_problem_t *p, int64_t Br, int64_t Bc, fa_pass_t pass, void *workspace,
                       int thread) {
  int64_t d = p->head_dim, dv = p->head_dim_v;
  void *start = (char *)workspace + (size_t)thread * tile_bytes(p, Br, Bc, pass);
  fa_tiles_t t;
  memset(&t, 0, sizeof t);
  t.visible = start; /* first, where it is aligned whatever the sizes */
  float *next = (float *)(void *)(t.visible + Br);
  const struct {
    float **block;
    int64_t floats;
    bool backward;
  } blocks[] = {{&t.Q, Br * d, false},  {&t.K, Bc * d, false}, {&t.V, Bc * dv, false}, {&t.O, Br * dv, false},
                {&t.S, Br * Bc, false}, {&t.m, Br, false},     {&t.l, Br, false},      {&t.dO, Br * dv, true},
                {&t.dP, Br * Bc, true}, {&t.dK, Bc * d, true}, {&t.dV, Bc * dv, true}, {&t.dQ, Br * d, true},
                {&t.lse, Br, true},     {&t.D, Br, true}};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    if (!blocks[i].backward || pass == FA_BACKWARD) {
      *blocks[i].block = next;
      next += blocks[i].floats;
    }
  return t;
}

void fa_load_block(const fa_tensor_t *t, int64_t b, int64_t h, int64_t begin, int64_t count, int64_t dim,
                   float *block, double *bytes) {
  for (int64_t r = 0; r < count; r++)
    memcpy(block + r * dim, (const float *)t->data + fa_row(t, b, h, begin + r), (size_t)dim * sizeof(float));
  *bytes += (double)(count * dim) * sizeof(float);
}

void fa_store_block(const fa_tensor_t *t, int64_t b, int64_t h, int64_t begin, int64_t count, int64_t dim,
                    const float *block, double *bytes) {
  for (int64_t r = 0; r < count; r++)
    memcpy((float *)t->data + fa_row(t, b, h, begin + r), block + r * dim, (size_t)dim * sizeof(float));
  *bytes += (double)(count * dim) * sizeof(float);
}
