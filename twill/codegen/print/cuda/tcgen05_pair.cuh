// Two CTAs that use the tensor core together (.cta_group::2): those of a cluster whose numbers in it differ in bit 0.
// Comments cite the PTX ISA by the title of the section.
#pragma once

// "tcgen05.alloc", by a whole warp of each: columns of tensor memory in both; their address is written to shared memory.
DEV void tensor_alloc_pair(u32 smem, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(smem), "r"(columns) : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::: "memory");
}
// "tcgen05.dealloc", by a whole warp of each.
DEV void tensor_free_pair(u32 tensor, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" :: "r"(tensor), "r"(columns) : "memory");
}
// "tcgen05.commit": one arrival on the barrier at that offset in each when this thread's earlier products are over.
DEV void tensor_commit_pair(u32 bar) {
  asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
               :: "r"(bar), "h"((u16)3) : "memory");
}
// "tcgen05.mma": D (256 x n) = A B, added to what is there if `more`, issued by the first of the two. Each has 128 rows of A and
// of D, and half of the columns of B, at the same places.
#define TWILL_TENSOR_MULTIPLY(KIND)                                                                              \
  DEV void tensor_multiply_pair_##KIND(u32 tensor, u64 a, u64 b, u32 instruction, bool more) {                   \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                     \
                 "tcgen05.mma.cta_group::2.kind::" #KIND " [%0], %1, %2, %3, p;\n}"                              \
                 :: "r"(tensor), "l"(a), "l"(b), "r"(instruction), "r"((u32)more) : "memory");                   \
  }
TWILL_TENSOR_MULTIPLY(f16)
TWILL_TENSOR_MULTIPLY(tf32)
TWILL_TENSOR_MULTIPLY(f8f6f4) TWILL_TENSOR_MULTIPLY(i8)
#undef TWILL_TENSOR_MULTIPLY
// "cp.async.bulk.tensor", .cta_group::2: into this CTA, bytes counted on bar in the first of the two: bit 24 of an address in
// shared memory says which of them it is in.
#define TWILL_TMA_PAIR(RANK, AT3, PARAMS, ARGS)                                                                     \
  DEV void tma_load_pair(u32 dst, const TensorMap* map, u32 bar, TWILL_UNPAREN PARAMS) {                            \
    asm volatile("cp.async.bulk.tensor." #RANK "d.shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2" \
                 " [%0], [%1, " AT3 "], [%2];"                                                                      \
                 :: "r"(dst), "l"(map), "r"(bar & 0xFEFFFFFF), TWILL_UNPAREN ARGS : "memory");                      \
  }
TWILL_TMA_PAIR(2, "{%3, %4}", (i32 x0, i32 x1), ("r"(x0), "r"(x1)))
TWILL_TMA_PAIR(3, "{%3, %4, %5}", (i32 x0, i32 x1, i32 x2), ("r"(x0), "r"(x1), "r"(x2)))
TWILL_TMA_PAIR(4, "{%3, %4, %5, %6}", (i32 x0, i32 x1, i32 x2, i32 x3), ("r"(x0), "r"(x1), "r"(x2), "r"(x3)))
TWILL_TMA_PAIR(5, "{%3, %4, %5, %6, %7}", (i32 x0, i32 x1, i32 x2, i32 x3, i32 x4),
               ("r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(x4)))
#undef TWILL_TMA_PAIR
