// The warp group's matrix multiply: groups, operand descriptors. The multiplies themselves are printed per shape
// (twill/codegen/print/cuda/wgmma.py). Comments cite the PTX ISA by the title of the section.
#pragma once

// "wgmma.fence": orders this warp group's register accesses before its next wgmma.
DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// "wgmma.commit_group": the multiplies since the last commit become one group.
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// "wgmma.wait_group": at most N groups unfinished.
template <int N> DEV void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }
// Ties registers to this point of the program: the compiler moves no use of them across.
template <int N> DEV void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
}
template <int N> DEV void pin(u32 (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+r"(d[i]) :: "memory");
}

// "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix Descriptor Format": bits 0-13 address, 16-29
// leading byte offset, 32-45 stride byte offset (each >> 4), 62-63 swizzle (1: 128 bytes, 2: 64, 3: 32, 0: none).
// SWIZZLE: bytes of a row of a panel; panels start at multiples of 8 * SWIZZLE bytes (128 without swizzle).
template <int SWIZZLE> DEV u64 smem_descriptor(u32 addr, u32 leading, u32 stride) {
  static_assert(SWIZZLE == 128 || SWIZZLE == 64 || SWIZZLE == 32 || SWIZZLE == 0, "swizzle of 128, 64, 32 or 0 bytes");
  constexpr u64 mode = SWIZZLE == 128 ? 1 : SWIZZLE == 64 ? 2 : SWIZZLE == 32 ? 3 : 0;
  return (u64)((addr & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | mode << 62;
}
// K-major: a panel holds rows of SWIZZLE bytes along K. Advance 32 bytes per K step inside a panel, then by panels.
template <int SWIZZLE> DEV u64 descriptor_k_major(u32 addr) { return smem_descriptor<SWIZZLE>(addr, 16, 8 * SWIZZLE); }
// MN-major: a panel holds, for each k, SWIZZLE bytes along M or N. panel_bytes: from one panel along M or N to the next.
// Advance 2 * 8 * SWIZZLE bytes per K step of 16.
template <int SWIZZLE> DEV u64 descriptor_mn_major(u32 addr, u32 panel_bytes) {
  return smem_descriptor<SWIZZLE>(addr, panel_bytes, 8 * SWIZZLE);
}
// The descriptor `bytes` further on. Addresses stay below 2^18, so the field never carries.
DEV u64 descriptor_advance(u64 descriptor, u32 bytes) { return descriptor + (bytes >> 4); }
