/* formulas.c - see formulas.h. All results are double: 4 N^2 d H B passes 2^63 for sizes that are asked for. */
#include "formulas.h"

/* Elements of the tensors, and rows of O (LSE has one fp32 for each). */
static double elements_q(const fa_problem_t *p) {
  return (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->head_dim;
}
static double elements_k(const fa_problem_t *p) {
  return (double)p->batch * (double)p->heads_kv * (double)p->seq_k * (double)p->head_dim;
}
static double elements_v(const fa_problem_t *p) {
  return (double)p->batch * (double)p->heads_kv * (double)p->seq_k * (double)p->head_dim_v;
}
static double elements_o(const fa_problem_t *p) {
  return (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->head_dim_v;
}
static double elements_s(const fa_problem_t *p) {
  return (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_k;
}
static double bytes_lse(const fa_problem_t *p) {
  return 4 * (double)p->batch * (double)p->heads_q * (double)p->seq_q;
}

/* FA2 (2307.08691) section 4.1: 4 N^2 d H B, "divided by 2" if causal; backward has 5 products for the
 * forward's 2, hence 2.5 times. With d_v = d, 2 (d + d_v) is the paper's 4 d. */
double fa_formula_flop(const fa_problem_t *p, fa_pass_t pass) {
  double forward = 2 * elements_s(p) * (double)(p->head_dim + p->head_dim_v) * (p->causal ? 0.5 : 1);
  return pass == FA_FORWARD ? forward : 2.5 * forward;
}

/* Pairs of one head: the last query sees all `keys`, each earlier one a key less, down to 1, over
 * m = min(N_q, keys) queries: keys + (keys-1) + ... + (keys-m+1). Without mask, N_q keys. */
static double pairs(const fa_problem_t *p, int64_t b) {
  int64_t keys = fa_keys(p, b);
  if (!p->causal) return (double)p->seq_q * (double)keys;
  int64_t m = p->seq_q < keys ? p->seq_q : keys;
  return (double)m * ((double)(keys - m + 1) + (double)keys) / 2;
}

/* Forward: Q K^T (2 d) and P V (2 d_v). Backward: Q K^T, dS K and dS^T Q (2 d each), dO V^T and P^T dO
 * (2 d_v each); FA1 (2205.14135) Algorithm 4. */
double fa_exact_flop(const fa_problem_t *p, fa_pass_t pass) {
  double total = 0, d = (double)p->head_dim, dv = (double)p->head_dim_v;
  for (int64_t b = 0; b < p->batch; b++) total += pairs(p, b);
  return total * (double)p->heads_q * (pass == FA_FORWARD ? 2 * d + 2 * dv : 6 * d + 4 * dv);
}

/* FA1 Algorithm 0: (1) read Q, K, write S; (2) read S, write P; (3) read P, V, write O. The softmax also
 * writes LSE here, for the backward pass, which the paper's standard attention does not keep.
 * FA1 Algorithm 3: (1) read P, dO, write dV; (2) read dO, V, write dP; (3) read P, dP, write dS;
 * (4) read dS, K, write dQ; (5) read dS, Q, write dK. It is given P by the forward pass. The mask
 * is not looked at: both algorithms fill the whole N_q x N_k matrices. */
double fa_formula_bytes_standard(const fa_problem_t *p, fa_pass_t pass, size_t score_bytes) {
  double e = (double)fa_dtype_size(p->dtype), out = (double)fa_dtype_size(p->dtype_out);
  double q = e * elements_q(p), k = e * elements_k(p), v = e * elements_v(p), o = out * elements_o(p);
  double s = (double)score_bytes * elements_s(p);
  if (pass == FA_FORWARD) return (q + k + s) + (s + s) + (s + v + o) + bytes_lse(p);
  return (s + o + v) + (o + v + s) + (s + s + s) + (s + k + q) + (s + q + k);
}

double fa_formula_bytes_least(const fa_problem_t *p, fa_pass_t pass) {
  double e = (double)fa_dtype_size(p->dtype), out = (double)fa_dtype_size(p->dtype_out);
  double q = e * elements_q(p), k = e * elements_k(p), v = e * elements_v(p), o = out * elements_o(p);
  if (pass == FA_FORWARD) return q + k + v + o + bytes_lse(p);
  return (q + k + v + o + o + bytes_lse(p)) + (q + k + v); /* O and dO are both read; dQ, dK, dV written */
}

/* FA2 Algorithm 1. Every query head streams its kv head once for each of its ceil(N_q / B_r) blocks; without
 * a mask, which lets blocks beyond the diagonal be skipped. */
double fa_formula_bytes_tiled(const fa_problem_t *p, int64_t block_q) {
  double e = (double)fa_dtype_size(p->dtype), out = (double)fa_dtype_size(p->dtype_out);
  double blocks = (double)((p->seq_q + block_q - 1) / block_q);
  double group = (double)(p->heads_q / p->heads_kv);
  double kv = e * (elements_k(p) + elements_v(p)) * group;
  return e * elements_q(p) + blocks * kv + out * elements_o(p) + bytes_lse(p);
}

/* Of one head: how many queries visit blocks of keys, together, and how many visit one at all. */
static double visits(const fa_problem_t *p, int64_t b, int64_t block_k, double *visitors) {
  int64_t keys = fa_keys(p, b), reach = keys - p->seq_q;
  double sum = 0;
  *visitors = 0;
  for (int64_t j = 0; j < keys; j += block_k) {
    int64_t first = p->causal && j > reach ? j - reach : 0;
    double rows = (double)(p->seq_q - first);
    if (j == 0) *visitors = rows;
    sum += rows;
  }
  return sum;
}

/* FA1 Algorithm 1, lines 6-15, and Algorithm 4. O: d_v numbers, with l and m; dQ: d numbers; 4 bytes each, read
 * and written. The last block writes the result instead, in the output's type. */
double fa_formula_bytes_keys_outer(const fa_problem_t *p, fa_pass_t pass, int64_t block_k, bool as_printed) {
  double e = (double)fa_dtype_size(p->dtype), out = (double)fa_dtype_size(p->dtype_out);
  double d = (double)p->head_dim, dv = (double)p->head_dim_v, rows = (double)p->seq_q, total = 0;
  for (int64_t b = 0; b < p->batch; b++) {
    double visitors, all = visits(p, b, block_k, &visitors), keys = (double)fa_keys(p, b);
    double trips = as_printed ? all : all - visitors;
    if (pass == FA_FORWARD) {
      double head = e * keys * (d + dv) + all * e * d + trips * 2 * (4 * dv + 8) + rows * (out * dv + 4);
      total += head * (double)p->heads_q;
      continue;
    }
    double step = e * d + out * dv + (as_printed ? out * dv + 4 : 8);
    double before = as_printed ? 0 : rows * (2 * out * dv + 4 + 8);
    total += (before + all * step + trips * 2 * 4 * d + rows * e * d) * (double)p->heads_q;
    total += e * (keys + (double)p->seq_k) * (d + dv) * (double)p->heads_kv;
  }
  return total;
}

/* FA1 Theorem 2: Theta(N^2 d^2 / M) for d <= M <= N d. The theorem gives the growth, not the constant; the
 * constant here is 1. Where d_v differs, d^2 is read as d d_v. */
double fa_formula_bytes_fa1(const fa_problem_t *p, double sram_elements) {
  double d2 = (double)p->head_dim * (double)p->head_dim_v;
  return (double)fa_dtype_size(p->dtype) * elements_s(p) * d2 / sram_elements;
}
