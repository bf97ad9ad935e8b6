/* cases.h - the shared table of cases: what every step of every stage is run on.
 *
 * A row says a shape, how memory is laid out, what the inputs are, and, where it was worked out by hand,
 * what must come out. Rows whose name starts with bl are failures that users of other attention kernels
 * reported. One row is run in every type it lists: an instance is a row in one type. */
#ifndef CASES_H
#define CASES_H

#include "tensors.h"

/* A type of the inputs together with one of the outputs; a bit each in fa_case.types. */
enum { IN_FP32, IN_FP16, IN_BF16, IN_E4M3, IN_FP16_OUT_FP32, IN_BF16_OUT_FP32, TYPE_PAIRS };
#define BIT(x) (1u << (x))
#define FP32 BIT(IN_FP32)
#define FP16 BIT(IN_FP16)
#define BF16 BIT(IN_BF16)
#define E4M3 BIT(IN_E4M3)
#define SIXTEEN (FP16 | BF16)
#define USUAL (FP32 | SIXTEEN)
#define ALL_TYPES (BIT(TYPE_PAIRS) - 1)

typedef struct type_pair {
  const char *name;
  fa_dtype_t in, out;
  double tolerance; /* relative to max(1, |expected|), where a value was worked out by hand */
} type_pair_t;
extern const type_pair_t type_pairs[TYPE_PAIRS];

typedef enum tier {
  QUICK,   /* always */
  SLOW,    /* with SLOW=1 */
  ON_CARD, /* on a GPU only */
  SLOW_ON_CARD
} tier_t;

/* Memory layouts beside those of tensors.h, made by giving packed arrays other strides. */
enum {
  MIXED = FA_PADDED + 1, /* every second tensor is [batch][rows][heads][dim], dO the other way than O */
  DO_BROADCAST,          /* dO has stride 0 everywhere: one row stands for all */
  MOVED /* + an array's number: packed, but this one begins at no multiple of anything but an element's size */
};

/* What else a row is used for, besides being compared with the oracle. */
enum {
  FORWARD_ONLY = 1, /* says nothing new about the backward pass, or is too large for it */
  SHAPE = 2,        /* a good shape for properties that bring their own inputs */
  SMALL = 4,        /* SHAPE, and small enough to be run many times */
  SANITIZED = 8,    /* among the few for slow checkers */
  ALL_BY_HAND = 16  /* `expect` knows every output, gradients too: the oracle need not be asked */
};

typedef struct fa_case {
  const char *name, *group;         /* group: what is run in one process */
  int64_t batch, heads_q, heads_kv; /* 0: 1; heads_kv 0: heads_q */
  int64_t seq_q, seq_k;             /* seq_k 0: seq_q */
  int64_t head_dim, head_dim_v;     /* 0: 64; head_dim_v 0: head_dim */
  bool causal;
  const float *scale;    /* NULL: 1/sqrt(head_dim) */
  const int32_t *kv_len; /* NULL, or [batch] */
  int layout;            /* fa_layout_t, MIXED or DO_BROADCAST */
  unsigned types;        /* 0: USUAL */
  unsigned exact;        /* types that hold every input exactly; 0: all. LSE is checked by hand in these */
  const char *dist;      /* inputs from fa_fill with this seed, or ... */
  uint64_t seed;
  float (*element)(const fa_problem_t *p, int array, int64_t b, int64_t h, int64_t r, int64_t c);
  /* What O, LSE or a gradient must be there; NaN where nothing is said. NULL: only the oracle knows. */
  double (*expect)(const fa_problem_t *p, int array, int64_t b, int64_t h, int64_t r, int64_t c);
  double lse_tolerance; /* absolute; 0: the usual */
  unsigned use;         /* FORWARD_ONLY, SHAPE, SMALL, SANITIZED */
  unsigned devices;     /* bits of fa_device_t; 0: all */
  tier_t tier;
} fa_case_t;

typedef struct instance {
  const fa_case_t *row;
  int pair;      /* index into type_pairs */
  char name[48]; /* "n65_causal fp16" */
} instance_t;

/* All instances, filtered by FA_SLOW and FA_SAN; the array lives as long as the program. */
const instance_t *all_instances(int *count);

/* The instance's problem, without pointers. */
fa_problem_t instance_problem(const instance_t *i);

/* cases_values.c: the rows whose result was worked out by hand, ended by name NULL. */
extern const fa_case_t value_cases[];
/* cases_shapes.c: the rows that only the oracle judges, ended by name NULL. */
extern const fa_case_t shape_cases[];
/* dO of rows that do not say it: small multiples of 1/4, exact in every type. */
float plain_d_o(int64_t b, int64_t h, int64_t r, int64_t c);

#endif
