"""What single instructions compute, lane by lane, against exact arithmetic."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.ptx_programs import Array, each
from twill.ptx.formats import decode, encode

U32 = np.array([0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x12345678], np.uint32)
PAIRS = np.array([(a, b) for a in U32 for b in U32], np.uint32)
A, B = np.ascontiguousarray(PAIRS[:, 0]), np.ascontiguousarray(PAIRS[:, 1])
WORD = 1 << 32
FLOATS = np.array(
    [0.0, -0.0, 1.0, -1.5, 3.0, 1 / 3, 2.0**-149, -(2.0**-126), 2.0**-127, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan,
     1 + 2.0**-23, 16777217.0, 1e-20, 1e20], np.float32
)  # fmt: skip
TWO = np.array([(a, b) for a in FLOATS for b in FLOATS], np.float32)
X, Y = np.ascontiguousarray(TWO[:, 0]), np.ascontiguousarray(TWO[:, 1])


def signed(value: int, bits: int = 32) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER: dict[str, Callable[[int, int], int]] = {
    "add.u32 {d}, {0}, {1}": lambda a, b: a + b,
    "sub.s32 {d}, {0}, {1}": lambda a, b: a - b,
    "add.sat.s32 {d}, {0}, {1}": lambda a, b: max(-(1 << 31), min((1 << 31) - 1, signed(a) + signed(b))),
    "mul.lo.s32 {d}, {0}, {1}": lambda a, b: a * b,
    "mul.hi.u32 {d}, {0}, {1}": lambda a, b: a * b >> 32,
    "mul.hi.s32 {d}, {0}, {1}": lambda a, b: signed(a) * signed(b) >> 32,
    "mad.lo.u32 {d}, {0}, {1}, {0}": lambda a, b: a * b + a,
    "div.u32 {d}, {0}, {1}": lambda a, b: a // b if b else -1,
    "div.s32 {d}, {0}, {1}": lambda a, b: truncated(signed(a), signed(b)) if b else -1,
    "rem.s32 {d}, {0}, {1}": lambda a, b: signed(a) - signed(b) * truncated(signed(a), signed(b)) if b else a,
    "rem.u32 {d}, {0}, {1}": lambda a, b: a % b if b else a,
    "min.s32 {d}, {0}, {1}": lambda a, b: min(signed(a), signed(b)),
    "max.u32 {d}, {0}, {1}": lambda a, b: max(a, b),
    "shl.b32 {d}, {0}, {1}": lambda a, b: a << b if b < 32 else 0,
    "shr.u32 {d}, {0}, {1}": lambda a, b: a >> b if b < 32 else 0,
    "shr.s32 {d}, {0}, {1}": lambda a, b: signed(a) >> min(b, 31),
    "shf.l.wrap.b32 {d}, {0}, {1}, {1}": lambda a, b: ((b << 32 | a) << (b & 31)) >> 32,
    "shf.r.clamp.b32 {d}, {0}, {1}, {1}": lambda a, b: (b << 32 | a) >> min(b, 32),
    "lop3.b32 {d}, {0}, {1}, 255, 0x96": lambda a, b: a ^ b ^ 255,
    "and.b32 {d}, {0}, {1}": lambda a, b: a & b,
    "bfe.u32 {d}, {0}, {1}, 7": lambda a, b: a >> (b & 255) & 127 if (b & 255) < 32 else 0,
    "sad.u32 {d}, {0}, {1}, 3": lambda a, b: abs(a - b) + 3,
    "prmt.b32 {d}, {0}, {1}, 0x7531": lambda a, b: int.from_bytes(
        bytes((a.to_bytes(4, "little") + b.to_bytes(4, "little"))[i] for i in (1, 3, 5, 7)), "little"),
}  # fmt: skip


@pytest.mark.parametrize("instruction", INTEGER)
def test_integers_wrap_shift_and_divide_as_ptx_says(instruction: str) -> None:
    wanted = [INTEGER[instruction](int(a), int(b)) % WORD for a, b in PAIRS]
    assert each(instruction, A, B, out=np.uint32).tolist() == wanted


def nth_set(mask: int, base: int, offset: int) -> int:
    """PTX ISA, "fns", as it is written there."""
    place, left = base, abs(offset) - 1
    if offset == 0:
        return base if base < 32 and mask >> base & 1 else WORD - 1
    while 0 <= place < 32:
        if mask >> place & 1:
            if left == 0:
                return place
            left -= 1
        place += 1 if offset > 0 else -1
    return WORD - 1


@pytest.mark.parametrize("offset", [-3, -1, 0, 1, 2, 5])
@pytest.mark.parametrize("base", [0, 7, 31])
def test_the_nth_bit_that_is_set_is_found(base: int, offset: int) -> None:
    masks = np.array([0, 1, 0x80000000, 0xF0F0F0F0, 0xFFFFFFFF, 0x12345678, 0x81], np.uint32)
    found = each(f"fns.b32 {{d}}, {{0}}, {base}, {offset}", masks, out=np.uint32)
    assert found.tolist() == [nth_set(int(mask), base, offset) for mask in masks]


def test_products_of_64_bits() -> None:
    numbers = np.array([0, 1, 0xFFFFFFFFFFFFFFFF, 1 << 63, 0x123456789ABCDEF0, (1 << 63) - 1], np.uint64)
    both = np.array([(a, b) for a in numbers for b in numbers], np.uint64)
    a, b = np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])
    high = [int(x) * int(y) >> 64 for x, y in both]
    assert each("mul.hi.u64 {d}, {0}, {1}", a, b, out=np.uint64).tolist() == high
    of_signed = [(signed(int(x), 64) * signed(int(y), 64) >> 64) % (1 << 64) for x, y in both]
    assert each("mul.hi.s64 {d}, {0}, {1}", a, b, out=np.uint64).tolist() == of_signed
    wide = [signed(int(x)) * signed(int(y)) % (1 << 64) for x, y in PAIRS]
    assert each("mul.wide.s32 {d}, {0}, {1}", A, B, out=np.uint64).tolist() == wide


def test_bits_are_counted_found_extracted_and_inserted() -> None:
    assert each("popc.b32 {d}, {0}", U32, out=np.uint32).tolist() == [int(a).bit_count() for a in U32]
    assert each("clz.b32 {d}, {0}", U32, out=np.uint32).tolist() == [32 - int(a).bit_length() for a in U32]
    assert each("bfind.u32 {d}, {0}", U32, out=np.uint32).tolist() == [(int(a).bit_length() - 1) % WORD for a in U32]
    assert each("brev.b32 {d}, {0}", U32, out=np.uint32).tolist() == [int(f"{a:032b}"[::-1], 2) for a in U32]
    assert each("bfe.s32 {d}, {0}, 28, 8", U32, out=np.uint32).tolist() == [
        signed(int(a)) >> 28 & WORD - 1 for a in U32
    ]
    assert each("bfe.s32 {d}, {0}, 4, 4", U32, out=np.uint32).tolist() == [
        signed(int(a) >> 4 & 15, 4) % WORD for a in U32
    ]
    inserted = [(int(b) & ~0xFF0 | (int(a) & 0xFF) << 4) for a, b in PAIRS]
    assert each("bfi.b32 {d}, {0}, {1}, 4, 8", A, B, out=np.uint32).tolist() == inserted


def test_dot_products_of_bytes_know_their_signs() -> None:
    def parts(number: int, negative: bool) -> list[int]:
        return [signed(number >> 8 * i & 255, 8) if negative else number >> 8 * i & 255 for i in range(4)]

    for left, right in (("u32", "u32"), ("s32", "u32"), ("s32", "s32")):
        wanted = [
            (sum(x * y for x, y in zip(parts(a, left == "s32"), parts(b, right == "s32"), strict=True)) + 7) % WORD
            for a, b in PAIRS.tolist()
        ]
        assert each(f"dp4a.{left}.{right} {{d}}, {{0}}, {{1}}, 7", A, B, out=np.uint32).tolist() == wanted


def test_moves_pack_and_unpack() -> None:
    assert each("mov.b64 {d}, {{0}, {1}}", A, B, out=np.uint64).tolist() == [int(b) << 32 | int(a) for a, b in PAIRS]
    wide = A.astype(np.uint64) << np.uint64(32) | B
    assert each("mov.b64 {%r100, {d}}, {0}", wide, out=np.uint32).tolist() == A.tolist()


# ---------------------------------------------------------------- floats


def nearest(exact: Fraction) -> float:
    """Of float32, ties to even."""
    if not exact:
        return 0.0
    sign, exact = (-1, -exact) if exact < 0 else (1, exact)
    exponent = max(math.floor(math.log2(float(exact))) if exact > Fraction(2) ** -1000 else -149, -126)
    while Fraction(2) ** (exponent + 1) <= exact:
        exponent += 1
    while exponent > -126 and Fraction(2) ** exponent > exact:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    whole = round(exact / unit)  # of Python: ties to even
    value = whole * unit
    return sign * (math.inf if value >= Fraction(2) ** 128 else float(value))


def same_bits(got: Array, wanted: list[float]) -> None:
    """Bit for bit, with the one NaN that the hardware makes."""
    expected = np.array(wanted, np.float32)
    bits = np.where(np.isnan(expected), np.uint32(0x7FFFFFFF), expected.view(np.uint32))
    assert got.view(np.uint32).tolist() == bits.tolist()


def fused(x: float, y: float, z: float) -> float:
    if not all(map(math.isfinite, (x, y, z))):
        return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    return nearest(exact) if exact else x * y + z


@np.errstate(all="ignore")
def test_a_fused_multiply_add_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    z = rng.permutation(X)
    same_bits(each("fma.rn.f32 {d}, {0}, {1}, {2}", X, Y, z, out=np.float32),
              [fused(float(a), float(b), float(c)) for a, b, c in zip(X, Y, z, strict=True)])  # fmt: skip


@np.errstate(all="ignore")
def test_a_fused_multiply_add_is_right_where_float64_lies_half_way() -> None:
    # The product lies just beside the middle of two float32, by less than float64 can hold beside the summand.
    a = np.array([1 + 2.0**-12, 1 + 2.0**-12, 2.0**-60, -(2.0**-60), 1 + 2.0**-23], np.float32)
    b = np.array([1 + 2.0**-12, -(1 + 2.0**-12), 2.0**-10, 2.0**-10, 1 - 2.0**-24], np.float32)
    c = np.array([1.0, 1.0, 1 + 2.0**-23, 1 + 2.0**-23, 2.0**-24], np.float32)
    rng = np.random.default_rng(1)
    # Summands exactly half-way in float64, products far below them.
    many = rng.standard_normal(200).astype(np.float32)
    tiny = (many * np.float32(2.0**-40)).astype(np.float32)
    a, b = np.concatenate([a, tiny]), np.concatenate([b, many])
    c = np.concatenate([c, np.ldexp(rng.integers(1 << 23, 1 << 24, 200).astype(np.float32), -20)])
    wanted = [fused(float(x), float(y), float(z)) for x, y, z in zip(a, b, c, strict=True)]
    same_bits(each("fma.rn.f32 {d}, {0}, {1}, {2}", a, b, c, out=np.float32), wanted)


def test_rounding_a_fused_multiply_add_twice_would_be_seen() -> None:
    tie = Fraction(4097) ** 2  # 16785409 lies half-way between two float32; float64 loses the 2**-70 beside it
    assert nearest(tie) != nearest(tie + Fraction(2) ** -70)
    a, c = np.array([4097.0], np.float32), np.array([2.0**-70], np.float32)
    got = each("fma.rn.f32 {d}, {0}, {0}, {1}", a, c, out=np.float32)
    assert float(got[0]) == nearest(tie + Fraction(2) ** -70)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
}  # fmt: skip


@pytest.mark.parametrize("name", ARITHMETIC)
@np.errstate(all="ignore")
def test_sums_and_products_are_rounded_to_nearest_and_keep_the_sign_of_zero(name: str) -> None:
    def exact(a: float, b: float) -> float:
        if not (math.isfinite(a) and math.isfinite(b)):
            return float(ARITHMETIC[name](np.float64(a), np.float64(b)))
        whole = ARITHMETIC[name](Fraction(a), Fraction(b))
        return nearest(whole) if whole else ARITHMETIC[name](a, b)

    wanted = [math.copysign(exact(float(a), float(b)), ARITHMETIC[name](np.float64(a), np.float64(b))) for a, b in TWO]
    same_bits(each(f"{name}.rn.f32 {{d}}, {{0}}, {{1}}", X, Y, out=np.float32), wanted)


@pytest.mark.parametrize(("rounding", "towards"), [("rz", 0), ("rm", -math.inf), ("rp", math.inf)])
def test_directed_roundings_bracket_the_exact_number(rounding: str, towards: float) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(300).astype(np.float32) for _ in range(2))
    for name, function in (*ARITHMETIC.items(), ("div", lambda x, y: x / y)):
        got = each(f"{name}.{rounding}.f32 {{d}}, {{0}}, {{1}}", a, b, out=np.float32)
        for x, y, g in zip(a, b, got, strict=True):
            exact = function(Fraction(float(x)), Fraction(float(y)))
            low, high = Fraction(float(g)), Fraction(float(g))
            if low != exact:
                up = towards > 0 or (towards == 0 and exact < 0)
                other = Fraction(float(np.nextafter(g, np.float32(-math.inf if up else math.inf))))
                low, high = (other, low) if up else (low, other)
                assert low < exact < high, (name, x, y, g)


@np.errstate(all="ignore")
def test_extremes_ignore_nan_unless_asked_and_know_the_sign_of_zero() -> None:
    def largest(a: float, b: float) -> float:
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        return max(a, b) if a or b else (a if math.copysign(1, a) > 0 else b)

    got = each("max.f32 {d}, {0}, {1}", X, Y, out=np.float32)
    same_bits(got, [largest(float(a), float(b)) for a, b in TWO])
    same_bits(each("min.f32 {d}, {0}, {1}", X, Y, out=np.float32), [-largest(-float(a), -float(b)) for a, b in TWO])
    nan = each("max.NaN.f32 {d}, {0}, {1}", X, Y, out=np.float32)
    assert np.isnan(nan).tolist() == (np.isnan(X) | np.isnan(Y)).tolist()


def test_ftz_flushes_operands_and_results() -> None:
    a = np.array([2.0**-127, -(2.0**-127), 2.0**-126], np.float32)
    b = np.array([1.0, 1.0, 0.5], np.float32)
    same_bits(each("mul.ftz.f32 {d}, {0}, {1}", a, b, out=np.float32), [0.0, -0.0, 0.0])
    same_bits(each("mul.f32 {d}, {0}, {1}", a, b, out=np.float32), [2.0**-127, -(2.0**-127), 2.0**-127])


def test_saturated_floats_are_from_0_to_1_and_nan_is_0() -> None:
    a = np.array([-1, -0.0, 0.25, 2, np.nan, np.inf], np.float32)
    same_bits(each("add.sat.f32 {d}, {0}, {0}", a, out=np.float32), [0.0, 0.0, 0.5, 1.0, 0.0, 1.0])


COMPARISONS: dict[str, tuple[bool, Callable[[float, float], bool]]] = {
    "eq": (False, lambda a, b: a == b), "ne": (False, lambda a, b: a != b), "lt": (False, lambda a, b: a < b),
    "geu": (True, lambda a, b: a >= b), "neu": (True, lambda a, b: a != b), "ltu": (True, lambda a, b: a < b),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_nan_hold_if_they_are_unordered(name: str) -> None:
    unordered, holds = COMPARISONS[name]
    wanted = [unordered if math.isnan(a) or math.isnan(b) else holds(a, b) for a, b in TWO.tolist()]
    text = f"setp.{name}.f32 %p1, {{0}}, {{1}};\nselp.u32 {{d}}, 1, 0, %p1"
    assert each(text, X, Y, out=np.uint32).astype(bool).tolist() == wanted


def test_comparisons_join_with_a_predicate_and_give_its_opposite() -> None:
    text = """setp.lt.s32 %p1, {0}, {1};
      setp.gt.and.u32 %p2|%p3, {0}, 5, !%p1;
      selp.b32 %r50, 1, 0, %p2;
      selp.b32 %r51, 2, 0, %p3;
      or.b32 {d}, %r50, %r51"""
    wanted = []
    for a, b in PAIRS.tolist():
        third = not signed(a) < signed(b)
        wanted.append((a > 5 and third) * 1 | (not a > 5 and third) * 2)
    assert each(text, A, B, out=np.uint32).tolist() == wanted


@np.errstate(all="ignore")
def test_packed_halves_are_rounded_each() -> None:
    rng = np.random.default_rng(5)
    for kind in ("f16", "bf16"):
        a, b, c = (encode(rng.standard_normal(512), kind) for _ in range(3))
        wide = [decode(x, kind).astype(np.float64) for x in (a, b, c)]
        wanted = encode(wide[0] * wide[1] + wide[2], kind)
        got = each(
            f"fma.rn.{kind}x2 {{d}}, {{0}}, {{1}}, {{2}}", *(x.view(np.uint32) for x in (a, b, c)), out=np.uint32
        )
        assert got.view(np.uint16).tolist() == wanted.tolist()


# ---------------------------------------------------------------- conversions


def test_floats_become_integers_rounded_and_clamped() -> None:
    a = np.array([0.5, 1.5, -1.5, 2.5, 3e9, -3e9, np.nan, np.inf, -0.6, 3e38], np.float32)
    least, most = -(1 << 31), (1 << 31) - 1
    nearest_even = [0, 2, -2, 2, most, least, 0, most, -1, most]
    assert each("cvt.rni.s32.f32 {d}, {0}", a, out=np.uint32).view(np.int32).tolist() == nearest_even
    assert each("cvt.rzi.u32.f32 {d}, {0}", a, out=np.uint32).tolist() == [
        0, 1, 0, 2, 3000000000, 0, 0, WORD - 1, 0, WORD - 1
    ]  # fmt: skip
    assert each("cvt.rmi.s64.f32 {d}, {0}", a, out=np.uint64).view(np.int64).tolist() == [
        0, 1, -2, 2, 3000000000, -3000000000, -(1 << 63), (1 << 63) - 1, -1, (1 << 63) - 1
    ]  # fmt: skip


def test_integers_become_floats_rounded() -> None:
    a = np.array([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 16777217, 0x80000000, 33554435], np.uint32)
    same_bits(each("cvt.rn.f32.u32 {d}, {0}", a, out=np.float32), [nearest(Fraction(int(x))) for x in a])
    same_bits(each("cvt.rn.f32.s32 {d}, {0}", a, out=np.float32), [nearest(Fraction(signed(int(x)))) for x in a])
    down = each("cvt.rz.f32.u32 {d}, {0}", a, out=np.float32)
    assert down.astype(np.float64).tolist() == [0, 1, 2147483520.0, 4294967040.0, 16777216, 2147483648, 33554432]


def test_integers_are_cut_extended_and_saturated() -> None:
    assert each("cvt.s64.s32 {d}, {0}", U32, out=np.uint64).tolist() == [signed(int(a)) % (1 << 64) for a in U32]
    assert each("cvt.u32.u16 {d}, {0}", U32.astype(np.uint16), out=np.uint32).tolist() == (U32 & 0xFFFF).tolist()
    assert each("cvt.sat.s8.s32 {d}, {0}", U32, out=np.uint32).view(np.int32).tolist() == [
        max(-128, min(127, signed(int(a)))) for a in U32
    ]


def test_pairs_are_packed_with_the_first_operand_above() -> None:
    got = each("cvt.rn.bf16x2.f32 {d}, {0}, {1}", X, Y, out=np.uint32)
    assert (got >> 16).tolist() == encode(X, "bf16").tolist() and (got & 0xFFFF).tolist() == encode(Y, "bf16").tolist()
    small = each("cvt.rn.satfinite.e4m3x2.f32 {d}, {0}, {1}", X, Y, out=np.uint16)
    assert (small >> 8).tolist() == encode(X, "e4m3", "rn", True).tolist()
    wide = each("cvt.rn.f16x2.e4m3x2 {d}, {0}", small, out=np.uint32)
    assert (wide & 0xFFFF).tolist() == encode(decode((small & 0xFF).astype(np.uint8), "e4m3"), "f16").tolist()


def test_halves_are_widened_exactly_and_rounded_back() -> None:
    every = np.arange(0, 1 << 16, 67, dtype=np.uint16)
    for kind in ("f16", "bf16"):
        wide = each(f"cvt.f32.{kind} {{d}}, {{0}}", every, out=np.float32)
        same_bits(wide, decode(every, kind).astype(np.float32).tolist())
        assert each(f"cvt.rn.{kind}.f32 {{d}}, {{0}}", wide, out=np.uint16).tolist() == encode(wide, kind).tolist()


def test_f64_is_rounded_once() -> None:
    numbers = [1.0, 1 / 3, -2.5e300, 2.0**-1074, 1e16, 1 + 2.0**-52, -1 / 3]
    triples = [(a, b, c) for a in numbers for b in numbers for c in (1.0, -1e-17, 1e300)]
    a, b, c = (np.array([t[i] for t in triples]) for i in range(3))
    got = each("fma.rn.f64 {d}, {0}, {1}, {2}", a, b, c, out=np.float64)
    for x, y, z, g in zip(a, b, c, got, strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        try:
            wanted = exact.numerator / exact.denominator
        except OverflowError:
            wanted = math.inf if exact > 0 else -math.inf
        assert struct.pack("<d", g) == struct.pack("<d", wanted)
