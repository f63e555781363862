// Short integers to floats, exactly, without the conversion unit (16 numbers a cycle). An integer becomes the digits of a
// float whose last digit counts 1, and what those digits stand beside is taken away. A kernel's text has this file if it
// calls something in it.
#pragma once

// PTX ISA, "sub": of packed pairs.
DEV u32 sub_bf16x2(u32 a, u32 b) { u32 r; asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
DEV u32 sub_f16x2(u32 a, u32 b) { u32 r; asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
// Two bytes, to which 128 is added where `moved` is 0x8080, each below the byte `above`.
DEV u32 bytes_below(u32 above, i8 lo, i8 hi, u32 moved) {
  return byte_permute(((u32)(u8)lo | (u32)(u8)hi << 8) ^ moved, above, 0x4140);
}
// bf16 has seven digits: of a byte x it is 128 + x % 128, less 128, or less 256 where x has its sign.
DEV u32 pack_bf16_signed(i8 lo, i8 hi, u32 moved = 0) {
  const u32 pair = bytes_below(0x43, lo, hi, moved);
  return sub_bf16x2(pair & 0xff7fff7f, pair & 0xff80ff80);
}
DEV u32 pack_bf16_unsigned(i8 lo, i8 hi) { return sub_bf16x2(pack_bf16_signed(lo, hi, 0x8080), 0xc300c300); }
// f16 has ten: 1024 + x.
DEV u32 pack_f16_signed(i8 lo, i8 hi) { return sub_f16x2(bytes_below(0x64, lo, hi, 0x8080), 0x64806480); }
DEV u32 pack_f16_unsigned(i8 lo, i8 hi) { return sub_f16x2(bytes_below(0x64, lo, hi, 0), 0x64006400); }
// f32 has 23: of a number of at most 22 with its sign it is 1.5 * 2^23 + x.
DEV float short_to_float(i32 x) { return __int_as_float(0x4b400000 + x) - 12582912.f; }
