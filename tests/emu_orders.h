/* emu_orders.h - kernels that show in which order threads and copies were taken. */
#ifndef EMU_ORDERS_H
#define EMU_ORDERS_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Thread t of block b adds to out[b * threads + t] what `everybody_adds` says, having met all of its block. */
fa_status_t run_everybody(int64_t blocks, int threads, uint32_t *out, fa_reason_t *why);
uint32_t everybody_adds(int64_t block, int thread, int threads);
/* out[n]: number of the thread, in the whole grid, that came n-th for a ticket; each comes twice, with a barrier in
 * between. *counter is 0 before. */
fa_status_t run_tickets(int blocks, int threads, uint32_t *counter, uint32_t *out, fa_reason_t *why);
/* Block 0 waits, by asking atomically, until the other has added 1; *out becomes what it then found. */
fa_status_t run_waiting(uint32_t *counter, uint32_t *out, fa_reason_t *why);
/* Each block takes numbers from *counter until there are no more of `tiles`; out[n] becomes the block that took n. */
fa_status_t run_queue(int blocks, int tiles, uint32_t *counter, uint32_t *out, fa_reason_t *why);
/* By cp.async: 32 words to one place, then as a second group to another. out [moment][group][8]: every fourth word, as it
 * is found after the commits, after a barrier, and at the end. If `waits`, the wait comes first; otherwise just before the
 * end, which is a finding. */
enum { MOMENTS = 3, PEEKS = MOMENTS * 2 * 8 };
fa_status_t run_peeking(bool waits, const uint32_t *in, uint32_t *out, fa_reason_t *why);
/* Writes all of that much shared memory, a multiple of 4; out[0] becomes its last word, 7. */
fa_status_t run_filling(int64_t blocks, int threads, size_t shared_bytes, uint32_t *out, fa_reason_t *why);
/* The first writes 64 words in place, the second reads them in reverse: two launches. */
fa_status_t run_two_launches(uint32_t *between, uint32_t *out, fa_reason_t *why);

#ifdef __cplusplus
}
#endif
#endif
