"""Triton's and Gluon's own PTX for sm_100a computes the right numbers in the executor; misread it does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon import language as gl
from triton.experimental.gluon._runtime import GluonASTSource

from tests import stranger_gluon, stranger_kernels
from tests.as_far_as_ptx import compiled_to_ptx
from tests.matrix_descriptors import matrix_descriptor
from tests.ptx_programs import made_afresh, rules
from twill.codegen.print.cuda.tcgen05_descriptors import instruction_descriptor
from twill.codegen.verify.ptx import tcgen05_memory, tcgen05_multiplies, tcgen05_registers
from twill.codegen.verify.ptx.run import Argument, MapOf, PointerArgument, PtxLaunch, Result, execute
from twill.codegen.verify.ptx.units.tcgen05_descriptors import InstructionDescriptor, SharedMatrixDescriptor
from twill.codegen.verify.ptx.units.tensor_memory import moved, rows_of
from twill.ptx.formats import decode, encode
from twill.ptx.parse import parse

pytestmark = pytest.mark.usefixtures("quiet")

BLACKWELL = GPUTarget("cuda", 100, 32)
Bits = NDArray[Any]
Change = Callable[[str], str]
FENCES = {"tcgen05-fence"}
"""Triton 3.9 prints no `tcgen05.fence`."""
KNOWN = {"tcgen05-registers", *FENCES}
"""Triton 3.9 lets registers of a `tcgen05.ld` be used in front of its `wait::ld`, and leaves the order to ptxas."""
REUSED = {"proxy-fence", *FENCES}
"""Its copies overwrite the word from which threads read the address of tensor memory, with no fence behind that."""


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton 3.9 warns without it."""
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")


@cache
def stock(name: str, element: str, blocks: tuple[tuple[str, int], ...], warps: int = 4) -> Any:
    """A kernel of `stranger_kernels`."""
    constants = dict(blocks)
    signature = {
        "gemm": {"a": element, "b": element, "c": "*bf16", "M": "i32", "N": "i32", "K": "i32"},
        "attention": {**dict.fromkeys("qkvo", element), "N": "i32", "scale": "fp32"},
        "onto": {"a": element, "b": element, "c": "*i32"},
        "gemm_by_descriptors": {
            "a": f"tensordesc<{element}[128,64]>", "b": f"tensordesc<{element}[64,64]>",
            "c": f"tensordesc<{element}[128,64]>", "K": "i32",
        },
        "gemm_by_roles": {
            **{x: f"tensordesc<{element}[128,64]>" for x in "ab"}, "c": f"tensordesc<{element}[128,128]>",
            **dict.fromkeys("MNK", "i32"),
        },
        "attention_by_roles": {
            "q": f"tensordesc<{element}[128,64]>", **{x: f"tensordesc<{element}[64,64]>" for x in "kv"},
            "o": f"tensordesc<{element}[128,64]>", "N": "i32", "scale": "fp32",
        },
    }[name]  # fmt: skip
    source = ASTSource(
        fn=getattr(stranger_kernels, name),
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
        constexprs=constants,
        attrs={},
    )
    return compiled_to_ptx(source, BLACKWELL, {"num_warps": warps, "num_stages": 2})


def run(
    kernel: Any,
    arguments: Sequence[Argument],
    tensors: Mapping[str, Bits],
    grid: tuple[int, int, int],
    change: Change = str,
) -> Result:
    """change: of the PTX, before it runs."""
    metadata = kernel.metadata
    threads = 32 * metadata.num_warps
    launch = PtxLaunch(arguments, tensors, grid, threads, metadata.shared, metadata.num_ctas, scattered_budgets=True)
    return execute(parse(change(kernel.asm["ptx"])), metadata.name, launch)


def numbers(bits: Bits, kind: str) -> Bits:
    return (bits if kind in ("f32", "s8") else decode(bits, kind)).astype(np.float64)


def random(seed: int, kind: str, *shape: int) -> Bits:
    rng = np.random.default_rng(seed)
    if kind == "s8":
        return rng.integers(-128, 128, shape).astype(np.int8)
    values = rng.standard_normal(shape).astype(np.float32)
    return values if kind == "f32" else encode(values, kind)


def error(found: Bits, wanted: Bits) -> float:
    """Largest difference beside the largest number."""
    return float(np.abs(numbers(found, "bf16") - wanted).max() / np.abs(wanted).max())


def pointers(*names: str) -> list[Argument]:
    return [PointerArgument(name) for name in names]


@pytest.mark.parametrize(
    ("kind", "element", "rows", "depth", "warps"),
    [("bf16", "*bf16", 128, 64, 4), ("bf16", "*bf16", 64, 64, 4), ("bf16", "*bf16", 128, 64, 8),
     ("f32", "*fp32", 128, 32, 4), ("e4m3", "*fp8e4nv", 128, 64, 4), ("s8", "*i8", 128, 64, 4)],
)  # fmt: skip
def test_a_gemm_of_stock_triton(kind: str, element: str, rows: int, depth: int, warps: int) -> None:
    m, n, k = rows - 3, 60, depth + 20
    a, b = random(1, kind, m, k), random(2, kind, k, n)
    kernel = stock("gemm", element, (("BLOCK_M", rows), ("BLOCK_N", 64), ("BLOCK_K", depth)), warps)
    tensors = {"a": a, "b": b, "c": np.zeros((m, n), np.uint16)}
    operand, sums = "tf32" if kind == "f32" else kind, "s32" if kind == "s8" else "f32"
    does = instruction_descriptor(rows, 64, sums, operand, operand, b_mn_major=kind != "f32")
    assert "tcgen05.mma" in kernel.asm["ptx"] and f", {does};" in kernel.asm["ptx"]
    result = run(kernel, [*pointers("a", "b", "c"), m, n, k], tensors, (1, 1, 1))
    assert rules(result) <= KNOWN
    assert error(result.tensors["c"], numbers(a, kind) @ numbers(b, kind)) < 2**-8


@pytest.mark.parametrize("rows", [64, 128])
def test_attention_of_stock_triton(rows: int) -> None:
    result, wanted = attention(rows)
    assert rules(result) <= KNOWN
    assert error(result.tensors["o"], wanted) < 2**-7


def attention(rows: int, change: Change = str) -> tuple[Result, Bits]:
    n, d = 100, 64
    q, k, v = (random(seed, "bf16", n, d) for seed in (3, 4, 5))
    kernel = stock("attention", "*bf16", (("D", d), ("BLOCK_M", rows), ("BLOCK_N", 64)))
    tensors = {"q": q, "k": k, "v": v, "o": np.zeros((n, d), np.uint16)}
    result = run(kernel, [*pointers(*"qkvo"), n, 0.125], tensors, (-(-n // rows), 1, 1), change)
    scores = numbers(q, "bf16") @ numbers(k, "bf16").T * 0.125
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    return result, weights / weights.sum(1, keepdims=True) @ numbers(v, "bf16")


def test_a_gemm_of_stock_triton_with_tensor_maps() -> None:
    m, n, k = 120, 56, 136
    tensors = {"a": random(6, "bf16", m, k), "b": random(7, "bf16", k, n), "c": np.zeros((m, n), np.uint16)}
    kernel = stock("gemm_by_descriptors", "bf16", (("BLOCK_M", 128), ("BLOCK_N", 64), ("BLOCK_K", 64)))
    arguments = [x for name in "abc" for x in described(name, tensors[name], (64, 64 if name == "b" else 128))]
    result = run(kernel, [*arguments, k], tensors, (1, 1, 1))
    assert rules(result) <= KNOWN | REUSED
    wanted = numbers(tensors["a"], "bf16") @ numbers(tensors["b"], "bf16")
    assert error(result.tensors["c"], wanted) < 2**-8


def test_a_persistent_gemm_whose_roles_triton_decides() -> None:
    m, n, k = 256, 128, 192
    a, b = random(10, "bf16", m, k), random(11, "bf16", n, k)
    tensors = {"a": a, "b": b, "c": np.zeros((m, n), np.uint16)}
    kernel = stock("gemm_by_roles", "bf16", (("BLOCK_M", 128), ("BLOCK_N", 128), ("BLOCK_K", 64)))
    arguments = [x for name in "abc" for x in described(name, tensors[name], (64, 128))]
    result = run(kernel, [*arguments, m, n, k], tensors, (1, 1, 1))
    assert rules(result) <= REUSED
    assert error(result.tensors["c"], numbers(a, "bf16") @ numbers(b, "bf16").T) < 2**-8


def test_attention_whose_roles_triton_decides() -> None:
    n, d = 256, 64
    q, k, v = (random(seed, "bf16", n, d) for seed in (12, 13, 14))
    tensors = {"q": q, "k": k, "v": v, "o": np.zeros((n, d), np.uint16)}
    kernel = stock("attention_by_roles", "bf16", (("D", d), ("BLOCK_M", 128), ("BLOCK_N", 64)))
    arguments = [x for name in "qkvo" for x in described(name, tensors[name], (64, 128 if name in "qo" else 64))]
    result = run(kernel, [*arguments, n, 0.125], tensors, (2, 1, 1))
    scores = numbers(q, "bf16") @ numbers(k, "bf16").T * 0.125
    weights = np.exp2(scores - scores.max(1, keepdims=True))
    assert rules(result) <= KNOWN | REUSED
    assert error(result.tensors["o"], weights / weights.sum(1, keepdims=True) @ numbers(v, "bf16")) < 2**-7


def described(name: str, tensor: Bits, box: tuple[int, int]) -> list[Argument]:
    """A tensor map with a swizzle of 128 bytes, sizes and strides."""
    rows, columns = tensor.shape
    return [MapOf(name, "BFLOAT16", (columns, rows), (2 * columns,), box, 128), rows, columns, columns, 1]


# ---------------------------------------------------------------- Gluon


@cache
def gluon_kernel(ctas: int) -> Any:
    """The GEMM of `stranger_gluon`, tiles of 128 x 128 a CTA."""
    layouts = (((1, 0),), ((0, 1),), ((1, 0),)) if ctas == 2 else ((), (), ())
    blocks = {"a_desc": [128 * ctas, 64], "b_desc": [64, 128], "c_desc": [128 * ctas, 64]}
    signature = {
        name: f"tensordesc<bf16[{block[0]},{block[1]}],"
        f"{gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16, cga_layout=cga)!r}>"
        for (name, block), cga in zip(blocks.items(), layouts, strict=True)
    }
    constants = {"STAGES": 2, "PAIR": ctas == 2}
    signature |= {"tiles_m": "i32", "tiles": "i32", **dict.fromkeys(constants, "constexpr")}
    source = GluonASTSource(stranger_gluon.gemm, signature, constexprs=constants)
    return compiled_to_ptx(source, BLACKWELL, {"num_warps": 4, "num_ctas": ctas, "maxnreg": 256 // ctas})


def gluon_gemm(ctas: int = 1, m: int = 256, n: int = 256, k: int = 192, change: Change = str) -> tuple[Result, Bits]:
    """What it makes, tiles dealt to few CTAs, and what it should."""
    kernel = gluon_kernel(ctas)
    tensors = {"a": random(8, "bf16", m, k), "b": random(9, "bf16", k, n), "c": np.zeros((m, n), np.uint16)}
    arguments = [x for name in "abc" for x in described(name, tensors[name], (64, 64 if name == "b" else 128))]
    rows = m // (128 * ctas)
    result = run(kernel, [*arguments, rows, rows * (n // 128)], tensors, (ctas, 1, 1), change)
    return result, numbers(tensors["a"], "bf16") @ numbers(tensors["b"], "bf16")


@pytest.mark.parametrize("ctas", [1, 2])
def test_gluons_persistent_gemm_with_roles_and_two_accumulators(ctas: int) -> None:
    """Of two CTAs: pairs that multiply together, and commits that both of them hear of. Nobody waits for the last."""
    result, wanted = gluon_gemm(ctas, m=256 * ctas)
    assert rules(result) == REUSED | ({"exit-wait"} if ctas == 2 else set())
    assert error(result.tensors["c"], wanted) < 2**-8


@pytest.mark.parametrize("ctas", [1, 2])
def test_gluons_descriptors_are_those_that_twill_encodes(ctas: int) -> None:
    text = gluon_kernel(ctas).asm["ptx"]
    does = instruction_descriptor(128 * ctas, 128, "f32", "bf16", "bf16", b_mn_major=True, pair=ctas == 2)
    low, high = (matrix_descriptor(0, leading, 1024, 128) for leading in (64 * 128, 0))
    offset = f"{low & 0xFFFFFFFF};" if ctas == 1 else ""  # of a pair's B no two blocks follow one another
    assert f", {does};" in text and f", {high >> 32};" in text and offset in text


SHAPES = {"32x32b": "32x32b", "16x64b": "16x64b", "16x128b": "16x128b", "16x256b": "16x256b", "32x32b_splitn": "32x32b"}
"""Gluon's names of the ways to move tensor memory, and the shapes that it then uses for 128 rows."""


def through_tensor_memory(stored: str, loaded: str, rows: int) -> Result:
    """A matrix in and out again."""
    constants = {"STORED": stored, "LOADED": loaded, "M": rows, "N": 64}
    signature = {"x": "*fp32", "y": "*fp32", **dict.fromkeys(constants, "constexpr")}
    source = GluonASTSource(stranger_gluon.through, signature, constexprs=constants)
    kernel = compiled_to_ptx(source, BLACKWELL, {"num_warps": 4})
    if rows == 128:
        assert f"tcgen05.st.sync.aligned.{SHAPES[stored]}.x" in kernel.asm["ptx"]
        assert f"tcgen05.ld.sync.aligned.{SHAPES[loaded]}.x" in kernel.asm["ptx"]
    x = np.arange(rows * 64, dtype=np.float32).reshape(rows, 64)
    return run(kernel, pointers("x", "y"), {"x": x, "y": np.zeros_like(x)}, (1, 1, 1))


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("shape", SHAPES)
def test_whatever_moves_tensor_memory_finds_what_another_shape_left_there(shape: str, rows: int) -> None:
    for stored, loaded in (("32x32b", shape), (shape, "32x32b")):
        result = through_tensor_memory(stored, loaded, rows)
        assert rules(result) <= KNOWN
        assert (result.tensors["x"] == result.tensors["y"]).all()


# ---------------------------------------------------------------- misreadings


@pytest.mark.parametrize("shape", ["16x64b", "16x128b", "16x256b"])
@pytest.mark.parametrize("of", ["lanes", "columns"])
def test_a_shape_that_is_misread_leaves_a_matrix_in_other_places(
    shape: str, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(name: str, count: int, split: int) -> tuple[Bits, Bits]:
        lanes, columns = moved(name, count, split)
        if name != shape:
            return lanes, columns
        return (lanes[::-1], columns) if of == "lanes" else (lanes, columns[:, ::-1])

    made_afresh(monkeypatch)
    monkeypatch.setattr(tcgen05_registers, "moved", wrong)
    result = through_tensor_memory("32x32b", shape, 128)
    assert (result.tensors["x"] != result.tensors["y"]).any()


@pytest.mark.parametrize(
    "misread", [lambda address: (address >> 17, address & 0xFFFF), lambda address: (address >> 16, address & 0x3F)]
)
def test_an_address_of_tensor_memory_that_is_misread_makes_the_gemm_wrong(
    misread: Callable[[int], tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lane one bit further up, its column of fewer bits."""
    monkeypatch.setattr(tcgen05_memory, "decoded", misread)
    assert is_wrong(*gluon_gemm(m=128, n=256, k=64))


KINDS: dict[str, Any] = {"a": "f16", "b": "f16", "d": "s32", "m": 64, "n": 64, "negated": (True, False)}
PLACES: dict[str, Callable[[int], int]] = {
    "start": lambda x: x & ~63, "leading": lambda x: x // 2, "stride": lambda x: x // 2, "base": lambda x: 1,
    "swizzle": lambda x: 64,
}  # fmt: skip


@pytest.mark.parametrize("field", [*KINDS, "A along M", "B along N"])
def test_an_instruction_descriptor_that_is_misread_makes_the_gemm_wrong(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = InstructionDescriptor.decoded

    def wrong(bits: int, kind: str) -> InstructionDescriptor:
        does = right(bits, kind)
        if field in KINDS:
            return replace(does, **{field: KINDS[field]})
        along_m, along_n = does.mn_major
        return replace(does, mn_major=(not along_m, along_n) if field == "A along M" else (along_m, not along_n))

    monkeypatch.setattr(InstructionDescriptor, "decoded", wrong)
    assert is_wrong(*gluon_gemm(m=128, n=128, k=64))


@pytest.mark.parametrize("field", PLACES)
def test_a_matrix_descriptor_that_is_misread_makes_the_gemm_wrong(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = SharedMatrixDescriptor.decoded

    def wrong(bits: int) -> SharedMatrixDescriptor:
        where = right(bits)
        return replace(where, **{field: PLACES[field](getattr(where, field))})

    monkeypatch.setattr(SharedMatrixDescriptor, "decoded", wrong)
    assert is_wrong(*gluon_gemm(m=128, n=128, k=64))


def test_a_version_that_is_read_one_bit_further_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SharedMatrixDescriptor.decoded
    monkeypatch.setattr(SharedMatrixDescriptor, "decoded", lambda bits: right(bits ^ 3 << 46))
    assert is_wrong(*gluon_gemm(m=128, n=128, k=64))


def test_registers_that_are_moved_to_other_columns_make_attention_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 rows, whose results threads of one warp read from two places."""
    monkeypatch.setattr(tcgen05_registers, "moved", lambda shape, count, split: moved(shape, count, split // 2))
    assert is_wrong(*attention(64))


@pytest.mark.parametrize("rows", [64, 128])
def test_rows_that_are_taken_from_other_lanes_make_attention_wrong(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcgen05_multiplies, "rows_of", lambda m, lane: rows_of(m, lane)[::-1])
    assert is_wrong(*attention(rows))


def is_wrong(result: Result, wanted: Bits) -> bool:
    (found,) = (result.tensors[name] for name in ("c", "o") if name in result.tensors)
    difference = error(found, wanted)
    return bool(rules(result) - KNOWN - REUSED) or not difference < 0.1


# ---------------------------------------------------------------- faults


def replaced(pattern: str, by: str | Callable[[re.Match[str]], str]) -> Change:
    def change(text: str) -> str:
        made = re.sub(pattern, by, text)
        assert made != text
        return made

    return change


@pytest.mark.parametrize(
    ("pattern", "by", "rule"),
    [(r"@%p\d+ tcgen05\.commit[^;]*;", "", "deadlock"),
     (r"@%p\d+ tcgen05\.dealloc[^;]*;", "", "tensor-memory"),
     (r"@%p\d+ tcgen05\.alloc[^;]*;", "", "tensor-memory"),
     (r"(tcgen05\.alloc[^;]*), 256;", r"\1, 128;", "tensor-memory"),
     (r"(tcgen05\.alloc[^;]*), 256;", r"\1, 192;", "tensor-memory"),
     (r"(@%p\d+ )tcgen05\.alloc", r"\1tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; \1tcgen05.alloc",
      "tensor-memory"),
     (r"fence\.proxy\.async\.shared::cta;", "", "proxy-fence"),
     (r"bar\.sync \t0;", "", "order"),
     (r"mbarrier\.try_wait[^;]*;", "setp.eq.b32 complete, 0, 0;", "order")],
)  # fmt: skip
def test_what_is_wrong_in_a_strangers_attention_is_found(pattern: str, by: str, rule: str) -> None:
    assert rule in rules(attention(128, replaced(pattern, by))[0])


def test_bytes_of_one_operand_that_are_not_awaited_are_found_in_gluons_gemm() -> None:
    result, _ = gluon_gemm(m=128, n=128, change=replaced(r"(expect_tx[^;]*), 32768;", r"\1, 16384;"))
    assert "order" in rules(result)
