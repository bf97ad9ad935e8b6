/* matrix.cpp - ldmatrix, stmatrix and mma.sync (PTX ISA, Warp-level Matrix Instructions). Lane l of a warp is written
 * as row l/4 and pair l%4 below: the layout of an 8 x 8 fragment of 16-bit elements, two to a register. */
#include "engine.h"

#include "../dtype.h"

struct move_t {
  uint32_t *r;
  int matrices;
  bool transposed;
  char *row;
  emu_place_t here;
};

/* Lane 8m+i holds the address of row i of matrix m. Register m of lane l is row l/4, columns 2(l%4) and the next of
 * matrix m; transposed: column l/4, rows 2(l%4) and the next. */
static void move_matrices(warp_t *w, bool store) {
  move_t *lane[WARP];
  for (int l = 0; l < WARP; l++) lane[l] = (move_t *)w->argument[l];
  int matrices = lane[0]->matrices;
  uint32_t place = emu_place_id(lane[0]->here);
  for (int l = 0; l < 8 * matrices; l++) {
    thread_t *t = w->thread + l;
    if ((uintptr_t)lane[l]->row % 16 || !emu_is_shared(t, lane[l]->row)) {
      char who[80];
      emu_thread_text(t, who, sizeof who);
      if (emu_is_new("E07", place))
        emu_find("E07",
                 "%s: the row address %p of ldmatrix or stmatrix is not a 16-byte aligned one in shared "
                 "memory, at "
                 "%s:%d",
                 who, (void *)lane[l]->row, lane[l]->here.file, lane[l]->here.line);
      emu_worker->stop = true;
      return;
    }
    if (emu_settings()->races) emu_touch_shared(t, lane[l]->row, 16, store, EMU_WARP, place);
    emu_request(t, lane[l]->row, 16, lane[l]->here.file + lane[l]->here.line);
  }
  emu_requests_end(w);
  for (int m = 0; m < matrices; m++)
    for (int l = 0; l < WARP; l++)
      for (int half = 0; half < 2; half++) {
        int i = lane[l]->transposed ? 2 * (l % 4) + half : l / 4;
        int j = lane[l]->transposed ? l / 4 : 2 * (l % 4) + half;
        uint16_t *element = (uint16_t *)(void *)lane[8 * m + i]->row + j, x;
        uint32_t *r = &lane[l]->r[m];
        if (store) {
          x = (uint16_t)(*r >> (16 * half));
          memcpy(element, &x, 2);
        } else {
          memcpy(&x, element, 2);
          *r = half ? (*r & 0xffffu) | (uint32_t)x << 16 : (*r & 0xffff0000u) | x;
        }
      }
}
static void load_matrices(warp_t *w) {
  move_matrices(w, false);
}
static void store_matrices(warp_t *w) {
  move_matrices(w, true);
}

void fa_emu_ldmatrix(uint32_t *r, int matrices, bool transposed, const void *row, emu_place_t here) {
  fa_emu_needs(75, "ldmatrix", here);
  move_t m = {r, matrices, transposed, (char *)row, here};
  emu_together("ldmatrix", load_matrices, &m, here);
}

void fa_emu_stmatrix(const uint32_t *r, int matrices, bool transposed, void *row, emu_place_t here) {
  fa_emu_needs(90, "stmatrix", here);
  move_t m = {(uint32_t *)r, matrices, transposed, (char *)row, here};
  emu_together("stmatrix", store_matrices, &m, here);
}

struct mma_t {
  float *d;
  const uint32_t *a, *b;
  int k;
  fa_dtype_t type;
};

static float half_of(uint32_t r, int half, fa_dtype_t type) {
  uint16_t bits = (uint16_t)(r >> (16 * half));
  if (type == FA_FP16) return fa_from_fp16({bits});
  return fa_from_bf16({bits});
}

/* A [16][k], register i of lane l: row l/4 + 8 (i%2), columns 2(l%4), +1, + 8 (i/2). B [k][8], register i: rows
 * 2(l%4), +1, + 8i, column l/4. D [16][8], value i: row l/4 + 8 (i/2), column 2(l%4) + i%2. Products are exact in
 * fp32, sums are rounded in order of k (hardware aligns and truncates: equal on small integers only). */
static void multiply(warp_t *w) {
  const mma_t *first = (const mma_t *)w->argument[0];
  float a[16][16], b[16][8];
  int depth = first->k;
  for (int l = 0; l < WARP; l++) {
    const mma_t *m = (const mma_t *)w->argument[l];
    for (int i = 0; i < depth / 4; i++)
      for (int half = 0; half < 2; half++)
        a[l / 4 + 8 * (i % 2)][2 * (l % 4) + half + 8 * (i / 2)] = half_of(m->a[i], half, m->type);
    for (int i = 0; i < depth / 8; i++)
      for (int half = 0; half < 2; half++)
        b[2 * (l % 4) + half + 8 * i][l / 4] = half_of(m->b[i], half, m->type);
  }
  for (int l = 0; l < WARP; l++) {
    const mma_t *m = (const mma_t *)w->argument[l];
    for (int i = 0; i < 4; i++) {
      float sum = m->d[i];
      for (int k = 0; k < depth; k++) sum += a[l / 4 + 8 * (i / 2)][k] * b[k][2 * (l % 4) + i % 2];
      m->d[i] = sum;
    }
  }
  emu_worker->count->matmul_flop += 2.0 * 16 * 8 * depth;
}

void fa_emu_mma(float *d, const uint32_t *a, const uint32_t *b, int k, fa_dtype_t type, emu_place_t here) {
  if (k == 16 || type == FA_BF16) fa_emu_needs(80, k == 16 ? "mma.m16n8k16" : "mma with bf16", here);
  fa_emu_needs(75, "mma.m16n8k8", here);
  mma_t m = {d, a, b, k, type};
  emu_together("mma.sync", multiply, &m, here);
}
