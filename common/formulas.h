/* formulas.h - the papers' FLOP and IO formulas. Unit-tested against values worked out by hand. */
#ifndef FA_FORMULAS_H
#define FA_FORMULAS_H

#include "stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* FLOP by the convention of all charts (FA2 section 4.1): forward 2 N_q N_k (d + d_v) H B, half of that if
 * causal, backward 2.5 times the forward. kv_len is not looked at. */
double fa_formula_flop(const fa_problem_t *p, fa_pass_t pass);

/* FLOP of the two (backward: five) products over only those (query, key) pairs that the mask lets
 * through: what a kernel without any waste would do. Needs kv_len readable on the host. */
double fa_exact_flop(const fa_problem_t *p, fa_pass_t pass);

/* Bytes that standard attention moves to and from HBM (FA1, Algorithm 0): Theta(Nd + N^2). Exactly, for
 * the three kernels S = QK^T, P = softmax(S), O = PV: each reads its inputs once and writes its output
 * once; S and P hold `score_bytes` per element. Backward: Algorithm 3 of the same paper (read P, dO;
 * write dV; read dO, V; write dP; read P, dP; write dS; read dS, K; write dQ; read dS, Q; write dK). */
double fa_formula_bytes_standard(const fa_problem_t *p, fa_pass_t pass, size_t score_bytes);

/* The least that any exact algorithm must move: each input read once, each output written once. */
double fa_formula_bytes_least(const fa_problem_t *p, fa_pass_t pass);

/* Bytes of a tiled forward whose outer loop runs over blocks of block_q queries and whose inner loop
 * streams K and V (FA2's order): Q, O, LSE once, K and V once per query block and query head. */
double fa_formula_bytes_tiled(const fa_problem_t *p, int64_t block_q);

/* Bytes of FA1's order (Algorithms 1 and 4): the outer loop runs over blocks of block_k keys, which are read
 * once for each head, the inner loop over all queries that see them. At each step Q (backward: Q and dO) is
 * read, and O, l, m (backward: dQ), in fp32, come from HBM and go back.
 * as_printed: also before the first block, where they are known to be 0, and backward reads O at each step to
 * compute D; otherwise a kernel before it reads O and dO once, and leaves LSE and D for each row. */
double fa_formula_bytes_keys_outer(const fa_problem_t *p, fa_pass_t pass, int64_t block_k, bool as_printed);

/* FA1 Theorem 2: N^2 d^2 / M elements for an SRAM of M elements, times the element size. */
double fa_formula_bytes_fa1(const fa_problem_t *p, double sram_elements);

#ifdef __cplusplus
}
#endif
#endif
