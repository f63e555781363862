// The tensor core of Blackwell: products in tensor memory, which one thread issues, and the ways in and out of it.
// Comments cite the PTX ISA by the title of the section. A tensor address has the lane in bits 31-16, the column below.
#pragma once

// "tcgen05.alloc", by a whole warp: columns of tensor memory; their address is written to shared memory.
DEV void tensor_alloc(u32 smem, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" :: "r"(smem), "r"(columns) : "memory");
  asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::: "memory");
}
// "tcgen05.dealloc", by a whole warp.
DEV void tensor_free(u32 tensor, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(tensor), "r"(columns) : "memory");
}
// "tcgen05.fence": earlier accesses of tensor memory before what synchronizes, and that before later ones.
DEV void tensor_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
DEV void tensor_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
// "tcgen05.wait": this thread's loads have their registers.
DEV void tensor_wait_loads() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
// "tcgen05.wait": this thread's stores are there.
DEV void tensor_wait_stores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
// "tcgen05.commit": one arrival on bar when this thread's earlier products are over.
DEV void tensor_commit(u32 bar) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" :: "r"(bar) : "memory");
}
// "tcgen05 Shared Memory Descriptor": that of wgmma with the version in bits 46-48; the codes of swizzles are the same bits.
// Nothing that is made of it leaves a loop: a thread that issues has no registers for the descriptors of all steps.
DEV u64 tensor_descriptor(u64 descriptor) {
  descriptor |= 1ull << 46;
  asm volatile("" : "+l"(descriptor));
  return descriptor;
}
// "tcgen05.mma": D (128 x n) = A B, added to what is there if `more`. Written to tensor memory from `tensor` on.
#define TWILL_TENSOR_MULTIPLY(KIND)                                                                              \
  DEV void tensor_multiply_##KIND(u32 tensor, u64 a, u64 b, u32 instruction, bool more) {                        \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                     \
                 "tcgen05.mma.cta_group::1.kind::" #KIND " [%0], %1, %2, %3, p;\n}"                              \
                 :: "r"(tensor), "l"(a), "l"(b), "r"(instruction), "r"((u32)more) : "memory");                   \
  }
TWILL_TENSOR_MULTIPLY(f16)
TWILL_TENSOR_MULTIPLY(tf32)
TWILL_TENSOR_MULTIPLY(f8f6f4) TWILL_TENSOR_MULTIPLY(i8)
#undef TWILL_TENSOR_MULTIPLY
// The same with A in tensor memory, 128 lanes from `a` on, 32 bytes of each.
DEV void tensor_multiply_a_f16(u32 tensor, u32 a, u64 b, u32 instruction, bool more) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
               "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}"
               :: "r"(tensor), "r"(a), "l"(b), "r"(instruction), "r"((u32)more) : "memory");
}
// "tcgen05.ld", 16x256b: 16 lanes from the address on, 8 columns for each of the repetitions, into 4 registers of a thread for
// each: those that an accumulator of wgmma has (rows lane / 4 and 8 more, columns 2 * (lane % 4) and the next).
DEV void tensor_load_x1(float* d, u32 tensor) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x1.b32 {"
               "%0, %1, %2, %3"
               "}, [%4];"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) : "r"(tensor));
}
DEV void tensor_load_x2(float* d, u32 tensor) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x2.b32 {"
               "%0, %1, %2, %3, %4, %5, %6, %7"
               "}, [%8];"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
                 "=f"(d[7]) : "r"(tensor));
}
DEV void tensor_load_x4(float* d, u32 tensor) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x4.b32 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
               "}, [%16];"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
                 "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
                 "=f"(d[14]), "=f"(d[15]) : "r"(tensor));
}
DEV void tensor_load_x8(float* d, u32 tensor) {
  asm volatile("tcgen05.ld.sync.aligned.16x256b.x8.b32 {"
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "
               "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
               "}, [%32];"
               : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
                 "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
                 "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]),
                 "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]),
                 "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31]) : "r"(tensor));
}
// "tcgen05.st": the ways back, 16x256b as above and 16x128b for elements of 16 bits: 2 registers of a thread for each 8 of
// them, columns lane % 4 of 4.
DEV void tensor_store_x1(const float* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x256b.x1.b32 [%0], {"
               "%1, %2, %3, %4"
               "};"
               :: "r"(tensor),
                  "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]) : "memory");
}
DEV void tensor_store_x2(const float* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x256b.x2.b32 [%0], {"
               "%1, %2, %3, %4, %5, %6, %7, %8"
               "};"
               :: "r"(tensor),
                  "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]) : "memory");
}
DEV void tensor_store_x4(const float* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x256b.x4.b32 [%0], {"
               "%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16"
               "};"
               :: "r"(tensor),
                  "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]),
                  "f"(d[8]), "f"(d[9]), "f"(d[10]), "f"(d[11]), "f"(d[12]), "f"(d[13]), "f"(d[14]), "f"(d[15]) : "memory");
}
DEV void tensor_store_x8(const float* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x256b.x8.b32 [%0], {"
               "%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
               "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32"
               "};"
               :: "r"(tensor),
                  "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]), "f"(d[4]), "f"(d[5]), "f"(d[6]), "f"(d[7]),
                  "f"(d[8]), "f"(d[9]), "f"(d[10]), "f"(d[11]), "f"(d[12]), "f"(d[13]), "f"(d[14]), "f"(d[15]),
                  "f"(d[16]), "f"(d[17]), "f"(d[18]), "f"(d[19]), "f"(d[20]), "f"(d[21]), "f"(d[22]), "f"(d[23]),
                  "f"(d[24]), "f"(d[25]), "f"(d[26]), "f"(d[27]), "f"(d[28]), "f"(d[29]), "f"(d[30]), "f"(d[31]) : "memory");
}
DEV void tensor_store_packed_x1(const u32* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x128b.x1.b32 [%0], {"
               "%1, %2"
               "};"
               :: "r"(tensor),
                  "r"(d[0]), "r"(d[1]) : "memory");
}
DEV void tensor_store_packed_x2(const u32* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x128b.x2.b32 [%0], {"
               "%1, %2, %3, %4"
               "};"
               :: "r"(tensor),
                  "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]) : "memory");
}
DEV void tensor_store_packed_x4(const u32* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x128b.x4.b32 [%0], {"
               "%1, %2, %3, %4, %5, %6, %7, %8"
               "};"
               :: "r"(tensor),
                  "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]), "r"(d[4]), "r"(d[5]), "r"(d[6]), "r"(d[7]) : "memory");
}
DEV void tensor_store_packed_x8(const u32* d, u32 tensor) {
  asm volatile("tcgen05.st.sync.aligned.16x128b.x8.b32 [%0], {"
               "%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16"
               "};"
               :: "r"(tensor),
                  "r"(d[0]), "r"(d[1]), "r"(d[2]), "r"(d[3]), "r"(d[4]), "r"(d[5]), "r"(d[6]), "r"(d[7]),
                  "r"(d[8]), "r"(d[9]), "r"(d[10]), "r"(d[11]), "r"(d[12]), "r"(d[13]), "r"(d[14]), "r"(d[15]) : "memory");
}
