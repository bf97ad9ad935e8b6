/* matrix.cpp - ldmatrix, stmatrix and mma.sync (PTX ISA, Warp-level Matrix Instructions). Lane l of a warp is written
 * as row l/4 and pair l%4 below: the layout of an 8 x 8 fragment of 16-bit elements, two to a register. */
#include "engine.h"

#include "product.h"

struct move_t {
  emu_b32x4_t r;
  int matrices;
  bool transposed;
  char *row;
  emu_place_t here;
  uint32_t place; /* lane 0's */
};

/* Lane 8m+i holds the address of row i of matrix m. Register m of lane l is row l/4, columns 2(l%4) and the next of
 * matrix m; transposed: column l/4, rows 2(l%4) and the next. */
static inline __attribute__((always_inline)) void move_matrices(warp_t *w, bool store) {
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
    /* The elements of a row belong to other lanes than the one that names it. */
    if (emu_settings()->races) emu_touch_shared(t, lane[l]->row, 16, store, EMU_WARP, place, true);
    emu_request(t, lane[l]->row, 16, {lane[l]->here.file, lane[l]->here.line});
  }
  emu_requests_end(w);
  for (int m = 0; m < matrices; m++)
    for (int l = 0; l < WARP; l++) {
      uint32_t *r = &lane[l]->r.r[m];
      if (!lane[l]->transposed) { /* both halves of the register are side by side */
        char *pair = lane[8 * m + l / 4]->row + 4 * (l % 4);
        memcpy(store ? pair : (char *)r, store ? (char *)r : pair, 4);
        continue;
      }
      for (int half = 0; half < 2; half++) {
        char *element = lane[8 * m + 2 * (l % 4) + half]->row + 2 * (l / 4), *mine = (char *)r + 2 * half;
        memcpy(store ? element : mine, store ? mine : element, 2);
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

emu_b32x4_t fa_emu_ldmatrix(int matrices, bool transposed, const void *row, emu_place_t here) {
  move_t m = {{}, matrices, transposed, (char *)row, here, place_of_warp(EMU_PC)};
  emu_together("ldmatrix", load_matrices, &m, here);
  return m.r;
}

void fa_emu_stmatrix(emu_b32x4_t r, int matrices, bool transposed, void *row, emu_place_t here) {
  emu_needs(90, "stmatrix", here);
  move_t m = {r, matrices, transposed, (char *)row, here, place_of_warp(EMU_PC)};
  emu_together("stmatrix", store_matrices, &m, here);
}

struct mma_t {
  emu_f32x4_t d;
  emu_b32x4_t a;
  emu_b32x2_t b;
  int k;
  fa_dtype_t type;
};

static fa_product_t *const product = FA_PICK(fa_product);

/* A [16][k], register i of lane l: row l/4 + 8 (i%2), columns 2(l%4), +1, + 8 (i/2). B [k][8], register i: rows
 * 2(l%4), +1, + 8i, column l/4. D [16][8], value i: row l/4 + 8 (i/2), column 2(l%4) + i%2. */
static void multiply(warp_t *w) {
  fa_product_operands_t x = {};
  x.depth = ((const mma_t *)w->argument[0])->k;
  x.bf16 = ((const mma_t *)w->argument[0])->type == FA_BF16;
  for (int l = 0; l < WARP; l++) {
    const mma_t *m = (const mma_t *)w->argument[l];
    const int row = l / 4, pair = l % 4;
    for (int i = 0; i < x.depth / 4; i++)
      memcpy(&x.a[row + 8 * (i % 2)][2 * (pair + 4 * (i / 2))], &m->a.r[i], 4);
    for (int i = 0; i < x.depth / 8; i++) {
      x.b[2 * pair + 8 * i][row] = (uint16_t)m->b.r[i];
      x.b[2 * pair + 8 * i + 1][row] = (uint16_t)(m->b.r[i] >> 16);
    }
    for (int i = 0; i < 2; i++) memcpy(&x.d[row + 8 * i][2 * pair], &m->d.r[2 * i], 8);
  }
  product(&x);
  for (int l = 0; l < WARP; l++) {
    mma_t *m = (mma_t *)w->argument[l];
    for (int i = 0; i < 2; i++) memcpy(&m->d.r[2 * i], &x.d[l / 4 + 8 * i][2 * (l % 4)], 8);
  }
  emu_worker->count->matmul_flop += 2.0 * 16 * 8 * x.depth;
}

emu_f32x4_t fa_emu_mma(emu_f32x4_t d, emu_b32x4_t a, emu_b32x2_t b, int k, fa_dtype_t type,
                       emu_place_t here) {
  if (k == 16 || type == FA_BF16) emu_needs(80, k == 16 ? "mma.m16n8k16" : "mma with bf16", here);
  mma_t m = {d, a, b, k, type};
  emu_together("mma.sync", multiply, &m, here);
  return m.d;
}
