"""Products with scales of blocks in Triton's and Gluon's PTX for sm_100a: right numbers, and wrong ones if misread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout

from tests import stranger_clusters, stranger_kernels
from tests.as_far_as_ptx import compiled_to_ptx
from tests.codegen.verify.ptx import test_strangers_blackwell as strangers
from tests.codegen.verify.ptx.test_strangers_blackwell import BLACKWELL, KNOWN, REUSED, Bits, replaced
from tests.ptx_programs import rules
from twill.codegen.print.cuda.tcgen05_descriptors import scaled_instruction_descriptor
from twill.codegen.verify.ptx import tcgen05_copies, tcgen05_scales
from twill.codegen.verify.ptx.run import Argument, MapOf, Result
from twill.codegen.verify.ptx.units import block_scales, tcgen05
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor, SharedMatrixDescriptor
from twill.ptx.formats import decode

pytestmark = pytest.mark.usefixtures("quiet")
quiet = strangers.quiet

Patch = pytest.MonkeyPatch
Case = tuple[str, str, int]
"""Types of A and B, elements of a block."""
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
MXFP8, MXFP4, NVFP4, MIXED = ("e4m3", "e4m3", 32), ("e2m1", "e2m1", 32), ("e2m1", "e2m1", 16), ("e4m3", "e2m1", 32)


def operand(seed: int, kind: str, rows: int, k: int) -> tuple[Bits, Bits]:
    """Bits in memory, two elements of 4 bits to a byte, and numbers."""
    rng = np.random.default_rng(seed)
    if kind == "e2m1":
        bits = rng.integers(0, 256, (rows, k // 2)).astype(np.uint8)
        codes = np.stack([bits & 0xF, bits >> 4], axis=-1).reshape(rows, k)
        return bits, np.where(codes & 8, -1, 1) * E2M1[codes & 7]
    bits = (rng.integers(0, 0x70, (rows, k)) | rng.integers(0, 2, (rows, k)) << 7).astype(np.uint8)
    return bits, decode(bits, kind).astype(np.float64)


def scales(seed: int, vec: int, rows: int, k: int) -> tuple[Bits, Bits]:
    """Of type ue8m0 for blocks of 32, ue4m3 for blocks of 16."""
    rng = np.random.default_rng(seed)
    if vec == 32:
        bits = rng.integers(120, 135, (rows, k // vec)).astype(np.uint8)
        return bits, np.ldexp(1.0, bits.astype(np.int64) - 127)
    bits = rng.integers(0x28, 0x48, (rows, k // vec)).astype(np.uint8)
    return bits, decode(bits, "e4m3").astype(np.float64)


def tensors(case: Case, m: int, n: int, k: int) -> tuple[dict[str, Bits], Bits]:
    """All that a GEMM gets, and the product."""
    (a, a_numbers), (b, b_numbers) = operand(1, case[0], m, k), operand(2, case[1], n, k)
    (sa, sa_numbers), (sb, sb_numbers) = scales(3, case[2], m, k), scales(4, case[2], n, k)
    wanted = (a_numbers * sa_numbers.repeat(case[2], 1)) @ (b_numbers * sb_numbers.repeat(case[2], 1)).T
    return {"a": a, "b": b, "sa": sa, "sb": sb, "c": np.zeros((m, n), np.float32)}, wanted


def in_blocks(bits: Bits) -> Bits:
    """Scales as the copy to tensor memory wants them: 128 rows x 4 scales in 512 bytes, rows 32 apart side by side."""
    rows, count = bits.shape
    blocks = bits.reshape(rows // 128, 4, 32, count // 4, 4).transpose(0, 3, 2, 1, 4)
    return np.ascontiguousarray(blocks).reshape(1, rows // 128, count // 4, 2, 256)


def is_right(result: Result, wanted: Bits) -> bool:
    return bool(np.abs(result.tensors["c"] - wanted).max() <= 2**-20 * np.abs(wanted).max())


# ---------------------------------------------------------------- stock Triton


@cache
def stock(case: Case, blocks: tuple[int, int, int], described: bool) -> Any:
    a, b, vec = case
    m, n, k = blocks
    constants = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "A": a, "B": b, "VEC": vec}
    kinds, scale = {"e4m3": "fp8e4nv", "e2m1": "u8"}, "u8" if vec == 32 else "fp8e4nv"
    fn: Any = stranger_kernels.scaled_gemm
    types: dict[str, str] = {"a": f"*{kinds[a]}", "b": f"*{kinds[b]}", "sa": f"*{scale}", "sb": f"*{scale}",
                             "c": "*fp32", "N": "i32", "K": "i32"}  # fmt: skip
    if described:
        fn = stranger_kernels.scaled_gemm_by_descriptors
        per_a, per_b = (2 if kind == "e2m1" else 1 for kind in (a, b))
        block = f"{k // vec // 4},2,256]>"
        types = {
            "a": f"tensordesc<{kinds[a]}[{m},{k // per_a}]>", "b": f"tensordesc<{kinds[b]}[{n},{k // per_b}]>",
            "sa": f"tensordesc<{scale}[1,{m // 128},{block}", "sb": f"tensordesc<{scale}[1,{n // 128},{block}",
            "c": f"tensordesc<fp32[{m},{n}]>", "K": "i32",
        }  # fmt: skip
    source = ASTSource(fn, {**types, **dict.fromkeys(constants, "constexpr")}, constexprs=constants, attrs={})
    return compiled_to_ptx(source, BLACKWELL, {"num_warps": 4, "num_stages": 2})


def maps(kernel: Any, given: dict[str, Bits], names: Sequence[str]) -> list[Argument]:
    """Tensor maps as the compiled kernel wants them, each with its sizes and strides."""
    found: list[Argument] = []
    for name, meta in zip(names, kernel.metadata.tensordesc_meta, strict=True):
        tensor = given[name]
        kind = {1: "UINT8", 2: "BFLOAT16", 4: "FLOAT32"}[tensor.itemsize]
        strides, box, dims = tuple(tensor.strides[-2::-1]), tuple(meta["block_size"][::-1]), tensor.shape[::-1]
        if meta["fp4_padded"]:
            kind, dims = "16U4_ALIGN16B", (2 * dims[0], *dims[1:])
        swizzle = {0: 0, 1: 32, 2: 64, 3: 128}[meta["swizzle"]]
        found.append(MapOf(name, kind, dims, strides, box, swizzle))
        found += [*tensor.shape, *(stride // tensor.itemsize for stride in tensor.strides)]
    return found


def by_pointers(case: Case) -> tuple[Result, Bits]:
    given, wanted = tensors(case, 128, 128, 256)
    kernel = stock(case, (128, 128, 128), described=False)
    return strangers.run(kernel, [*strangers.pointers(*given), 128, 256], given, (1, 1, 1)), wanted


@pytest.mark.parametrize("case", [MXFP8, MXFP4, NVFP4, MIXED])
def test_scales_that_threads_store_to_tensor_memory(case: Case) -> None:
    """Stock `tl.dot_scaled` with tensors behind pointers."""
    result, wanted = by_pointers(case)
    assert rules(result) <= KNOWN
    assert is_right(result, wanted)


def by_descriptors(case: Case, blocks: tuple[int, int, int], change: Callable[[str], str] = str) -> tuple[Result, Bits]:
    m, n, k = blocks
    given, wanted = tensors(case, m, n, 2 * k)
    given |= {name: in_blocks(given[name]) for name in ("sa", "sb")}
    kernel = stock(case, blocks, described=True)
    arguments = [*maps(kernel, given, list(given)), 2 * k]
    return strangers.run(kernel, arguments, given, (1, 1, 1), change), wanted


@pytest.mark.parametrize(
    ("case", "blocks"),
    [(MXFP8, (128, 128, 128)), (NVFP4, (128, 128, 256)), (MXFP4, (128, 256, 256)), (MIXED, (128, 256, 128))],
)
def test_scales_that_are_copied_to_tensor_memory(case: Case, blocks: tuple[int, int, int]) -> None:
    """Stock `tl.dot_scaled` with tensor maps: `tcgen05.cp`, and what it orders."""
    result, wanted = by_descriptors(case, blocks)
    assert rules(result) <= KNOWN | REUSED
    assert is_right(result, wanted)


# ---------------------------------------------------------------- Gluon, pairs


@cache
def gluon_kernel(case: Case, pair: bool, n: int, k: int) -> Any:
    a, b, vec = case
    m, cga = (256, ((1, 0),)) if pair else (128, ())
    types: dict[str, tuple[str, Any]] = {"e4m3": ("fp8e4nv", gl.float8e4nv), "e2m1": ("u8", gl.uint8)}
    scale = "u8" if vec == 32 else "fp8e4nv"

    def matrix(kind: str, rows: int) -> str:
        shape = [rows, k // 2 if kind == "e2m1" else k]
        layout = gl.NVMMASharedLayout.get_default_for(shape, types[kind][1], cga_layout=cga)
        return f"tensordesc<{types[kind][0]}[{shape[0]},{shape[1]}],{layout!r}>"

    def blocks(rows: int, split: int) -> str:
        layout = gl.NVMMASharedLayout(0, 8, 5, cga_layout=[[0, split, 0, 0, 0]] if pair else [])
        return f"tensordesc<{scale}[1,{rows // 128},{k // vec // 4},2,256],{layout!r}>"

    out = gl.NVMMASharedLayout.get_default_for([m, n], gl.float32, cga_layout=cga)
    accumulator = TensorMemoryLayout((128, n), 1, cga_layout=[list(basis) for basis in cga], two_ctas=pair)
    constants = {"ACC": accumulator, "VEC": vec, "A": a, "B": b}
    signature = {
        "a_desc": matrix(a, m), "b_desc": matrix(b, n), "sa_desc": blocks(m, 1), "sb_desc": blocks(n, 0),
        "c_desc": f"tensordesc<fp32[{m},{n}],{out!r}>", "K": "i32", **dict.fromkeys(constants, "constexpr"),
    }  # fmt: skip
    source = GluonASTSource(stranger_clusters.scaled_gemm, signature, constexprs=constants)
    return compiled_to_ptx(source, BLACKWELL, {"num_warps": 4, "num_ctas": 1 + pair})


def gluon(case: Case, pair: bool, n: int, k: int, change: Callable[[str], str] = str) -> tuple[Result, Bits]:
    given, wanted = tensors(case, 256 if pair else 128, n, 2 * k)
    given |= {name: in_blocks(given[name]) for name in ("sa", "sb")}
    kernel = gluon_kernel(case, pair, n, k)
    arguments = [*maps(kernel, given, list(given)), 2 * k]
    return strangers.run(kernel, arguments, given, (1 + pair, 1, 1), change), wanted


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize(("case", "n", "k"), [(MXFP8, 128, 128), (NVFP4, 256, 256)])
def test_scales_of_gluon(case: Case, n: int, k: int, pair: bool) -> None:
    """Of a pair of CTAs each has the scales of its rows of A and of all of B, multicast to both."""
    result, wanted = gluon(case, pair, n, k)
    assert rules(result) <= KNOWN | REUSED
    assert is_right(result, wanted)


@pytest.mark.parametrize(
    ("case", "n", "k", "types", "first_bytes"),
    [(MXFP8, 128, 128, ("f8e4m3", "i8"), (0, 1, 2, 3)), (NVFP4, 256, 256, ("i8", "f8e4m3"), (0,))],
)  # fmt: skip
def test_descriptors_of_a_pair_with_scales_are_those_that_twill_encodes(
    case: Case, n: int, k: int, types: tuple[str, str], first_bytes: tuple[int, ...]
) -> None:
    mine = scaled_instruction_descriptor(256, n, *types, pair=True)
    text = gluon_kernel(case, True, n, k).asm["ptx"]
    assert [first for first in range(4) if f", {mine | first << 4 | first << 29};" in text] == [*first_bytes]


# ---------------------------------------------------------------- misreadings


def field_of_the_instruction(name: str, value: Any) -> Callable[[Patch], None]:
    def patch(monkeypatch: Patch) -> None:
        right = InstructionDescriptor.decoded
        monkeypatch.setattr(
            InstructionDescriptor, "decoded", lambda bits, kind: replace(right(bits, kind), **{name: value})
        )

    return patch


def stride_of_a_copy(monkeypatch: Patch) -> None:
    """Rows of scales are 16 bytes apart, eight of them 128."""
    right = SharedMatrixDescriptor.decoded

    def wrong(bits: int) -> SharedMatrixDescriptor:
        where = right(bits)
        return where if where.swizzle else replace(where, stride=256)

    monkeypatch.setattr(SharedMatrixDescriptor, "decoded", wrong)


def lanes_of_scales(monkeypatch: Patch) -> None:
    def wrong(rows: int) -> tuple[Any, Any]:
        lanes, columns = block_scales.places(rows)
        return lanes[:, ::-1], columns

    monkeypatch.setattr(tcgen05_scales, "places", wrong)


def columns_of_scales(monkeypatch: Patch) -> None:
    def wrong(rows: int) -> tuple[Any, Any]:
        lanes, columns = block_scales.places(rows)
        return lanes, columns[:, ::-1]

    monkeypatch.setattr(tcgen05_scales, "places", wrong)


def one_quarter_of_a_copy(monkeypatch: Patch) -> None:
    monkeypatch.setitem(tcgen05_copies._COPIES, "32x128b.warpx4", (0,))


def high_half_first(monkeypatch: Patch) -> None:
    right = block_scales.narrow
    swapped = lambda chunks, kind: right((chunks >> 4 | chunks << 4).astype(np.uint8), kind)  # noqa: E731
    monkeypatch.setattr(tcgen05, "narrow", swapped)


@pytest.mark.parametrize(
    ("case", "misread"),
    [(MXFP8, field_of_the_instruction("scale_ids", (0, 0))), (MXFP4, field_of_the_instruction("scale_ids", (0, 0))),
     (NVFP4, field_of_the_instruction("scale", "ue8m0")), (MXFP8, field_of_the_instruction("scale", "ue4m3")),
     (MXFP8, stride_of_a_copy), (MXFP8, lanes_of_scales), (MXFP8, columns_of_scales), (MXFP8, one_quarter_of_a_copy),
     (MIXED, high_half_first), (MIXED, field_of_the_instruction("a", "e5m2")),
     (MIXED, field_of_the_instruction("b", "e4m3"))],
)  # fmt: skip
def test_scales_that_are_misread_make_the_gemm_wrong(
    case: Case, misread: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    misread(monkeypatch)
    by_descriptor = {MXFP8: (128, 128, 128), MXFP4: (128, 256, 256), NVFP4: (128, 128, 256)}
    assert is_wrong(*(by_descriptors(case, by_descriptor[case]) if case in by_descriptor else by_pointers(case)))


def is_wrong(result: Result, wanted: Bits) -> bool:
    return bool(rules(result) - KNOWN - REUSED) or not is_right(result, wanted)


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("pair", "pattern", "by", "rule"),
    [(False, r"@%p\d+ tcgen05\.cp[^;]*;", "", ""),  # scales are what tensor memory held: the numbers are wrong
     (False, r"(tcgen05\.cp\S* \[ )(%r\d+)( \+ )0", r"\g<1>\2\g<3>1", ""),
     (False, r"@%p\d+ tcgen05\.commit[^;]*;", "", "deadlock"),
     (True, r"(expect_tx\S* _, \[\S*\], )\d+;", r"\g<1>16384;", "deadlock")],
)  # fmt: skip
def test_what_is_wrong_with_scales_is_found(pair: bool, pattern: str, by: str, rule: str) -> None:
    result, wanted = gluon(MXFP8, pair, 128, 128, replaced(pattern, by))
    assert rule in rules(result) if rule else not is_right(result, wanted)
