/* input.c - seeded inputs: a hash of (seed, tensor, batch, head, row, column), shaped by a distribution.
 *
 * There is no state that runs along, so neither the order of filling, nor the number of threads, nor the
 * layout, nor the size of the other dimensions changes an element. */
#include "input.h"
#include "dtype.h"

#include <math.h>
#include <string.h>

/* The finaliser of SplitMix64: every input bit changes about half of the output bits. */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* The seed is mixed first: otherwise seed + 1 would give seed's numbers shifted by one place. */
uint64_t fa_random_bits(uint64_t seed, uint64_t index) {
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + (index + 1) * 0x9e3779b97f4a7c15u);
}

/* 53 random bits as a number in (0, 1]: the logarithm below never sees 0. */
static double unit(uint64_t bits) {
  return (double)((bits >> 11) + 1) * 0x1p-53;
}

/* Box-Muller. */
double fa_random_normal(uint64_t seed, uint64_t index) {
  double radius = sqrt(-2 * log(unit(fa_random_bits(seed, 2 * index))));
  return radius * cos(6.283185307179586 * unit(fa_random_bits(seed, 2 * index + 1)));
}

/* An element of tensor `array` in row `row` and column `col`; `key` stands for seed, tensor and row. */
typedef double element_t(int array, uint64_t key, int64_t row, int64_t col);

/* A mean other than 0 lets an error in the denominator or in the mask show: around mean 0, rows of O are
 * near 0 whatever the weights are. */
static double normal(int array, uint64_t key, int64_t row, int64_t col) {
  (void)array, (void)row;
  return 0.25 + fa_random_normal(key, (uint64_t)col);
}

/* FA3 (2407.08608), numerical error validation: N(0,1) + N(0,100) * Bernoulli(0.001). */
static double outliers(int array, uint64_t key, int64_t row, int64_t col) {
  (void)array, (void)row;
  uint64_t other = mix(key ^ 0x6f75746c69657273u);
  double x = fa_random_normal(key, (uint64_t)col);
  if (unit(fa_random_bits(other, 2 * (uint64_t)col)) <= 0.001)
    x += 10 * fa_random_normal(other, 2 * (uint64_t)col + 1);
  return x;
}

/* q . k of independent N(0, 12^2) components has standard deviation 144 sqrt(d), and 144 after the usual
 * scale: among thousands of logits some reach +-500, where exp overflows unless the maximum is taken off. */
static double large(int array, uint64_t key, int64_t row, int64_t col) {
  (void)row;
  double x = fa_random_normal(key, (uint64_t)col);
  return array == FA_Q || array == FA_K ? 12 * x : 0.25 + x;
}

static double tiny(int array, uint64_t key, int64_t row, int64_t col) {
  return 0.01 * normal(array, key, row, col);
}

static double uniform(int array, uint64_t key, int64_t row, int64_t col) {
  (void)array, (void)row;
  return 1.5 * unit(fa_random_bits(key, (uint64_t)col)) - 0.5;
}

static double ones(int array, uint64_t key, int64_t row, int64_t col) {
  return array == FA_V ? 1 : normal(array, key, row, col);
}

/* All logits are 0, so O is the mean of the visible j mod 64: wrong bounds shift it by a known amount. */
static double ramp(int array, uint64_t key, int64_t row, int64_t col) {
  return array == FA_Q ? 0 : array == FA_V ? (double)(row % 64) : normal(array, key, row, col);
}

const fa_dist_t fa_dists[] = {
    {"normal", "mean 0.25, standard deviation 1"},
    {"outliers", "N(0,1), and with probability 0.001 plus N(0, variance 100), as in the FA3 paper"},
    {"large", "Q and K with standard deviation 12: scaled logits of several hundred"},
    {"tiny", "values near 0.01: nearly equal logits"},
    {"uniform", "between -0.5 and 1"},
    {"ones", "V = 1, so that O must be 1"},
    {"ramp", "Q = 0 and v_j = j mod 64, so that O is the mean of what a query sees"},
    {NULL, NULL}};
static element_t *const elements[] = {normal, outliers, large, tiny, uniform, ones, ramp};

static void fill_array(fa_tensors_t *t, int array, element_t *element, uint64_t seed) {
  const fa_problem_t *p = &t->host;
  const fa_tensor_t *tensor = fa_array_tensor(&t->host, array);
  fa_dtype_t dtype = fa_array_dtype(p, array);
  int64_t size[4];
  fa_array_size(p, array, size);
  uint64_t array_key = fa_random_bits(seed, (uint64_t)array);
#pragma omp parallel for collapse(3) schedule(static)
  for (int64_t b = 0; b < size[0]; b++)
    for (int64_t h = 0; h < size[1]; h++)
      for (int64_t r = 0; r < size[2]; r++) {
        uint64_t head_key = fa_random_bits(fa_random_bits(array_key, (uint64_t)b), (uint64_t)h);
        uint64_t key = fa_random_bits(head_key, (uint64_t)r);
        bool exists = (array != FA_K && array != FA_V) || r < fa_keys(p, b);
        int64_t at = fa_row(tensor, b, h, r);
        /* What lies beyond kv_len may hold anything and must not leak: NaN shows if it does. */
        for (int64_t c = 0; c < size[3]; c++)
          fa_store(dtype, tensor->data, at + c, exists ? (float)element(array, key, r, c) : NAN);
      }
}

fa_status_t fa_fill(fa_tensors_t *t, const char *dist, uint64_t seed, fa_reason_t *why) {
  int d = 0;
  while (fa_dists[d].name && strcmp(fa_dists[d].name, dist)) d++;
  if (!fa_dists[d].name) return fa_say(why, FA_INVALID, "there is no distribution %.40s", dist);
  static const int inputs[] = {FA_Q, FA_K, FA_V, FA_DO};
  for (int i = 0; i < 4; i++)
    if (inputs[i] != FA_DO || t->backward) fill_array(t, inputs[i], elements[d], seed);
  return FA_OK;
}
