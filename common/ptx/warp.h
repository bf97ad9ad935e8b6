/* warp.h - exchange of registers between the 32 lanes of a warp, and votes. All lanes take part. */
#ifndef FA_PTX_WARP_H
#define FA_PTX_WARP_H

#include "../dtype.h"
#include "launch.h"

/* shfl.sync.bfly.b32 (PTX ISA, Data Movement and Conversion: shfl.sync): the value of lane (own ^ mask).
 * 0x1f: all five bits of the lane number take part; -1: all lanes are there. */
FA_DEVICE float shfl_xor_f32(float x, int mask FA_PLACE) {
#ifdef __CUDACC__
  uint32_t bits = __float_as_uint(x), other;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, -1;" : "=r"(other) : "r"(bits), "r"(mask));
  return __uint_as_float(other);
#else
  return fa_bits_float(fa_emu_shuffle(fa_float_bits(x), mask, EMU_SHUFFLE_XOR, here));
#endif
}

/* shfl.sync.idx.b32: the value of lane `lane`. */
FA_DEVICE float shfl_f32(float x, int lane FA_PLACE) {
#ifdef __CUDACC__
  uint32_t bits = __float_as_uint(x), other;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, -1;" : "=r"(other) : "r"(bits), "r"(lane));
  return __uint_as_float(other);
#else
  return fa_bits_float(fa_emu_shuffle(fa_float_bits(x), lane, EMU_SHUFFLE_INDEX, here));
#endif
}

/* vote.sync.ballot.b32 (PTX ISA, Parallel Synchronization and Communication: vote.sync): bit l is what lane l says; all
 * lanes get the same word. Like a shuffle it orders no accesses to memory. */
FA_DEVICE uint32_t vote_ballot(bool x FA_PLACE) {
#ifdef __CUDACC__
  uint32_t votes;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, -1;\n\t}"
               : "=r"(votes)
               : "r"((uint32_t)x));
  return votes;
#else
  return fa_emu_ballot(x, here);
#endif
}

#endif
