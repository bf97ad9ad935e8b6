/* device.c - the devices of this build. */
#include "device.h"

#if !FA_HAVE_GPU
static fa_status_t no_gpu(char name[128], fa_reason_t *why) {
  (void)name;
  return fa_say(why, FA_REFUSED, "this build has no GPU code: nvcc was not on PATH when it was made");
}
#endif

const fa_machine_t *fa_machine(fa_device_t kind) {
  if (kind == FA_CPU) return &fa_machine_cpu;
  if (kind == FA_EMU) return &fa_machine_emu;
#if FA_HAVE_GPU
  return &fa_machine_gpu;
#else
  static const fa_machine_t absent_gpu = {.kind = FA_GPU, .open = no_gpu};
  return &absent_gpu;
#endif
}
