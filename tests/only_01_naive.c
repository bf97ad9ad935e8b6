/* only_01_naive.c - what only this stage has: grids of more than 65,535 blocks, up to the 2^31 - 1 that a launch may
 * have, and offsets past 2^31 elements. */
#include "only_01_naive.h"
#include "run_case.h"

/* Blocks of a head, and heads of a batch item. */
static const uint32_t counts[] = {1, 2, 3, 64, 65535, 65536, 70001, 16777216, INT32_MAX};
enum { COUNTS = sizeof counts / sizeof *counts };
/* Blocks beside which something happens: 16 bits end, and 31. */
static const uint32_t blocks[] = {0, 1, 65534, 65535, 65536, 131071, 16777217, INT32_MAX - 1};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

/* A block is one of a head's, and the head one of an item's: there is only one way to count up to it. */
static void shares(const subject_t *s, report_t *r) {
  (void)s;
  for (int k = 0; k < COUNTS; k++)
    for (int h = 0; h < COUNTS; h++)
      for (int n = 0; n < BLOCKS; n++) {
        const naive_share_t x = naive_share(blocks[n], counts[k], counts[h]);
        const int64_t back = ((int64_t)x.batch * counts[h] + x.head) * (int64_t)counts[k] + x.number;
        if (back != blocks[n] || x.head >= counts[h] || x.number >= counts[k])
          wrong(r, "block %u, %u for each of %u heads: batch %u, head %u, block %u of it", blocks[n],
                counts[k], counts[h], x.batch, x.head, x.number);
      }
}

/* Tiles of 64 x 64; rows and columns of a head are at most 2^30 (gpu.c), and there is a block for each tile. */
static void corners(const subject_t *s, report_t *r) {
  (void)s;
  const int64_t most = ((int64_t)1 << 30) / 64;
  for (int k = 0; k < COUNTS; k++)
    for (int n = 0; n < BLOCKS; n++) {
      if (counts[k] > most || blocks[n] / counts[k] >= most) continue;
      const naive_corner_t x = naive_corner(blocks[n], counts[k], 64);
      const int64_t back = (int64_t)(x.row / 64) * counts[k] + x.col / 64;
      if (back != blocks[n] || x.row % 64 || x.col % 64 || x.row < 0 || x.col < 0 ||
          x.col / 64 >= (int64_t)counts[k])
        wrong(r, "tile %u of rows of %u begins at %d, %d", blocks[n], counts[k], x.row, x.col);
    }
}

/* A block has 4 rows of scores, or one; the last block of a head may have rows to spare. */
static void score_rows(const subject_t *s, report_t *r) {
  (void)s;
  for (int rows = 1; rows <= 4; rows += 3)
    for (int k = 0; k < COUNTS; k++)
      for (int n = 0; n < BLOCKS; n++)
        for (int row = 0; row < rows; row++) {
          const int64_t seq_q = (int64_t)counts[k] * rows - (rows - 1);
          const naive_row_t x = naive_score_row(blocks[n], counts[k], rows, row, seq_q);
          const int64_t head = blocks[n] / counts[k], i = (int64_t)(blocks[n] % counts[k]) * rows + row;
          if (x.head != head || x.i != i || x.at != head * seq_q + i)
            wrong(r, "block %u of %u for a head, row %d of %d: head %u, query %lld, row %lld in all",
                  blocks[n], counts[k], row, rows, x.head, (long long)x.i, (long long)x.at);
        }
}

static void tensor_rows(const subject_t *s, report_t *r) {
  (void)s;
  for (int h = 0; h < COUNTS; h++)
    for (int k = 0; k < COUNTS; k++)
      for (int n = 0; n < BLOCKS; n++) {
        const int64_t at = (int64_t)blocks[n] * 8 + 7; /* a warp for each row, 8 in a block */
        const naive_tensor_row_t x = naive_tensor_row(at, counts[h], counts[k]);
        if ((x.b * counts[h] + x.h) * counts[k] + x.r != at || x.h >= counts[h] || x.r >= counts[k])
          wrong(r, "row %lld of %u heads of %u rows: %lld, %lld, %lld", (long long)at, counts[h], counts[k],
                (long long)x.b, (long long)x.h, (long long)x.r);
      }
}

/* The offset of a head, and of a row in it, past 2^31 and 2^32. */
static void elements(const subject_t *s, report_t *r) {
  (void)s;
  static const struct {
    fa_tensor_t t;
    int64_t b, h;
    int row, col;
    int64_t at;
  } rows[] = {
      {{NULL, 0, 0, (int64_t)1 << 33}, 0, 0, 3, 5, ((int64_t)3 << 33) + 5},
      {{NULL, 0, 0, 64}, 0, 0, 1 << 29, 63, ((int64_t)1 << 35) + 63},
      {{NULL, 0, 0, 4}, 0, 0, (1 << 30) - 1, 3, ((int64_t)1 << 32) - 1},
      {{NULL, 0, (int64_t)1 << 31, 1}, 0, 2, 7, 0, ((int64_t)1 << 32) + 7},
      {{NULL, 257 * 128 * 32, 257 * 128, 128}, 65536, 31, 256, 127, (int64_t)65537 * 32 * 257 * 128 - 1},
      /* scores [batch][heads][46341][46344]: one head alone passes 2^31 */
      {{NULL, 2 * (int64_t)46341 * 46344, (int64_t)46341 * 46344, 46344},
       1,
       1,
       46340,
       46343,
       4 * (int64_t)46341 * 46344 - 1}};
  for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
    const int64_t at = naive_element(&rows[n].t, rows[n].b, rows[n].h, rows[n].row, rows[n].col);
    if (at != rows[n].at)
      wrong(r, "element (%lld, %lld, %d, %d) is number %lld, not %lld", (long long)rows[n].b,
            (long long)rows[n].h, rows[n].row, rows[n].col, (long long)at, (long long)rows[n].at);
  }
}

/* Hidden pairs are left out. */
tile_t only_tile(const subject_t *s, int64_t head_dim, fa_pass_t pass) {
  (void)s, (void)head_dim, (void)pass;
  return (tile_t){1, 1};
}

static const property_t properties[] = {
    {.name = "shares", .once = shares, .step = "cuda", .devices = BIT(FA_EMU)},
    {.name = "corners", .once = corners, .step = "cuda", .devices = BIT(FA_EMU)},
    {.name = "score_rows", .once = score_rows, .step = "cuda", .devices = BIT(FA_EMU)},
    {.name = "tensor_rows", .once = tensor_rows, .step = "cuda", .devices = BIT(FA_EMU)},
    {.name = "elements", .once = elements, .step = "cuda", .devices = BIT(FA_EMU)},
    {.name = NULL}};
const suite_t suite_only = {"blocks past 65,535, offsets past 2^31", properties};
