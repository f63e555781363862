// Products with scales of blocks on Blackwell, and the way of scales into tensor memory. Comments cite the PTX ISA by the
// title of the section.
#pragma once

// "tcgen05.cp": 32 rows of 16 bytes in shared memory, as the descriptor says, to 4 columns of tensor memory, in all four
// quarters of the lanes. Done in order with the products that this thread issues behind it.
DEV void tensor_copy_scales(u32 tensor, u64 descriptor) {
  asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" :: "r"(tensor), "l"(descriptor) : "memory");
}
// The same in both CTAs of a pair, each from its own shared memory, issued by the first.
DEV void tensor_copy_scales_pair(u32 tensor, u64 descriptor) {
  asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" :: "r"(tensor), "l"(descriptor) : "memory");
}
// "tcgen05 Shared Memory Descriptor": rows of 16 bytes one behind the other, no swizzle; the stride of 8 rows in bits 32-45.
DEV u64 scales_descriptor(u32 smem) {
  return tensor_descriptor((u64)(smem >> 4) | (u64)(8 * 16 >> 4) << 32);
}
// "Scale Factor A Layout": where the scale of a row and a block along K lies, of BLOCKS in each row, in chunks of 512 bytes for
// 128 rows and 4 blocks: rows 32 apart are side by side, so that a copy has 32 rows of 16 bytes.
template <u32 BLOCKS> DEV u32 scale_place(u32 tile, u32 row, u32 block) {
  return tile + (row / 128 * (BLOCKS / 4) + block / 4) * 512 + row % 32 * 16 + row % 128 / 32 * 4 + block % 4;
}
// "tcgen05.mma": D (128 x n) = A B with scales of their blocks, in tensor memory from `of_a` and `of_b` on. Of a pair of CTAs
// each has the scales of its rows of A, and of all columns of B.
#define TWILL_SCALED_MULTIPLY(NAME, CTAS, KIND)                                                                        \
  DEV void tensor_multiply_##NAME(u32 tensor, u64 a, u64 b, u32 instruction, u32 of_a, u32 of_b, bool more) {          \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                                           \
                 "tcgen05.mma.cta_group::" CTAS ".kind::" KIND " [%0], %1, %2, %3, [%4], [%5], p;\n}"                  \
                 :: "r"(tensor), "l"(a), "l"(b), "r"(instruction), "r"(of_a), "r"(of_b), "r"((u32)more) : "memory");   \
  }
TWILL_SCALED_MULTIPLY(mxf8f6f4, "1", "mxf8f6f4.block_scale.scale_vec::1X")
TWILL_SCALED_MULTIPLY(mxf4, "1", "mxf4.block_scale.scale_vec::2X")
TWILL_SCALED_MULTIPLY(mxf4nvf4, "1", "mxf4nvf4.block_scale.scale_vec::4X")
TWILL_SCALED_MULTIPLY(pair_mxf8f6f4, "2", "mxf8f6f4.block_scale.scale_vec::1X")
TWILL_SCALED_MULTIPLY(pair_mxf4, "2", "mxf4.block_scale.scale_vec::2X")
TWILL_SCALED_MULTIPLY(pair_mxf4nvf4, "2", "mxf4nvf4.block_scale.scale_vec::4X")
#undef TWILL_SCALED_MULTIPLY
