/* limits.cu - what the device has, for the refusals of stage.c. */
#include "ptx/limits.h"
#include "fa1.h"

extern "C" fa_status_t FA_KERNEL_TABLE(fa1_limits)(int *sm, size_t *shared_bytes, fa_reason_t *why) {
  device_limits_t l;
  fa_status_t status = ask_limits(&l, why);
  if (status) return status;
  *sm = l.sm;
  *shared_bytes = l.shared_bytes;
  return FA_OK;
}
