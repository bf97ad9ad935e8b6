/* tensorcore.h - step `tensorcore`: what its files and their launchers share on the host's side. */
#ifndef FA1_TENSORCORE_H
#define FA1_TENSORCORE_H

#include "config.h"
#include "ptx/limits.h"
#include "ptx/rows.h"

namespace FA_KERNEL_NAMESPACE {

/* Bc = 0: the largest block of keys for which shared memory is made (config.h). */
fa_status_t tensorcore_forward(const fa_problem_t *p, int Bc, fa_reason_t *why);
fa_status_t tensorcore_backward(const fa_problem_t *p, int Bc, fa_reason_t *why);

size_t tensorcore_workspace(const fa_problem_t *p, fa_pass_t pass);
size_t backward_workspace(const fa_problem_t *p);

} // namespace FA_KERNEL_NAMESPACE
#endif
