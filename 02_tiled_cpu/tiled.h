/* tiled.h - the blocks of step `tiled`: sizes, buffers, and entry points that take any sizes. */
#ifndef FA_TILED_H
#define FA_TILED_H

#include "stage.h"

/* The SRAM of the paper is the first-level cache here: 32 KB on nearly every core, 8192 floats.
 * FlashAttention's Algorithm 1 takes B_c = ceil(M / 4d), B_r = min(ceil(M / 4d), d): four blocks (Q_i, K_j,
 * V_j, O_i) fill it. d = 64 gives 32 x 32. */
#define FA_TILED_SRAM_FLOATS 8192

void fa_tiled_sizes(const fa_problem_t *p, int64_t *Br, int64_t *Bc);

/* Any Br, Bc >= 1. `workspace` holds fa_tiled_workspace() bytes for the current number of threads. */
size_t fa_tiled_workspace(const fa_problem_t *p, fa_pass_t pass, int64_t Br, int64_t Bc);
void fa_tiled_forward(const fa_problem_t *p, int64_t Br, int64_t Bc, void *workspace);
void fa_tiled_backward(const fa_problem_t *p, int64_t Br, int64_t Bc, void *workspace);

/* Block buffers of one thread, carved from the workspace. dv is head_dim_v. */
typedef struct fa_tiles {
  float *Q, *K, *V, *O;     /* [Br][d] [Bc][d] [Bc][dv] [Br][dv] */
  float *S, *m, *l;         /* [Br][Bc] [Br] [Br] */
  float *dO, *dP, *dK, *dV; /* backward: [Br][dv] [Br][Bc] [Bc][d] [Bc][dv] */
  float *dQ, *lse, *D;      /* [Br][d] [Br] [Br] */
  int64_t *visible;         /* [Br]: how many keys of the block each query sees */
} fa_tiles_t;

fa_tiles_t fa_tiles_at(const fa_problem_t *p, int64_t Br, int64_t Bc, fa_pass_t pass, void *workspace,
                       int thread);
int fa_thread_count(void);
int fa_thread_index(void);

/* Copies rows [begin, begin + count) of a tensor into a block, or back: the only ways in which data cross
 * between main memory and the blocks, and therefore where bytes are counted. */
void fa_load_block(const fa_tensor_t *t, int64_t b, int64_t h, int64_t begin, int64_t count, int64_t dim,
                   float *block, double *bytes);
void fa_store_block(const fa_tensor_t *t, int64_t b, int64_t h, int64_t begin, int64_t count, int64_t dim,
                    const float *block, double *bytes);

#endif
