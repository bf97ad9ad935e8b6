/* config.h - block sizes of this stage, each with its reason. The place to try others.
 *
 * The paper's names: Br queries and Bc keys in a block; M is the size of SRAM in elements, shared memory here.
 * Bc = ceil(M / 4d), because K_j, V_j, Q_i and O_i share it, and Br = min(Bc, d), so that S_ij takes no more than
 * one of them.
 *
 * What does not depend on d is asserted here, the rest beside the names that the kernels give these sizes: paper_shape,
 * forward_shape, backward_shape. Other values either work or are named by an assertion. */
#ifndef FA1_CONFIG_H
#define FA1_CONFIG_H

#include <assert.h> /* static_assert in C */
#include <stddef.h>
#include <stdint.h>

/* Rows of a head are counted in 32 bits: the sum of two lengths, rounded up to whole blocks, must still fit. */
#define FA1_LONGEST ((int64_t)1 << 29)
static_assert(2 * FA1_LONGEST + 4096 <= INT32_MAX,
              "FA1_LONGEST: two lengths and a block are more than 32 bits");

/* Head sizes. Each is a kernel of its own for each type; this list is the only one. */
#define FA1_HEAD_DIMS(DO, ...)                                                                               \
  DO(32, __VA_ARGS__) DO(64, __VA_ARGS__) DO(96, __VA_ARGS__) DO(128, __VA_ARGS__)
#define FA1_HEAD_DIMS_TEXT "32, 64, 96 and 128"

/* --- step `paper` ------------------------------------------------------------------------------------------
 * One choice for all GPUs: everything that Algorithm 4 keeps in SRAM fits the 64 KB of sm_75. */
#define PAPER_SRAM_MOST (64 * 1024)
#define PAPER_THREADS 256                      /* 16 x 16; each owns a register tile of every product */
#define PAPER_KEYS(d) ((d) == 32 ? 128 : 64)   /* Bc: at d = 128, K_j and V_j take 33 KB */
#define PAPER_QUERIES(d) ((d) == 64 ? 64 : 32) /* Br: at d = 96 and 128, 64 would not fit */
static_assert(PAPER_THREADS == 16 * 16, "PAPER_THREADS: products are dealt to 16 x 16 threads (paper.cuh)");

/* --- step `tensorcore` -------------------------------------------------------------------------------------
 * A row of a tile is this much longer than d: 16 bytes more, so that 8 rows lie in 8 different groups of 4 banks. */
#define ROW_PADDING 8
static_assert(ROW_PADDING >= 0 && ROW_PADDING % 8 == 0,
              "ROW_PADDING: rows must begin at multiples of 16 bytes");

/* Forward. A warp does its own rows of Q_i against all of K_j and V_j. 32 rows (two tiles of 16) use every fragment of
 * K and V that comes from shared memory twice; from d = 96 on, O of 32 rows would take most of the registers. */
#define FORWARD_WARPS 4
#define FORWARD_ROWS(d) ((d) <= 64 ? 32 : 16) /* of a warp; Br is FORWARD_WARPS times that */
#define FORWARD_CHUNK 64                      /* keys whose scores are in registers at a time; divides Bc */
#define FORWARD_KEYS_MOST 256                 /* Bc: beyond, the paper found no gain (its figure 2, middle) */
static_assert(FORWARD_WARPS >= 1 && FORWARD_WARPS <= 32, "FORWARD_WARPS: a block has 1 to 32 warps");
static_assert(FORWARD_CHUNK > 0 && FORWARD_CHUNK % 16 == 0,
              "FORWARD_CHUNK: the product P V takes 16 keys at a time");
static_assert(FORWARD_KEYS_MOST % FORWARD_CHUNK == 0, "FORWARD_CHUNK must divide FORWARD_KEYS_MOST");

/* Shared memory of a forward block: K_j, V_j and each warp's rows of Q_i. */
static inline size_t forward_bytes(int d, int Bc) {
  return (size_t)(2 * Bc + FORWARD_WARPS * FORWARD_ROWS(d)) * (size_t)(d + ROW_PADDING) * 2;
}

/* Bc: O_i goes to HBM and back once for each block of keys, so the larger the better, as long as two thread blocks
 * share an SM: one computes while the other waits for its K_j and V_j. An SM has 1 KB more than a block may have, and
 * takes 1 KB for itself from each. */
static inline int forward_keys(int d, size_t shared_bytes) {
  int Bc = FORWARD_KEYS_MOST;
  while (Bc > FORWARD_CHUNK && 2 * (forward_bytes(d, Bc) + 1024) > shared_bytes + 1024) Bc -= FORWARD_CHUNK;
  return Bc;
}

/* Backward. A warp does its own keys, with dK and dV in registers: 32 keys, or 16 from d = 96 on, are 128 registers at
 * most. Bc is that times the number of warps, which is what shared memory allows: the launcher takes the largest. 8 warps
 * are the most, 256 keys or 128; step keys_256 has no more than these. */
#define BACKWARD_KEYS(d) ((d) <= 64 ? 32 : 16)
#define BACKWARD_CHUNK 32 /* queries whose scores are in registers at a time; divides Br */
static_assert(BACKWARD_CHUNK > 0 && BACKWARD_CHUNK % 16 == 0,
              "BACKWARD_CHUNK: the products P^T dO and dS^T Q take 16 queries at a time");
/* Fragments that the inner loops have in registers at a time: of this many steps of 16. Two hide more of the latency of
 * shared memory; but where sm_90's compiler just finds the registers, others would spill, and so would it with the
 * smaller blocks, which no sm_90 needs. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
#define BACKWARD_DEPTH(warps) ((warps) == 8 ? 2 : 1)
#else
#define BACKWARD_DEPTH(warps) 1
#endif
#define BACKWARD_QUERIES(d, warps) ((d) <= 64 || (warps) == 8 ? 64 : 32) /* Br */
/* A kernel before it prepares LSE and D: the rows of a head, rounded up to the largest Br, 16 in a block. */
#define STATS_BLOCK 64
#define STATS_ROWS 16
static_assert(STATS_BLOCK % STATS_ROWS == 0,
              "STATS_ROWS must divide STATS_BLOCK: a block has rows of one head");

/* Shared memory of a backward block: K_j, V_j, twice Q_i and dO_i, dS^T, and twice {LSE, D}. */
static inline size_t backward_bytes(int d, int warps) {
  const int Bc = warps * BACKWARD_KEYS(d), Br = BACKWARD_QUERIES(d, warps);
  return (size_t)(2 * Bc + 4 * Br) * (size_t)(d + ROW_PADDING) * 2 +
         (size_t)Bc * (size_t)(Br + ROW_PADDING) * 2 + (size_t)(2 * Br) * 8;
}

/* Warps of a block: as many as shared memory allows; with Bc those of that block of keys, or 8 where 8 warps have fewer,
 * whether or not shared memory allows them (stage.c refuses). */
static inline int backward_warps(int d, int Bc, size_t shared_bytes) {
  int warps = 8;
  while (warps > 2 && (Bc ? warps * BACKWARD_KEYS(d) > Bc : backward_bytes(d, warps) > shared_bytes))
    warps /= 2;
  return warps;
}

#endif
