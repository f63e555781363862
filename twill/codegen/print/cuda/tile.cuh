// What emitted kernels do with tiles over and over: ring positions, 16-bit and 8-bit numbers held as floats,
// accesses of shared memory by type. No PTX of its own, except through the other headers.
#pragma once
typedef signed char i8;
typedef short i16;

// A position in a ring of DEPTH slots. parity flips each time round; with one slot, `slot` stays the constant 0.
template <u32 DEPTH> struct Cursor {
  u32 slot = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if constexpr (DEPTH == 1) parity ^= 1;
    else if constexpr (DEPTH == 2) { parity ^= slot; slot ^= 1; }
    else if (++slot == DEPTH) { slot = 0; parity ^= 1; }
  }
  __device__ __forceinline__ void skip(i32 slots) {  // none if negative
    const u32 past = slot + (slots > 0 ? slots : 0);
    parity ^= past / DEPTH & 1;
    slot = past % DEPTH;
  }
};

// N values moved together.
template <class T, u32 N> struct alignas(sizeof(T) * N) Vector { T at[N]; };
// COUNT registers of a longer fragment, from register `first`.
template <u32 COUNT> DEV float (&part(float* registers, u32 first))[COUNT] { return *(float (*)[COUNT])(registers + first); }
template <int N> DEV void pin(i32 (&d)[N]) { pin(*(u32 (*)[N])&d); }

// ---------------------------------------------------------------- small floats
// Element i of packed pairs.
DEV float get_bf16(const u32* pairs, u32 i) { return i & 1 ? high_bf16(pairs[i / 2]) : low_bf16(pairs[i / 2]); }
DEV float get_f16(const u32* pairs, u32 i) { return i & 1 ? high_f16(pairs[i / 2]) : low_f16(pairs[i / 2]); }
// The bits of a number that the type can hold (others are rounded), in the low half or byte; and back.
DEV u32 bits_bf16(float x) { return pack_bf16(x, 0.f); }
DEV u32 bits_f16(float x) { return pack_f16(x, 0.f); }
DEV u32 bits_e4m3(float x) { return pack_e4m3(x, 0.f) & 0xff; }
DEV u32 bits_e5m2(float x) { return pack_e5m2(x, 0.f) & 0xff; }
DEV float from_bits_bf16(u32 bits) { return low_bf16(bits); }
DEV float from_bits_f16(u32 bits) { return low_f16(bits); }
DEV float from_bits_e4m3(u32 bits) { return low_f16(e4m3_to_f16(bits & 0xff)); }
DEV float from_bits_e5m2(u32 bits) { return low_f16(e5m2_to_f16(bits & 0xff)); }
// Rounded to nearest even; the 8-bit types saturate.
DEV float round_bf16(float x) { return from_bits_bf16(bits_bf16(x)); }
DEV float round_f16(float x) { return from_bits_f16(bits_f16(x)); }
DEV float round_e4m3(float x) { return from_bits_e4m3(bits_e4m3(x)); }
DEV float round_e5m2(float x) { return from_bits_e5m2(saturate_e5m2(x, 0.f) & 0xff); }
// Rounded towards zero.
DEV float truncate_bf16(float x) { return __uint_as_float(__float_as_uint(x) & 0xffff0000u); }
// Of an f16 the bits of its upper byte: infinity stays infinity.
DEV float truncate_e5m2(float x) { return from_bits_e5m2(bits_e5m2(truncate_f16(x))); }
// 1 - erf(x) with an absolute error under 2.1e-7, for results that are rounded to 16 bits: 2^(-x q(x)), and 2 minus that
// of -x where x < 0. q is fitted to -log2(erfc(x)) / x on [0, 4.1]; where erfc(x) > 1e-4 the relative error is under
// 2.5e-4, and behind 4.1 the result is below 1e-8 as it should be.
DEV float erfc_short(float x) {
  const float y = fabsf(x);
  float q = 3.412388e-05f;
  q = fmaf(q, y, -0.00036298737f);
  q = fmaf(q, y, 0.0012524154f);
  q = fmaf(q, y, 0.0011145002f);
  q = fmaf(q, y, -0.028510973f);
  q = fmaf(q, y, 0.14858139f);
  q = fmaf(q, y, 0.9183989f);
  q = fmaf(q, y, 1.6279095f);
  const float tail = ex2(-(y * q));
  return x < 0.f ? 2.f - tail : tail;
}
// k times that for results that are rounded to bf16 or less: 2k / (1 + 2^(x p(x^2))), p fitted to
// log2(2 / erfc(x) - 1) / x on [0, 4.1]. The relative error is under 4.3e-4, a fifth of bf16's half unit, where
// erfc(x) > 1e-4; where it is less, the absolute error is under 4.3e-8 k, and behind 4.1 the result is below 1e-8 k as it
// should be. log_twice: log2(2k); inverse: 1 / 2k.
DEV float erfc_bf16(float x, float log_twice, float inverse) {
  const float y = x * x;
  float p = 1.5767229e-05f;
  p = fmaf(p, y, -0.00018414693f);
  p = fmaf(p, y, -0.0057867368f);
  p = fmaf(p, y, 0.30392334f);
  p = fmaf(p, y, 3.252683f);
  return rcp(ex2(log_twice == 0.0f ? x * p : fmaf(x, p, -log_twice)) + inverse);
}
DEV float infinity() { return __uint_as_float(0x7f800000u); }
DEV float not_a_number() { return __uint_as_float(0x7fc00000u); }

// ---------------------------------------------------------------- integers
// Arithmetic that wraps round; shifts of the unsigned bits.
DEV i32 wrap_add(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
DEV i64 wrap_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
DEV i32 wrap_sub(i32 a, i32 b) { return (i32)((u32)a - (u32)b); }
DEV i64 wrap_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
DEV i32 wrap_mul(i32 a, i32 b) { return (i32)((u32)a * (u32)b); }
DEV i64 wrap_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
// A bound of an index that is compared with indices of a tile: their difference, kept inside of 31 bits.
DEV i32 bound(i64 difference) { return (i32)min(max(difference, (i64)-0x3fffffff), (i64)0x3fffffff); }

// ---------------------------------------------------------------- shared memory by type
// A value of 1 to 16 bytes at an address aligned to its size.
// A pair of bytes is taken apart by shifts: then putting it together again (bytes.cuh) costs nothing.
template <class T> constexpr bool IS_PAIR_OF_BYTES = false;
template <> constexpr bool IS_PAIR_OF_BYTES<Vector<i8, 2>> = true;
template <class T> DEV T read_shared(u32 smem) {
  if constexpr (sizeof(T) == 1) { const u8 v = (u8)load_shared_u8(smem); return *(const T*)&v; }
  else if constexpr (IS_PAIR_OF_BYTES<T>) { const u32 v = load_shared_u16(smem); return {{(i8)v, (i8)(v >> 8)}}; }
  else if constexpr (sizeof(T) == 2) { const u16 v = (u16)load_shared_u16(smem); return *(const T*)&v; }
  else if constexpr (sizeof(T) == 4) { const u32 v = load_shared(smem); return *(const T*)&v; }
  else if constexpr (sizeof(T) == 8) { const Vec2 v = load_shared2(smem); return *(const T*)&v; }
  else { const Vec4 v = load_shared4(smem); return *(const T*)&v; }
}
template <class T> DEV void write_shared(u32 smem, T v) {
  if constexpr (sizeof(T) == 1) store_shared_u8(smem, *(const u8*)&v);
  else if constexpr (sizeof(T) == 2) store_shared_u16(smem, *(const u16*)&v);
  else if constexpr (sizeof(T) == 4) store_shared(smem, *(const u32*)&v);
  else if constexpr (sizeof(T) == 8) store_shared2(smem, *(const Vec2*)&v);
  else store_shared4(smem, *(const Vec4*)&v);
}

// ---------------------------------------------------------------- swizzled tiles
// A tile lies in panels of ROWS rows of PANEL bytes (fragment rows are multiples of 8 apart, and so are the panels of
// their tiles, so that a swizzle depends on the lane's part of the row alone).
// What the 16-byte chunks of a row are exchanged by.
template <u32 SWIZZLE> DEV u32 swizzle_of(u32 row) {
  return SWIZZLE == 128 ? row & 7 : SWIZZLE == 64 ? row >> 1 & 3 : SWIZZLE == 32 ? row >> 2 & 1 : 0;
}
// The address of byte `byte` of a row. A lane's own part of it can be computed once, and moved by `swizzled_step`.
// The TMA exchanges chunks by bits of the address: a panel of few rows begins within the pattern of the one before it.
template <u32 SWIZZLE, u32 PANEL, u32 ROWS> DEV u32 swizzled(u32 tile, u32 row, u32 byte) {
  const u32 inside = byte % PANEL, line = ROWS % 8 ? byte / PANEL * ROWS + row : row;
  return tile + byte / PANEL * (ROWS * PANEL) + row * PANEL + ((inside / 16 ^ swizzle_of<SWIZZLE>(line)) << 4) + inside % 16;
}
// `at`, the address of a byte that lies in the first chunks of a panel, moved by `bytes` (a constant) that share no bit
// with its place in the row.
template <u32 SWIZZLE, u32 PANEL, u32 ROWS> DEV u32 swizzled_step(u32 at, u32 bytes) {
  const u32 inside = bytes % PANEL, chunks = inside / 16 * 16;
  return (SWIZZLE ? at ^ chunks : at + chunks) + inside % 16 + bytes / PANEL * (ROWS * PANEL);
}
