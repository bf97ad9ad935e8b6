/* options.c - one table says every option's name, argument, meaning and place; parser and --help read it. */
#include "options.h"
#include "input.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum kind { FLAG, SIZE, SEED, SCALE, TEXT, DTYPE, DEVICE, DIST, LOAD } kind_t;

typedef struct option {
  const char *name, *argument, *what;
  kind_t kind;
  size_t place;
  int64_t least, most; /* of a SIZE */
  int programs;
} option_t;

#define AT(field) offsetof(fa_options_t, field)
enum { STAGE = FA_PROGRAM_STAGE, BOTH = FA_PROGRAM_STAGE | FA_PROGRAM_DEMO };

/* The bounds of fa_problem_check, which knows no options' names: heads and head sizes alone, and the elements of
 * a tensor. */
#define MOST_HEADS_AND_DIM INT32_MAX
#define MOST_ELEMENTS ((int64_t)1 << 60)

/* An entry without a place is the title of a group. */
static const option_t options[] = {
    {"Shape", NULL, NULL, FLAG, 0, 0, 0, BOTH},
    {"batch", "N", "sequences (1)", SIZE, AT(batch), 0, MOST_ELEMENTS, BOTH},
    {"heads", "N", "query heads (4)", SIZE, AT(heads), 1, MOST_HEADS_AND_DIM, BOTH},
    {"heads-kv", "N", "key and value heads; must divide the query heads (as many)", SIZE, AT(heads_kv), 1,
     MOST_HEADS_AND_DIM, STAGE},
    {"seq", "N", "both lengths (256)", SIZE, AT(seq), 0, MOST_ELEMENTS, BOTH},
    {"seq-q", "N", "queries per head (as many as keys)", SIZE, AT(seq_q), 0, MOST_ELEMENTS, STAGE},
    {"seq-k", "N", "keys per head (as many as queries)", SIZE, AT(seq_k), 0, MOST_ELEMENTS, STAGE},
    {"head-dim", "N", "components of a query and a key (64)", SIZE, AT(head_dim), 1, MOST_HEADS_AND_DIM,
     BOTH},
    {"head-dim-v", "N", "components of a value (as head-dim)", SIZE, AT(head_dim_v), 1, MOST_HEADS_AND_DIM,
     STAGE},
    {"kv-len", "N[,N...]", "valid keys: one number for all sequences, or one for each", TEXT, AT(kv_len), 0,
     0, STAGE},

    {"Problem and input", NULL, NULL, FLAG, 0, 0, 0, STAGE},
    {"dtype", "TYPE", "of Q, K, V: fp32, fp16, bf16 or e4m3 (the first that the step has)", DTYPE, AT(dtype),
     0, 0, STAGE},
    {"dtype-out", "TYPE", "of O: fp32, fp16 or bf16 (as dtype; bf16 for e4m3)", DTYPE, AT(dtype_out), 0, 0,
     STAGE},
    {"causal", NULL, "query i sees keys up to i + (keys - queries)", FLAG, AT(causal), 0, 0, STAGE},
    {"scale", "X", "multiplies Q K^T; any finite number (1/sqrt(head-dim))", SCALE, AT(scale), 0, 0, STAGE},
    {"backward", NULL, "gradients too", FLAG, AT(backward), 0, 0, STAGE},
    {"seed", "N", "of the random input (1)", SEED, AT(seed), 0, 0, STAGE},
    {"dist", "NAME", "distribution of the input, see below (normal)", DIST, AT(dist), 0, 0, STAGE},
    {"load", "FILES", "q.npy k.npy v.npy [do.npy], float16/32/64 [batch][heads][seq][dim]; set the shape",
     LOAD, AT(load), 0, 0, STAGE},

    {"What runs, and where", NULL, NULL, FLAG, 0, 0, 0, STAGE},
    {"step", "NAME", "a step of this stage (the last main one that fits)", TEXT, AT(step), 0, 0, STAGE},
    {"list", NULL, "the steps, and what each supports", FLAG, AT(list), 0, 0, STAGE},
    {"deterministic", NULL, "ask for bit-equal results from run to run", FLAG, AT(deterministic), 0, 0,
     STAGE},
    {"splits", "N", "key splits for decoding; 0: the stage chooses (0)", SIZE, AT(splits), 0, 65536, STAGE},
    {"device", "NAME", "auto, gpu, cpu or emu (auto: the first of these that can)", DEVICE, AT(device), 0, 0,
     STAGE},
    {"threads", "N", "CPU threads (all)", SIZE, AT(threads), 1, 4096, BOTH},

    {"What is done; may be combined", NULL, NULL, FLAG, 0, 0, 0, STAGE},
    {"check", NULL, "compare with the oracle (the default)", FLAG, AT(check), 0, 0, STAGE},
    {"bench", NULL, "time it, after a check", FLAG, AT(bench), 0, 0, STAGE},
    {"count", NULL, "bytes and operations counted in one run, beside the papers' formulas", FLAG, AT(count),
     0, 0, STAGE},
    {"model", NULL, "predict the time from counts (comes with a later stage)", FLAG, AT(model), 0, 0, STAGE},

    {"Output", NULL, NULL, FLAG, 0, 0, 0, BOTH},
    {"save", "DIR", "write o.npy, lse.npy and, with --backward, dq.npy, dk.npy, dv.npy", TEXT, AT(save), 0, 0,
     STAGE},
    {"csv", "FILE", "a line of values under a line of names; - is standard output", TEXT, AT(csv), 0, 0,
     STAGE},
    {"json", "FILE", "the same as one JSON object; - is standard output", TEXT, AT(json), 0, 0, STAGE},
    {"quick", NULL, "a quarter of the length: a ladder in seconds", FLAG, AT(quick), 0, 0, FA_PROGRAM_DEMO},
    {"quiet", NULL, "only the last line", FLAG, AT(quiet), 0, 0, STAGE},
    {"help", NULL, "this text", FLAG, AT(help), 0, 0, BOTH},
    {"version", NULL, "name and version", FLAG, AT(version), 0, 0, BOTH},
};
enum { COUNT = sizeof options / sizeof *options };

static const option_t *find(const char *name, size_t length, fa_program_t program) {
  for (const option_t *x = options; x < options + COUNT; x++)
    if (x->what && x->programs & (int)program && strlen(x->name) == length && !strncmp(x->name, name, length))
      return x;
  return NULL;
}

/* Decimal digits and nothing else. */
static bool parse_digits(const char *s, uint64_t *value) {
  if (!*s) return false;
  for (*value = 0; *s; s++) {
    if (*s < '0' || *s > '9') return false;
    uint64_t digit = (uint64_t)(*s - '0');
    if (*value > (UINT64_MAX - digit) / 10) return false;
    *value = *value * 10 + digit;
  }
  return true;
}

static fa_status_t parse_size(const option_t *x, const char *s, int64_t *value, fa_reason_t *why) {
  uint64_t n;
  if (!parse_digits(s, &n))
    return fa_say(why, FA_INVALID, "--%s takes a whole number from %lld; \"%.40s\" is not one", x->name,
                  (long long)x->least, s);
  if (n < (uint64_t)x->least)
    return fa_say(why, FA_INVALID, "--%s is %.20s; it must be at least %lld", x->name, s,
                  (long long)x->least);
  if (n > (uint64_t)x->most)
    return fa_say(why, FA_INVALID, "--%s is %.30s; it must be at most %lld", x->name, s, (long long)x->most);
  *value = (int64_t)n;
  return FA_OK;
}

static fa_status_t parse_scale(fa_options_t *o, const char *s, fa_reason_t *why) {
  char *end;
  errno = 0;
  o->scale = strtof(s, &end);
  bool vanished = errno == ERANGE && o->scale == 0;
  o->has_scale = true;
  bool number = end != s && !*end && !strchr(" \t\n\v\f\r", s[0]);
  if (!number || !isfinite(o->scale))
    return fa_say(why, FA_INVALID, "--scale takes a finite number such as 0.125; \"%.40s\" is not one", s);
  if (vanished)
    return fa_say(why, FA_INVALID, "--scale %.40s is too small: it would become 0; --scale 0 says that", s);
  return FA_OK;
}

static fa_status_t parse_dtype(const option_t *x, const char *s, int *value, fa_reason_t *why) {
  bool output = x->place == AT(dtype_out);
  for (int t = 0; t < FA_DTYPES; t++)
    if (!strcmp(s, fa_dtype_name((fa_dtype_t)t)) && !(output && t == FA_E4M3)) {
      *value = t;
      return FA_OK;
    }
  return fa_say(why, FA_INVALID, "--%s takes fp32, fp16%s; \"%.40s\" is none of them", x->name,
                output ? " or bf16" : ", bf16 or e4m3", s);
}

static fa_status_t parse_device(const char *s, int *value, fa_reason_t *why) {
  *value = FA_UNSET;
  if (!strcmp(s, "auto")) return FA_OK;
  for (int d = 0; d < FA_DEVICES; d++)
    if (!strcmp(s, fa_device_name((fa_device_t)d))) *value = d;
  if (*value != FA_UNSET) return FA_OK;
  return fa_say(why, FA_INVALID, "--device takes auto, gpu, cpu or emu; \"%.40s\" is none of them", s);
}

static fa_status_t parse_dist(const char *s, const char **value, fa_reason_t *why) {
  size_t n = 0;
  char names[160] = "";
  for (const fa_dist_t *d = fa_dists; d->name; d++) {
    if (!strcmp(s, d->name)) {
      *value = d->name;
      return FA_OK;
    }
    n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", d->name);
  }
  return fa_say(why, FA_INVALID, "--dist takes one of %s; \"%.40s\" is none of them", names, s);
}

static fa_status_t parse_value(fa_options_t *o, const option_t *x, const char *s, fa_reason_t *why) {
  char *place = (char *)o + x->place;
  switch (x->kind) {
  case SIZE: return parse_size(x, s, (int64_t *)(void *)place, why);
  case SCALE: return parse_scale(o, s, why);
  case DTYPE: return parse_dtype(x, s, (int *)(void *)place, why);
  case DEVICE: return parse_device(s, &o->device, why);
  case DIST: return parse_dist(s, &o->dist, why);
  case SEED:
    o->has_seed = true;
    if (parse_digits(s, &o->seed)) return FA_OK;
    return fa_say(why, FA_INVALID, "--seed takes a whole number below 2^64; \"%.40s\" is not one", s);
  default:
    if (!*s) return fa_say(why, FA_INVALID, "--%s needs a value that is not empty", x->name);
    *(const char **)(void *)place = s;
    return FA_OK;
  }
}

/* The file names that follow --load, up to the next option. Returns how many arguments were used. */
static int take_files(fa_options_t *o, int argc, char **argv) {
  int n = 0;
  memset(o->load, 0, sizeof o->load);
  while (n < argc && strncmp(argv[n], "--", 2)) {
    if (n < 4) o->load[n] = argv[n];
    n++;
  }
  return n;
}

static fa_status_t parse_option(fa_options_t *o, fa_program_t program, int argc, char **argv, int *at,
                                fa_reason_t *why) {
  const char *arg = argv[(*at)++];
  if (!strcmp(arg, "-h")) arg = "--help";
  if (strncmp(arg, "--", 2))
    return fa_say(why, FA_INVALID, "\"%.60s\" is not an option; --help lists them", arg);
  const char *equals = strchr(arg, '=');
  size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
  const option_t *x = find(arg + 2, length - 2, program);
  if (!x)
    return fa_say(why, FA_INVALID, "there is no option %.*s; --help lists them",
                  length < 60 ? (int)length : 60, arg);
  if (x->kind == FLAG) {
    *((bool *)(void *)((char *)o + x->place)) = true;
    return equals ? fa_say(why, FA_INVALID, "--%s takes no value", x->name) : FA_OK;
  }
  if (x->kind == LOAD) {
    int n = equals ? 0 : take_files(o, argc - *at, argv + *at);
    *at += n;
    if (n == 3 || n == 4) return FA_OK;
    return fa_say(why, FA_INVALID,
                  "--load takes 3 or 4 files, q.npy k.npy v.npy [do.npy], after a space; got %d", n);
  }
  if (equals) return parse_value(o, x, equals + 1, why);
  if (*at == argc || !strncmp(argv[*at], "--", 2))
    return fa_say(why, FA_INVALID, "--%s needs a value: --%s %s", x->name, x->name, x->argument);
  return parse_value(o, x, argv[(*at)++], why);
}

fa_status_t fa_options_parse(fa_options_t *o, fa_program_t program, int argc, char **argv, fa_reason_t *why) {
  memset(o, 0, sizeof *o);
  o->batch = o->heads = o->heads_kv = o->seq = o->seq_q = o->seq_k = o->head_dim = o->head_dim_v = FA_UNSET;
  o->dtype = o->dtype_out = o->device = FA_UNSET;
  o->seed = 1;
  fa_status_t status = FA_OK;
  for (int at = 1; at < argc && !status;) status = parse_option(o, program, argc, argv, &at, why);
  if (status || o->help || o->version) return status;
  if (o->load[3] && !o->backward)
    return fa_say(why, FA_INVALID, "the fourth file of --load, do.npy, goes with --backward: add it");
  if (o->load[0] && (o->dist || o->has_seed) && (o->load[3] || !o->backward))
    return fa_say(why, FA_INVALID, "--%s is of random input, and --load gives all of it: leave one out",
                  o->dist ? "dist" : "seed");
  if (!o->dist) o->dist = fa_dists[0].name;
  if (o->csv && o->json && !strcmp(o->csv, o->json))
    return fa_say(why, FA_INVALID, "--csv and --json cannot both go to %.60s: give one another file",
                  strcmp(o->csv, "-") ? o->csv : "standard output");
  if (!o->bench && !o->count && !o->model) o->check = true;
  return FA_OK;
}

bool fa_options_shape_given(const fa_options_t *o) {
  const int64_t sizes[] = {o->batch, o->heads, o->heads_kv, o->seq,
                           o->seq_q, o->seq_k, o->head_dim, o->head_dim_v};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i] != FA_UNSET) return true;
  return o->load[0] || o->kv_len;
}

void fa_options_print(FILE *out, fa_program_t program) {
  for (const option_t *x = options; x < options + COUNT; x++) {
    if (!(x->programs & (int)program)) continue;
    if (!x->what)
      fprintf(out, "\n%s\n", x->name);
    else
      fprintf(out, "  --%-13s %-9s %s\n", x->name, x->argument ? x->argument : "", x->what);
  }
}
