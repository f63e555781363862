#pragma once
// Two 16-bit floats in 32 bits. PTX ISA, "add", "sub", "mul", "fma" (.f16x2, .bf16x2): each result is rounded once, to
// nearest, and with .rn no product is contracted with the sum behind it.
#define TWILL_HALVES(TYPE)                                                                                            \
  DEV u32 halves_add_##TYPE(u32 a, u32 b) { u32 r; asm("add.rn." #TYPE "x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; } \
  DEV u32 halves_sub_##TYPE(u32 a, u32 b) { u32 r; asm("sub.rn." #TYPE "x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; } \
  DEV u32 halves_mul_##TYPE(u32 a, u32 b) { u32 r; asm("mul.rn." #TYPE "x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; } \
  DEV u32 halves_fma_##TYPE(u32 a, u32 b, u32 c) {                                                                    \
    u32 r;                                                                                                            \
    asm("fma.rn." #TYPE "x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));                                     \
    return r;                                                                                                         \
  }                                                                                                                   \
  DEV float fma_##TYPE(float a, float b, float c) {                                                                   \
    return low_##TYPE(halves_fma_##TYPE(bits_##TYPE(a), bits_##TYPE(b), bits_##TYPE(c)));                             \
  }
TWILL_HALVES(f16)
TWILL_HALVES(bf16)
// Both with the other sign.
DEV u32 halves_neg(u32 a) { return a ^ 0x80008000u; }
