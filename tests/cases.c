/* cases.c - the two tables and the input distributions become one list of instances. */
#include "cases.h"
#include "input.h"
#include "runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const type_pair_t type_pairs[TYPE_PAIRS] = {
    [IN_FP32] = {"fp32", FA_FP32, FA_FP32, 1e-5},
    [IN_FP16] = {"fp16", FA_FP16, FA_FP16, 2e-3},
    [IN_BF16] = {"bf16", FA_BF16, FA_BF16, 1e-2},
    [IN_E4M3] = {"e4m3", FA_E4M3, FA_BF16, 5e-2},
    [IN_FP16_OUT_FP32] = {"fp16_fp32", FA_FP16, FA_FP32, 2e-3},
    [IN_BF16_OUT_FP32] = {"bf16_fp32", FA_BF16, FA_FP32, 1e-2},
};

fa_problem_t instance_problem(const instance_t *i) {
  const fa_case_t *c = i->row;
  fa_problem_t p = {.batch = c->batch ? c->batch : 1,
                    .heads_q = c->heads_q ? c->heads_q : 1,
                    .seq_q = c->seq_q,
                    .seq_k = c->seq_k ? c->seq_k : c->seq_q,
                    .head_dim = c->head_dim ? c->head_dim : 64,
                    .dtype = type_pairs[i->pair].in,
                    .dtype_out = type_pairs[i->pair].out,
                    .causal = c->causal,
                    .kv_len = c->kv_len};
  p.heads_kv = c->heads_kv ? c->heads_kv : p.heads_q;
  p.head_dim_v = c->head_dim_v ? c->head_dim_v : p.head_dim;
  p.scale = c->scale ? *c->scale : fa_default_scale(p.head_dim);
  return p;
}

float plain_d_o(int64_t b, int64_t h, int64_t r, int64_t c) {
  return (float)((b + 7 * h + 3 * r + 5 * c) % 7 - 3) / 4;
}

static instance_t *list;
static int listed, room;

static void *grown(void *p, size_t bytes) {
  p = realloc(p, bytes);
  if (!p) {
    fprintf(stderr, "not enough memory for the table of cases\n");
    exit(2);
  }
  return p;
}

static void add_row(const fa_case_t *row) {
  bool slow = row->tier == SLOW || row->tier == SLOW_ON_CARD;
  if (slow && !env_set("FA_SLOW")) return;
  if (env_set("FA_SAN") && !(row->use & SANITIZED)) return;
  unsigned types = row->types ? row->types : USUAL;
  for (int pair = 0; pair < TYPE_PAIRS; pair++)
    if (types & BIT(pair)) {
      if (listed == room) list = grown(list, sizeof *list * (size_t)(room = 2 * room + 64));
      instance_t *i = &list[listed++];
      i->row = row;
      i->pair = pair;
      snprintf(i->name, sizeof i->name, "%s %s", row->name, type_pairs[pair].name);
    }
}

/* Two shapes in every input distribution that exists. */
static void add_distributions(void) {
  int count = 0;
  while (fa_dists[count].name) count++;
  fa_case_t *rows = grown(NULL, sizeof *rows * (size_t)(2 * count));
  for (int n = 0; n < 2 * count; n++) {
    const char *dist = fa_dists[n / 2].name;
    char *name = grown(NULL, strlen(dist) + sizeof "_causal");
    sprintf(name, "%s%s", dist, n % 2 ? "_causal" : "");
    rows[n] =
        (fa_case_t){.name = name, .group = "distributions", .dist = dist, .seed = 11, .types = ALL_TYPES};
    rows[n].heads_q = 2;
    rows[n].seq_q = n % 2 ? 97 : 70;
    rows[n].seq_k = n % 2 ? 130 : 150;
    rows[n].causal = n % 2;
    add_row(&rows[n]);
  }
}

const instance_t *all_instances(int *count) {
  if (!list) {
    for (const fa_case_t *row = value_cases; row->name; row++) add_row(row);
    for (const fa_case_t *row = shape_cases; row->name; row++) add_row(row);
    add_distributions();
  }
  *count = listed;
  return list;
}
