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
  uint32_t place; /* lane 0's */
};

/* Lane 8m+i holds the address of row i of matrix m. Register m of lane l is row l/4, columns 2(l%4) and the next of
 * matrix m; transposed: column l/4, rows 2(l%4) and the next. */
static void move_matrices(warp_t *w, bool store) {
  move_t *lane[WARP];
  for (int l = 0; l < WARP; l++) lane[l] = (move_t *)w->argument[l];
  int matrices = lane[0]->matrices;
  uint32_t place = lane[0]->place;
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

static uint32_t place_of_warp(const void *pc) {
  const thread_t *t = current_thread();
  return t->lane || !emu_settings()->races ? 0 : emu_address_id(t, pc);
}

void fa_emu_ldmatrix(uint32_t *r, int matrices, bool transposed, const void *row, emu_place_t here) {
  fa_emu_needs(75, "ldmatrix", here);
  move_t m = {r, matrices, transposed, (char *)row, here, place_of_warp(EMU_PC)};
  emu_together("ldmatrix", load_matrices, &m, here);
}

void fa_emu_stmatrix(const uint32_t *r, int matrices, bool transposed, void *row, emu_place_t here) {
  fa_emu_needs(90, "stmatrix", here);
  move_t m = {(uint32_t *)r, matrices, transposed, (char *)row, here, place_of_warp(EMU_PC)};
  emu_together("stmatrix", store_matrices, &m, here);
}

struct mma_t {
  float *d;
  const uint32_t *a, *b;
  int k;
  fa_dtype_t type;
};

/* All of a block at once and without branches, so that the compiler makes vector instructions of it. */
static void widen(float *to, const uint16_t *from, int count, fa_dtype_t type) {
  for (int n = 0; n < count; n++) {
    const uint32_t sign = (uint32_t)(from[n] & 0x8000u) << 16, rest = from[n] & 0x7fffu;
    if (type == FA_BF16)
      to[n] = fa_bits_float((uint32_t)from[n] << 16);
    else { /* fp16's exponent in fp32's place is 112 too small; its largest means infinity or NaN */
      const uint32_t special = rest >= 0x7c00u ? 0x7f800000u : 0;
      to[n] = fa_bits_float(fa_float_bits(fa_bits_float(rest << 13) * 0x1p112f) | special | sign);
    }
  }
}

/* Eight columns in one vector. */
typedef float row8_t __attribute__((vector_size(32)));

/* A [16][k], register i of lane l: row l/4 + 8 (i%2), columns 2(l%4), +1, + 8 (i/2). B [k][8], register i: rows
 * 2(l%4), +1, + 8i, column l/4. D [16][8], value i: row l/4 + 8 (i/2), column 2(l%4) + i%2. Products are exact in
 * fp32, sums are rounded in order of k (hardware aligns and truncates: equal on small integers only). */
static void multiply(warp_t *w) {
  const mma_t *first = (const mma_t *)w->argument[0];
  uint16_t a_bits[16][16] = {}, b_bits[16][8] = {};
  float a[16][16], b[16][8], d[16][8];
  const int depth = first->k;
  const fa_dtype_t type = first->type;
  for (int l = 0; l < WARP; l++) {
    const mma_t *m = (const mma_t *)w->argument[l];
    const int row = l / 4, column = 2 * (l % 4);
    for (int i = 0; i < depth / 4; i++)
      for (int half = 0; half < 2; half++)
        a_bits[row + 8 * (i % 2)][column + half + 8 * (i / 2)] = (uint16_t)(m->a[i] >> (16 * half));
    for (int i = 0; i < depth / 8; i++)
      for (int half = 0; half < 2; half++)
        b_bits[column + half + 8 * i][row] = (uint16_t)(m->b[i] >> (16 * half));
    for (int i = 0; i < 4; i++) d[row + 8 * (i / 2)][column + i % 2] = m->d[i];
  }
  widen(a[0], a_bits[0], 16 * 16, type);
  widen(b[0], b_bits[0], 16 * 8, type);
  for (int i = 0; i < 16; i++) {
    row8_t sum, row;
    memcpy(&sum, d[i], sizeof sum);
    for (int k = 0; k < depth; k++) {
      memcpy(&row, b[k], sizeof row);
      sum += a[i][k] * row;
    }
    memcpy(d[i], &sum, sizeof sum);
  }
  for (int l = 0; l < WARP; l++) {
    const mma_t *m = (const mma_t *)w->argument[l];
    for (int i = 0; i < 4; i++) m->d[i] = d[l / 4 + 8 * (i / 2)][2 * (l % 4) + i % 2];
  }
  emu_worker->count->matmul_flop += 2.0 * 16 * 8 * depth;
}

void fa_emu_mma(float *d, const uint32_t *a, const uint32_t *b, int k, fa_dtype_t type, emu_place_t here) {
  if (k == 16 || type == FA_BF16) fa_emu_needs(80, k == 16 ? "mma.m16n8k16" : "mma with bf16", here);
  fa_emu_needs(75, "mma.m16n8k8", here);
  mma_t m = {d, a, b, k, type};
  emu_together("mma.sync", multiply, &m, here);
}
