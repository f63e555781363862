"""What the descriptors of `tcgen05.mma` say: 32 bits about the instruction, 64 bits about a matrix in shared memory.

PTX ISA, "tcgen05 Instruction Descriptor" and "tcgen05 Shared Memory Descriptor".
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.verify.ptx.units.wgmma import MatrixDescriptor

_F16_OR_F32 = {0: "f16", 1: "f32"}
_D = {"f16": _F16_OR_F32, "tf32": {1: "f32"}, "f8f6f4": _F16_OR_F32, "i8": {2: "s32"}}
_OPERANDS = {
    "f16": {0: "f16", 1: "bf16"},
    "tf32": {2: "tf32"},
    "f8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "i8": {0: "u8", 1: "s8"},
    "mxf8f6f4": {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"},
    "mxf4": {1: "e2m1x2"},
    "mxf4nvf4": {1: "e2m1x2"},
}
SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
"""Kinds of products whose operands have scales, one of a block of elements along K."""
_SCALES = {0: "ue4m3", 1: "ue8m0"}
_SWIZZLES = {0: 0, 2: 128, 4: 64, 6: 32}
_ATOMS_OF_32 = 1
_VERSION = 1


@dataclass(frozen=True)
class InstructionDescriptor:
    """What is multiplied. d, a, b: types of elements; negated, mn_major: of A and of B; m, n: rows of A and of B, of a
    pair of CTAs those of both. scale: type of scales of blocks, "" without; scale_ids: of A and of B the first byte
    that has them, in a word of tensor memory."""

    d: str
    a: str
    b: str
    negated: tuple[bool, bool]
    mn_major: tuple[bool, bool]
    m: int
    n: int
    saturate: bool = False
    scale: str = ""
    scale_ids: tuple[int, int] = (0, 0)

    @classmethod
    def decoded(cls, bits: int, kind: str) -> InstructionDescriptor:
        """Of a product of all elements. kind: f16, tf32, f8f6f4, i8, or with block scales mxf8f6f4, mxf4, mxf4nvf4.

        Bits 0-2 sparsity, 3 saturation of i8, 4-5 type of D (with block scales f32, and here the byte of B's), 7-9 and
        10-12 types of A and B, 13 and 14 negations of A and B, 15 and 16 whether A and B lie along M and N, 17-22
        N / 8, 23 type of scales, 24-28 M / 16, 29-30 the byte of A's scales, 31 K of 96 (sm_103a).

        ValueError: a type that the kind has not, sparsity, bits that must be zero (saturation but for i8, negations
        for i8).
        """
        scaled = kind in SCALED
        if bits & 0x7:
            raise ValueError(f"instruction descriptor {bits:#010x}: a sparse product")
        if not scaled and bits & 0xE0800040:
            raise ValueError(f"instruction descriptor {bits:#010x}: bits 6, 23 and 29 to 31 are not zero")
        if not scaled and bits & (0x6000 if kind == "i8" else 0x8):
            raise ValueError(f"instruction descriptor {bits:#010x}: kind {kind} has no saturation or no negation")
        if scaled and bits & 0x87000048:
            raise ValueError(f"instruction descriptor {bits:#010x}: bits 3, 6, 24 to 26 and 31 are not zero")
        operands, results = _OPERANDS[kind], _D.get(kind, {1: "f32"})
        d, a, b = 1 if scaled else bits >> 4 & 0x3, bits >> 7 & 0x7, bits >> 10 & 0x7
        if d not in results or a not in operands or b not in operands:
            raise ValueError(f"instruction descriptor {bits:#010x}: kind {kind} has no types {d} = {a} x {b}")
        return cls(
            d=results[d],
            a=operands[a],
            b=operands[b],
            negated=(bool(bits >> 13 & 1), bool(bits >> 14 & 1)),
            mn_major=(bool(bits >> 15 & 1), bool(bits >> 16 & 1)),
            n=(bits >> 17 & 0x3F) * 8,
            m=(bits >> 24 & 0x1F) * 16,
            saturate=bool(bits >> 3 & 1),
            scale=_SCALES[bits >> 23 & 1] if scaled else "",
            scale_ids=(bits >> 29 & 0x3, bits >> 4 & 0x3) if scaled else (0, 0),
        )


def has_columns(kind: str, m: int, n: int, ctas: int, from_tensor: bool) -> bool:
    """Whether a product of m rows can have n columns. from_tensor: A lies in tensor memory.

    PTX ISA, "tcgen05: Matrix shape": steps of 8 for 64 rows and with block scales, of 16 for 128 rows, of 32 for pairs
    whose A is in tensor memory or whose elements are integers; integers of 64 rows have 8, 24 or steps of 16.
    """
    if kind in SCALED:
        step = 8 * ctas
    elif ctas > 1:
        step = 32 if from_tensor or kind == "i8" else 16
    else:
        step = 8 if m == 64 and (kind != "i8" or n in (8, 24)) else 16
    return 0 < n <= 256 and n % step == 0


@dataclass(frozen=True)
class SharedMatrixDescriptor(MatrixDescriptor):
    """Where a matrix lies in shared memory, in the same terms as for `wgmma`."""

    @classmethod
    def decoded(cls, bits: int) -> SharedMatrixDescriptor:
        """Bits 0-13 address, 16-29 leading byte offset, 32-45 stride byte offset (each without its low 4 bits), 46-48
        the version 1, 49-51 base offset, 52 mode of the leading offset, 61-63 swizzle.

        ValueError: another version, a leading offset that is an address, a swizzle of 128 bytes in atoms of 32 (which
        is not executed) or one that does not exist, bits that must be zero.
        """
        swizzle = bits >> 61 & 0x7
        if bits >> 46 & 0x7 != _VERSION:
            raise ValueError(f"matrix descriptor {bits:#018x}: version {bits >> 46 & 0x7}, not {_VERSION}")
        if bits >> 52 & 1:
            raise ValueError(f"matrix descriptor {bits:#018x}: the leading offset is an address, which is not executed")
        if bits & 0x1FE0_0000_C000_C000:
            raise ValueError(f"matrix descriptor {bits:#018x}: bits 14, 15, 30, 31 and 53 to 60 are not zero")
        if swizzle == _ATOMS_OF_32:
            raise ValueError(f"matrix descriptor {bits:#018x}: the swizzle in atoms of 32 bytes is not executed")
        if swizzle not in _SWIZZLES:
            raise ValueError(f"matrix descriptor {bits:#018x}: there is no swizzle {swizzle}")
        return cls(
            start=(bits & 0x3FFF) << 4,
            leading=(bits >> 16 & 0x3FFF) << 4,
            stride=(bits >> 32 & 0x3FFF) << 4,
            base=bits >> 49 & 0x7,
            swizzle=_SWIZZLES[swizzle],
        )
