"""The descriptors that `tcgen05.mma` takes, made of what they say: numbers that ptxas cannot check.

PTX ISA, "tcgen05 Instruction Descriptor", "tcgen05 Shared Memory Descriptor" and "tcgen05 Supported Matrix Shapes".
What reads them back (`twill.codegen.verify.ptx.units.tcgen05_descriptors`) shares no line with this.
"""

from __future__ import annotations

ACCUMULATORS = {"f16": 0, "f32": 1, "s32": 2}
OPERANDS: dict[str, tuple[str, int]] = {
    "f16": ("f16", 0), "bf16": ("f16", 1), "tf32": ("tf32", 2), "u8": ("i8", 0), "s8": ("i8", 1),
    "e4m3": ("f8f6f4", 0), "e5m2": ("f8f6f4", 1), "e2m3": ("f8f6f4", 3), "e3m2": ("f8f6f4", 4), "e2m1": ("f8f6f4", 5),
}  # fmt: skip
"""Of an operand's type: the kind of its products, and its code in that kind."""
SUB_BYTE = ("e2m3", "e3m2", "e2m1")
"""Types that lie along K only."""


def instruction_descriptor(
    m: int, n: int, d: str, a: str, b: str, *, a_mn_major: bool = False, b_mn_major: bool = False, pair: bool = False
) -> int:
    """The 32 bits of a product of m x n elements. m: with `pair`, the rows of both CTAs. d, a, b: types of elements.

    ValueError: there is no such product.
    """
    (kind, a_code), (other, b_code) = OPERANDS[a], OPERANDS[b]
    if kind != other or not _accumulates(kind, d):
        raise ValueError(f"there is no product {d} of {a} and {b}")
    if a_mn_major and a in SUB_BYTE or b_mn_major and b in SUB_BYTE:
        raise ValueError(f"{', '.join(SUB_BYTE)} lie along K only")
    if not has_shape(kind, m, n, pair):
        raise ValueError(f"there is no product of {m} x {n} of kind {kind}{' by a pair of CTAs' if pair else ''}")
    bits = ACCUMULATORS[d] << 4 | a_code << 7 | b_code << 10
    return bits | a_mn_major << 15 | b_mn_major << 16 | n // 8 << 17 | m // 16 << 24


SCALED: dict[tuple[str, str, int], tuple[str, int]] = {
    ("f8e4m3", "i8", 32): ("mxf8f6f4", 1), ("f8e5m2", "i8", 32): ("mxf8f6f4", 1), ("e2m1", "i8", 32): ("mxf8f6f4", 1),
    ("i8", "i8", 32): ("mxf4", 2), ("i8", "f8e4m3", 16): ("mxf4nvf4", 4),
}  # fmt: skip
"""Of the element type of tiles (i8: two of e2m1; e2m1: 16 of them in 16 bytes), that of scales (i8: e8m0) and elements
of a block: the kind of products with scales, and how many scales of a row a product reads."""
SCALED_OPERANDS = {"f8e4m3": 0, "f8e5m2": 1, "e2m1": 5, "i8": 1}  # codes of A and B in those kinds
SCALE_TYPES = {"f8e4m3": 0, "i8": 1}


def scaled_instruction_descriptor(
    m: int, n: int, operand: str, scale: str, pair: bool = False, operand_b: str = ""
) -> int:
    """The 32 bits of a product of m x n with scales of blocks, K-major, f32; which scales it reads is for the caller to
    add: bits 4-5 of B, 29-30 of A, the first byte of a word. m: with `pair`, the rows of both CTAs. operand, scale: as
    in `SCALED`; operand_b: of B, if it is another one.

    ValueError: there is no such product.
    """
    step = 16 if pair else 8
    if m != (256 if pair else 128) or n % step or not step <= n <= 256:
        raise ValueError(f"there is no product of {m} x {n} with scales of blocks")
    code, code_b = SCALED_OPERANDS[operand], SCALED_OPERANDS[operand_b or operand]
    return code << 7 | code_b << 10 | n // 8 << 17 | SCALE_TYPES[scale] << 23 | m // 16 << 24


def has_shape(kind: str, m: int, n: int, pair: bool = False) -> bool:
    """Whether a product of m x n exists, A in shared memory. kind: f16, tf32, f8f6f4 or i8."""
    if m not in ((128, 256) if pair else (64, 128)) or n > 256:
        return False
    if kind == "i8":
        step = 32 if pair else 16
        return n >= step and n % step == 0 or n == 8 and not pair
    step = 8 if m == 64 else 16
    return n >= step and n % step == 0


def _accumulates(kind: str, d: str) -> bool:
    return d in {"f16": ("f16", "f32"), "tf32": ("f32",), "f8f6f4": ("f16", "f32"), "i8": ("s32",)}[kind]
