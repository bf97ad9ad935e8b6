/* cases_shapes.c - rows that only the oracle judges: random inputs in every kind of shape.
 *
 * Several heads, odd lengths and a mean other than zero: square, even, single-head shapes hide most index
 * mistakes. Lengths stand just below, at and above the usual tile sizes. */
#include "cases.h"

#define R .dist = "normal"

/* A row is read across, not down. */
/* clang-format off */
#define SQUARE(n, s)                                                                                        \
  {.name = "n" #n, .group = "ragged", .heads_q = 2, .seq_q = n, R, .seed = s},                              \
  {.name = "n" #n "_causal", .group = "ragged", .heads_q = 2, .seq_q = n, .causal = true, R, .seed = s}
#define OBLONG(nq, nk, s, u)                                                                                \
  {.name = "q" #nq "_k" #nk, .group = "oblong", .heads_q = 2, .seq_q = nq, .seq_k = nk, R, .seed = s,       \
   .use = u},                                                                                               \
  {.name = "q" #nq "_k" #nk "_causal", .group = "oblong", .heads_q = 2, .seq_q = nq, .seq_k = nk,           \
   .causal = true, R, .seed = s, .use = u}
/* Small enough for scalar steps in the emulator: several blocks of keys, and a row longer than a warp's. */
#define EMULATED(nq, nk, s, u)                                                                              \
  {.name = "q" #nq "_k" #nk, .group = "oblong", .heads_q = 2, .seq_q = nq, .seq_k = nk, R, .seed = s,       \
   .use = u, .devices = BIT(FA_EMU)},                                                                       \
  {.name = "q" #nq "_k" #nk "_causal", .group = "oblong", .heads_q = 2, .seq_q = nq, .seq_k = nk,           \
   .causal = true, R, .seed = s, .use = u, .devices = BIT(FA_EMU)}
#define HEADS(hq, hkv, c)                                                                                   \
  {.name = "h" #hq "_on_" #hkv, .group = "heads", .batch = 2, .heads_q = hq, .heads_kv = hkv,               \
   .seq_q = 37, .seq_k = 70, .causal = c, R, .seed = hq}
#define DIM(d, dv, u)                                                                                       \
  {.name = "d" #d "_dv" #dv, .group = "dims", .heads_q = 2, .seq_q = 65, .head_dim = d,                     \
   .head_dim_v = dv, R, .seed = d, .use = u},                                                               \
  {.name = "d" #d "_dv" #dv "_causal", .group = "dims", .heads_q = 2, .heads_kv = 1, .seq_q = 50,           \
   .seq_k = 65, .head_dim = d, .head_dim_v = dv, .causal = true, R, .seed = d}
#define LAYOUT(l)                                                                                           \
  {.name = "layout_" #l, .group = "layouts", .batch = 2, .heads_q = 3, .seq_q = 45, .seq_k = 67, R,         \
   .seed = 5, .layout = l},                                                                                 \
  {.name = "layout_" #l "_causal", .group = "layouts", .batch = 2, .heads_q = 4, .heads_kv = 2,             \
   .seq_q = 67, .seq_k = 45, .head_dim = 40, .head_dim_v = 24, .causal = true, R, .seed = 6, .layout = l,   \
   .types = ALL_TYPES}
#define ANYWHERE(x, array)                                                                                  \
  {.name = "moved_" #x, .group = "moved", .heads_q = 1, .seq_q = 20, .seq_k = 37, R, .seed = 7,             \
   .layout = MOVED + array}
#define LENGTHS(label, array, c, nq, u)                                                                        \
  {.name = "kv_len_" #label, .group = "kv_len", .batch = 4, .heads_q = 2, .heads_kv = 1, .seq_q = nq,       \
   .seq_k = 130, .kv_len = array, .causal = c, R, .seed = 8, .use = u}
#define SEED(s)                                                                                             \
  {.name = "bl18_seed" #s, .group = "bl18_tolerance", .heads_q = 2, .seq_q = 256, R, .seed = s,             \
   .types = ALL_TYPES}

/* None, one, a full tile, all; and numbers outside 0 .. seq_k, which mean 0 and seq_k. */
static const int32_t some_keys[] = {0, 1, 64, 130}, odd_keys[] = {63, 129, 2, 97},
                     wild_keys[] = {-5, 1000, 33, 7};

static const float steep = 1.0f, negative = -0.2f;

const fa_case_t shape_cases[] = {
    SQUARE(1, 1), SQUARE(2, 2), SQUARE(15, 3), SQUARE(16, 4), SQUARE(17, 5), SQUARE(31, 6), SQUARE(33, 7),
    SQUARE(63, 8), SQUARE(64, 9), SQUARE(65, 10), SQUARE(100, 11), SQUARE(127, 12), SQUARE(129, 13),
    SQUARE(176, 14), SQUARE(250, 15), OBLONG(1, 129, 1, 0), OBLONG(129, 1, 2, 0), OBLONG(5, 100, 3, 0),
    OBLONG(100, 5, 4, SHAPE), OBLONG(65, 129, 5, SHAPE | SANITIZED), OBLONG(129, 65, 6, SHAPE),
    OBLONG(64, 250, 7, 0), OBLONG(250, 64, 8, 0), OBLONG(31, 33, 9, 0), OBLONG(129, 463, 10, 0),
    OBLONG(17, 530, 13, 0), OBLONG(9, 280, 14, SHAPE), OBLONG(40, 90, 15, SHAPE), OBLONG(3, 1100, 15, 0),
    OBLONG(7, 5, 11, SHAPE | SMALL), OBLONG(20, 37, 12, SHAPE | SMALL | SANITIZED), HEADS(6, 2, false),
    HEADS(6, 2, true), HEADS(8, 1, true), HEADS(5, 5, true), HEADS(12, 4, false),
    /* few queries: their heads stand one behind another in the rows of one block */
    {.name = "h7_on_1_q5_causal", .group = "heads", .heads_q = 7, .heads_kv = 1, .seq_q = 5, .seq_k = 70, .causal = true, R, .seed = 9},
    /* the next head of a group begins with its second block of queries */
    {.name = "h2_on_1_q68_k260_d32_causal", .group = "heads", .heads_q = 2, .heads_kv = 1, .seq_q = 68, .seq_k = 260, .head_dim = 32, .causal = true, R, .seed = 9, .types = SIXTEEN, .devices = BIT(FA_EMU) | BIT(FA_GPU)},
    ANYWHERE(q, FA_Q), ANYWHERE(k, FA_K), ANYWHERE(v, FA_V), ANYWHERE(o, FA_O), ANYWHERE(do, FA_DO),
    ANYWHERE(dq, FA_DQ), ANYWHERE(dk, FA_DK), ANYWHERE(dv, FA_DV), DIM(1, 1, 0),
    DIM(4, 4, 0), DIM(8, 8, 0), DIM(16, 16, 0), DIM(32, 32, 0), DIM(40, 40, SANITIZED), DIM(63, 63, 0),
    DIM(72, 72, 0), DIM(80, 80, 0), DIM(96, 96, 0), DIM(104, 104, 0), DIM(128, 128, SHAPE),
    DIM(160, 160, 0), DIM(192, 192, 0), DIM(192, 128, 0), DIM(256, 256, 0), DIM(128, 96, 0),
    DIM(64, 80, 0), DIM(24, 7, 0), DIM(7, 24, SHAPE), LAYOUT(FA_BHND), LAYOUT(FA_BNHD), LAYOUT(FA_PADDED),
    LAYOUT(MIXED), LAYOUT(DO_BROADCAST), LENGTHS(some, some_keys, false, 40, 0),
    LENGTHS(some_causal, some_keys, true, 40, SHAPE), LENGTHS(odd, odd_keys, false, 33, SHAPE),
    LENGTHS(odd_causal, odd_keys, true, 70, 0), LENGTHS(wild, wild_keys, false, 9, 0),
    LENGTHS(wild_causal, wild_keys, true, 130, 0), LENGTHS(decode, odd_keys, true, 1, 0),
    {.name = "scale_1", .group = "scales", .seq_q = 70, .scale = &steep, R, .seed = 3},
    {.name = "scale_-0.2_causal", .group = "scales", .seq_q = 70, .scale = &negative, .causal = true, R,
     .seed = 3},
    EMULATED(9, 200, 14, SHAPE), EMULATED(33, 70, 15, SHAPE), EMULATED(2, 1100, 15, 0),
    /* the last block of 256 keys begins with the third tile of queries */
    {.name = "q64_k280_d32_causal", .group = "oblong", .heads_q = 1, .seq_q = 64, .seq_k = 280, .head_dim = 32, .causal = true, R, .seed = 14, .use = SHAPE, .devices = BIT(FA_EMU)},
    SEED(0), SEED(1), SEED(2), SEED(3), SEED(4),
    {.name = "n1500", .group = "long", .heads_q = 2, .seq_q = 1500, R, .seed = 1, .tier = SLOW},
    {.name = "n1500_causal", .group = "long", .heads_q = 4, .heads_kv = 2, .seq_q = 1500, .causal = true,
     R, .seed = 2, .tier = SLOW},
    {.name = "q300_k5000_causal", .group = "long", .heads_q = 2, .seq_q = 300, .seq_k = 5000,
     .head_dim = 128, .causal = true, R, .seed = 3, .tier = SLOW},
    {.name = "n8192_sampled_causal", .group = "long", .heads_q = 1, .seq_q = 8192, .causal = true, R,
     .seed = 4, .use = FORWARD_ONLY, .tier = SLOW},
    {.name = NULL}};
/* clang-format on */
