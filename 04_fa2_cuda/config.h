/* config.h - block sizes of this stage, each with its reason. The place to try others.
 *
 * The paper's names: Br queries and Bc keys in a block. */
#ifndef FA2_CONFIG_H
#define FA2_CONFIG_H

#include <assert.h> /* static_assert in C */
#include <stddef.h>
#include <stdint.h>

/* Rows of a head are counted in 32 bits: the sum of two lengths, rounded up to whole blocks, must still fit. */
#define FA2_LONGEST ((int64_t)1 << 29)
static_assert(2 * FA2_LONGEST + 4096 <= INT32_MAX,
              "FA2_LONGEST: two lengths and a block are more than 32 bits");

/* Head sizes of step `pipelined`. Each is a kernel of its own for each type; this list is the only one. */
#define FA2_HEAD_DIMS(DO, ...)                                                                               \
  DO(32, __VA_ARGS__)                                                                                        \
  DO(64, __VA_ARGS__) DO(96, __VA_ARGS__) DO(128, __VA_ARGS__) DO(192, __VA_ARGS__) DO(256, __VA_ARGS__)
#define FA2_HEAD_DIMS_TEXT "32, 64, 96, 128, 192 and 256"
/* Of the steps that are there to be compared. */
#define FA2_COMPARED_DIMS(DO, ...) DO(64, __VA_ARGS__) DO(128, __VA_ARGS__)
#define FA2_COMPARED_DIMS_TEXT "64 and 128"

/* Bc. Scores of 64 keys take 32 registers for each 16 rows of a warp; with 128 there would be none left for O at d = 128,
 * with 32 a warp would rescale O, and meet the others, twice as often. */
#define FORWARD_KEYS 64
static_assert(FORWARD_KEYS % 16 == 0, "FORWARD_KEYS: the product P V takes 16 keys at a time");

/* --- steps `loops` and `split_q` ---------------------------------------------------------------------------
 * A warp has 16 rows, the tile of one mma: the smallest that there is, so that the loops are all there is to read. Four
 * warps: as in the paper's figure 3. */
#define SPLIT_WARPS 4

/* --- step `pipelined` --------------------------------------------------------------------------------------
 * Rows of a warp. With 32, each fragment of K and V that comes from shared memory is used twice, and reading it takes half
 * of the time; O of 32 rows takes d registers of each lane: at d = 96 (sm_120) and d = 128 (sm_90) the compiler would spill
 * some. */
#define FORWARD_ROWS(d) ((d) <= 64 ? 32 : 16)
/* Warps: Br = 128 in every case, if shared memory allows. */
#define FORWARD_WARPS(d) ((d) <= 64 ? 4 : 8)
/* At d = 256, Q_i, K_j and V_j of 8 warps take 128 KB; a card with 99 KB takes 4 warps and 96 KB. */
#define FORWARD_WARPS_LEAST 4
/* Buffers for K and V. Two: the next block is on its way during the whole of this one. At d = 256 they would
 * take 192 KB, and sm_80 has 163 (one rule from d = 128 on, not measured yet): there V_j is copied during Q K^T, and the next
 * K during the rest. */
#define FORWARD_STAGES(d) ((d) <= 96 ? 2 : 1)
/* Does Q stay in registers? 32 rows take d / 2 of them. Where O and S leave no room, Q comes from shared memory each time. */
#define FORWARD_HOLDS_Q(d) ((d) <= 64)
/* Thread blocks of an SM, for the compiler: 255 registers in 256 threads are all that an SM has. */
#define FORWARD_BLOCKS(d) ((d) <= 64 ? 2 : 1)

/* Shared memory of a forward block: Q_i, and STAGES times K_j and V_j. */
static inline size_t forward_bytes(int d, int warps) {
  return (size_t)(warps * FORWARD_ROWS(d) + FORWARD_STAGES(d) * 2 * FORWARD_KEYS) * (size_t)d * 2;
}
static inline int forward_warps(int d, size_t shared_bytes) {
  return forward_bytes(d, FORWARD_WARPS(d)) <= shared_bytes ? FORWARD_WARPS(d) : FORWARD_WARPS_LEAST;
}

#endif
