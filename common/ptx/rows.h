/* rows.h - rows of 16-bit elements in memory, and a warp's fragments of them: what kernels around mma.sync share. */
#ifndef FA_PTX_ROWS_H
#define FA_PTX_ROWS_H

#include "convert.h"
#include "launch.h"

namespace FA_KERNEL_NAMESPACE {

/* Do all rows of a tensor of 16-bit elements begin at multiples of `bytes`? */
static inline bool rows_aligned(const fa_tensor_t *t, int64_t bytes) {
  return ((int64_t)(uintptr_t)t->data | t->stride_batch * 2 | t->stride_head * 2 | t->stride_row * 2) %
             bytes ==
         0;
}

/* Rows of a head rounded up to whole blocks: what a workspace holds in registers' order has no partial blocks. */
FA_HD static inline int64_t whole_rows(int64_t rows, int block) {
  return (rows + block - 1) / block * block;
}

FA_DEVICE int lane_id(void) {
  return threadIdx.x % 32;
}

/* Eight elements of 16 bits, one by one: for rows that begin anywhere. */
template <class T> FA_DEVICE void gather(uint32_t (&piece)[4], const T *from) {
#pragma unroll
  for (int k = 0; k < 4; k++) piece[k] = from[2 * k].bits | (uint32_t)from[2 * k + 1].bits << 16;
}

/* Two neighbouring blocks of a product, 16 x 16, in fp32: as they lie in registers they are an A operand in 16 bit. */
template <class T>
FA_DEVICE void pack_block(uint32_t (&a)[4], const float (&left)[4], const float (&right)[4], T type) {
  a[0] = pack_f32(left[0], left[1], type);
  a[1] = pack_f32(left[2], left[3], type);
  a[2] = pack_f32(right[0], right[1], type);
  a[3] = pack_f32(right[2], right[3], type);
}

} // namespace FA_KERNEL_NAMESPACE
#endif
