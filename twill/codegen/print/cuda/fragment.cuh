// PTX on values in registers: matrices between registers and shared memory, conversions, fast functions.
// Comments cite the PTX ISA by the title of the section.
#pragma once

// ---------------------------------------------------------------- 8x8 matrices of 16-bit elements
// "ldmatrix", "stmatrix": lane i addresses row i%8 of matrix i/8 (16 bytes, aligned); a lane holds two neighbours of
// row lane/4, columns 2*(lane%4) and +1, of each matrix. _trans: of the transposed matrices.
#define TWILL_MATRIX(SUFFIX, TRANS)                                                                                   \
  DEV void ldmatrix_x1##SUFFIX(u32 smem, u32& a) {                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 {%0}, [%1];" : "=r"(a) : "r"(smem) : "memory");   \
  }                                                                                                                   \
  DEV void ldmatrix_x2##SUFFIX(u32 smem, u32& a, u32& b) {                                                            \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 {%0, %1}, [%2];"                                  \
                 : "=r"(a), "=r"(b) : "r"(smem) : "memory");                                                          \
  }                                                                                                                   \
  DEV void ldmatrix_x4##SUFFIX(u32 smem, u32& a, u32& b, u32& c, u32& d) {                                            \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 {%0, %1, %2, %3}, [%4];"                          \
                 : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(smem) : "memory");                                        \
  }                                                                                                                   \
  DEV void stmatrix_x1##SUFFIX(u32 smem, u32 a) {                                                                     \
    asm volatile("stmatrix.sync.aligned.m8n8.x1" TRANS ".shared.b16 [%0], {%1};" :: "r"(smem), "r"(a) : "memory");    \
  }                                                                                                                   \
  DEV void stmatrix_x2##SUFFIX(u32 smem, u32 a, u32 b) {                                                              \
    asm volatile("stmatrix.sync.aligned.m8n8.x2" TRANS ".shared.b16 [%0], {%1, %2};"                                  \
                 :: "r"(smem), "r"(a), "r"(b) : "memory");                                                            \
  }                                                                                                                   \
  DEV void stmatrix_x4##SUFFIX(u32 smem, u32 a, u32 b, u32 c, u32 d) {                                                \
    asm volatile("stmatrix.sync.aligned.m8n8.x4" TRANS ".shared.b16 [%0], {%1, %2, %3, %4};"                          \
                 :: "r"(smem), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");                                            \
  }
TWILL_MATRIX(, "")
TWILL_MATRIX(_trans, ".trans")

// ---------------------------------------------------------------- conversions
// "cvt": two floats to a packed pair, the first in the low half; 8-bit pairs in the low 16 bits, saturated.
DEV u32 pack_bf16(float lo, float hi) { u32 r; asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEV u32 pack_f16(float lo, float hi) { u32 r; asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo)); return r; }
DEV u32 pack_e4m3(float lo, float hi) { u16 r; asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo)); return r; }
DEV u32 saturate_e5m2(float lo, float hi) { u16 r; asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo)); return r; }
DEV u32 pack_e4m3x4(float a, float b, float c, float d) { return pack_e4m3(a, b) | pack_e4m3(c, d) << 16; }
// "cvt": one half of a packed pair to float. A bf16 is the upper half of its float.
DEV float low_bf16(u32 v) { return __uint_as_float(v << 16); }
DEV float high_bf16(u32 v) { return __uint_as_float(v & 0xffff0000u); }
DEV float low_f16(u32 v) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((u16)v)); return r; }
DEV float high_f16(u32 v) { return low_f16(v >> 16); }
// "cvt": a packed pair of 8-bit floats (low 16 bits) to a packed pair of f16, exactly.
DEV u32 e4m3_to_f16(u32 v) { u32 r; asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((u16)v)); return r; }
DEV u32 e5m2_to_f16(u32 v) { u32 r; asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"((u16)v)); return r; }
// "cvt", .tf32: rounded to nearest; the low 13 bits are zero.
DEV u32 round_tf32(float v) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v)); return r; }
// "prmt": four bytes picked from the eight of a and b.
DEV u32 byte_permute(u32 a, u32 b, u32 selector) { u32 r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector)); return r; }
// Of numbers that the type can hold, infinities too: they are those of f16 whose low byte is 0.
DEV u32 pack_e5m2x4(float a, float b, float c, float d) { return byte_permute(pack_f16(a, b), pack_f16(c, d), 0x7531); }
DEV u32 pack_e5m2(float lo, float hi) { return pack_e5m2x4(lo, hi, 0.f, 0.f); }

// Operand A of 8-bit floats ("Register Fragments for wgmma.mma_async.m64nNk32"): of 32 columns lane t of a row's four holds
// 4t ... 4t+3 and 16+4t ... 16+4t+3, where a result has 2t and 2t+1 of each 8. even: its own of the first and the third
// 8, odd: of the second and the fourth. A lane sends `even` to lane t/2 and `odd` to lane 2+t/2, one of them at a time.
DEV void exchange_bytes(u32 even, u32 odd, u32& low, u32& high) {
  const u32 lane = threadIdx.x & 31u, t = lane & 3u, from = (lane & ~3u) | (t << 1 & 2u);
  const bool second = t & 1u, upper = t & 2u;
  const u32 one = __shfl_sync(0xffffffffu, second ? odd : even, from | (u32)upper);
  const u32 other = __shfl_sync(0xffffffffu, second ? even : odd, from | (u32)!upper);
  low = byte_permute(one, other, upper ? 0x1054u : 0x5410u);
  high = byte_permute(one, other, upper ? 0x3276u : 0x7632u);
}
DEV u32 operand_e4m3(float a, float b, float c, float d) { return pack_e4m3x4(a, b, c, d); }
DEV u32 operand_e5m2(float a, float b, float c, float d) { return saturate_e5m2(a, b) | saturate_e5m2(c, d) << 16; }

// "selp": registers of a fragment picked by a lane, never by an address (arrays that a lane indexes leave the registers).
DEV float pick(bool first, float a, float b) {
  float r;
  asm("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\nselp.f32 %0, %1, %2, p;\n}" : "=f"(r) : "f"(a), "f"(b), "r"((u32)first));
  return r;
}

// ---------------------------------------------------------------- fast functions
// "ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh": .approx, subnormal inputs and results become zero.
DEV float ex2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float ex2_subnormal(float x) { float y; asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }  // without .ftz
DEV float lg2(float x) { float y; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float rcp(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float rsqrt_fast(float x) { float y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float sqrt_fast(float x) { float y; asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float sin_fast(float x) { float y; asm("sin.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float cos_fast(float x) { float y; asm("cos.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float tanh_fast(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float floor_fast(float x) { float y; asm("cvt.rmi.ftz.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEV float ceil_fast(float x) { float y; asm("cvt.rpi.ftz.f32.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
// "cvt", .rzi, to 16 bits: saturates, NaN becomes 0. Numbers of 8 bits are the lower half of it.
DEV short to_s16(float x) { short y; asm("cvt.rzi.s16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
DEV u16 to_u16(float x) { u16 y; asm("cvt.rzi.u16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
DEV short to_s16(double x) { short y; asm("cvt.rzi.s16.f64 %0, %1;" : "=h"(y) : "d"(x)); return y; }
DEV u16 to_u16(double x) { u16 y; asm("cvt.rzi.u16.f64 %0, %1;" : "=h"(y) : "d"(x)); return y; }
// "div", .full: 2 ulp. "max", "min", .NaN: NaN if either is; the library's fmaxf and fminf take the other one.
DEV float div_full(float x, float y) { float r; asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
DEV float max_nan(float x, float y) { float r; asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
DEV float min_nan(float x, float y) { float r; asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y)); return r; }
// The library's division is rounded (.rn), as long as it is not compiled for speed.
DEV float div_rounded(float x, float y) { return x / y; }
DEV double max_nan(double x, double y) { return x != x ? x : y != y ? y : fmax(x, y); }
DEV double min_nan(double x, double y) { return x != x ? x : y != y ? y : fmin(x, y); }
// "cvt", .rz: rounded towards zero.
DEV float truncate_f16(float x) { u16 h; asm("cvt.rz.f16.f32 %0, %1;" : "=h"(h) : "f"(x)); return low_f16(h); }
