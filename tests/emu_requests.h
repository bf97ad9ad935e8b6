/* emu_requests.h - one warp's accesses whose sectors and passes can be counted by hand. For the emulator only. */
#ifndef EMU_REQUESTS_H
#define EMU_REQUESTS_H

#include "device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REQUEST_WORDS = 4096 };

/* Lane t writes word t * stride of global memory. */
fa_status_t run_global_words(int stride, uint32_t *x, fa_reason_t *why);
/* Lane t writes word t * stride of shared memory, or `wide` 16 bytes at word 4 * t * stride. */
fa_status_t run_shared_words(int stride, bool wide, fa_reason_t *why);
/* A copy by cp.async, and on the next line a store of 16 bytes to shared memory. */
fa_status_t run_two_lines(const uint32_t *x, fa_reason_t *why);
/* Each lane adds to its own word. */
fa_status_t run_additions(uint32_t *x, fa_reason_t *why);
/* Half of the lanes write a word, and then the launch is given up. */
fa_status_t run_given_up(uint32_t *x, fa_reason_t *why);

#ifdef __cplusplus
}
#endif
#endif
