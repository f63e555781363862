// What every microbenchmark shares: the SM's clock, results that the compiler must keep, data for the tensor core.
// Each kernel writes the cycles between two readings of one SM's clock for `count` rounds of what it measures; the host
// takes the difference of two counts, so that whatever happens once cancels.
#pragma once

// "%clock64": cycles of this SM. "%globaltimer": nanoseconds.
DEV u64 now() { u64 t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); return t; }
DEV u64 nanoseconds() { u64 t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) :: "memory"); return t; }
// Uses a value in a way that is never seen and cannot be removed.
DEV void keep(u8* memory, u32 value) { if (value == 0x5a5a5a5bu) *(volatile u32*)memory = value; }
DEV void report(u64* cycles, u64 start) {
  const u64 stop = now();
  if (threadIdx.x == 0) cycles[blockIdx.x] = stop - start;
}
// Bits that look random; the mask keeps floats of 8 and 16 bits below 2, so that sums stay finite.
DEV u32 scrambled(u32 i) {
  u32 x = i * 0x9e3779b9u + 0x7f4a7c15u;
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  x = (x ^ x >> 12) * 0x297a2d39u;
  return (x ^ x >> 15) & 0xbfbfbfbfu;
}
