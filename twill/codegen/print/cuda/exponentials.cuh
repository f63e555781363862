#pragma once
// Exponentials to base 2 without the unit of special functions, two at once.

// PTX ISA, "add", "mul" (.f32x2).
DEV u64 pair_add_down(u64 a, u64 b) { u64 r; asm("add.rm.f32x2 %0, %1, %2;" : "=l"(r) : "l"(a), "l"(b)); return r; }
DEV u64 pair_mul_flushed(u64 a, u64 b) { u64 r; asm("mul.rn.ftz.f32x2 %0, %1, %2;" : "=l"(r) : "l"(a), "l"(b)); return r; }
DEV float within(float x, float low, float high) {  // NaN stays
  float r;
  asm("{\n.reg .f32 t;\nmax.NaN.f32 t, %1, %2;\nmin.NaN.f32 %0, t, %3;\n}" : "=f"(r) : "f"(x), "f"(low), "f"(high));
  return r;
}

// 2^x = 2^n 2^f with n = floor(x), after Cody and Waite. x + 1.5 * 2^23 + 127, rounded down, has n + 127 in its low bits,
// which 23 bits higher are 2^n: 0 where x < -126, infinite where x >= 128. The polynomial is fitted to 2^f on [0, 1) with
// a relative error of 8.3e-8, and is 1 at 0; with its roundings the error is at most 1.5e-7, less than the 2^-22 of
// ex2.approx. As with ex2.approx.ftz results below 2^-126 are 0.
DEV void ex2_polynomial(float& a, float& b, float x, float y) {
  const float shift = 12582912.0f + 127.0f;
  const u64 at = pair_of(within(x, -127.0f, 128.0f), within(y, -127.0f, 128.0f));
  const u64 moved = pair_add_down(at, pair_of(shift, shift));
  const u64 whole = pair_add_rn(moved, pair_of(-shift, -shift));
  float f, g;
  parts_of(f, g, whole);
  const u64 rest = pair_add_rn(at, pair_of(-f, -g));
  u64 p = pair_of(0.0018671300495043397f, 0.0018671300495043397f);
  p = pair_fma(p, rest, pair_of(0.009017029777169228f, 0.009017029777169228f));
  p = pair_fma(p, rest, pair_of(0.05579991266131401f, 0.05579991266131401f));
  p = pair_fma(p, rest, pair_of(0.24016444385051727f, 0.24016444385051727f));
  p = pair_fma(p, rest, pair_of(0.6931512951850891f, 0.6931512951850891f));
  p = pair_fma(p, rest, pair_of(1.0f, 1.0f));
  parts_of(f, g, moved);
  p = pair_mul_flushed(p, pair_of(__uint_as_float(__float_as_uint(f) << 23), __uint_as_float(__float_as_uint(g) << 23)));
  parts_of(a, b, p);
}
// The same with results below 2^-126, as ex2.approx has them.
DEV void ex2_polynomial_subnormal(float& a, float& b, float x, float y) {
  const bool less = x < -126.0f, below = y < -126.0f;
  ex2_polynomial(a, b, less ? x + 32.0f : x, below ? y + 32.0f : y);
  a = less ? a * 0x1p-32f : a;
  b = below ? b * 0x1p-32f : b;
}
