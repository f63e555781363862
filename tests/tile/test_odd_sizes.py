"""Promises of `twill.tile.odd_sizes`: tile sizes between powers of two, derived only where that is certain."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.exc import KernelDoesNotCompile
from twill.kernel.specialization import Specialization, resolve
from twill.tile.odd_sizes import Known, number_at, tile_program
from twill.tile.program import TileProgram
from twill.tile.translate import translate

KERNEL = """
import triton
import triton.language as tl


@triton.jit
def scale(x, y, N, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    offs = start + tl.arange(0, BLOCK)
    a = tl.load(x + offs, mask=offs < N, other=0.0)
    {line}
    tl.store(y + offs, a, mask=offs < N)
"""


def kernel(folder: Path, line: str, block: int) -> tuple[str, list[str], list[str]]:
    """`FILE::KERNEL`, signature and constants of a kernel with `line` in it."""
    path = folder / "k.py"
    path.write_text(KERNEL.format(line=line), encoding="utf-8")
    return f"{path}::scale", ["x=*fp32:16", "y=*fp32:16", "N=i32:16"], [f"BLOCK={block}"]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Specialization]:
    """What this process has Triton compile, as it comes."""
    found: list[Specialization] = []
    read = translate.tile_program

    def noted(spec: Specialization) -> TileProgram:
        found.append(spec)
        return read(spec)

    monkeypatch.setattr(translate, "tile_program", noted)
    return found


def test_the_wide_gemm_has_tiles_of_192() -> None:
    program = tile_program(resolve("examples/gemm.py", spec="bf16-192"))
    shapes = {program.type_of(op.results[0]).shape for op in program.ops() if op.kind in ("dot", "descriptor_load")}
    constants = {op.attribute("value") for op in program.ops() if op.kind == "constant"}
    assert shapes == {(128, 64), (64, 192), (128, 192)}
    assert {191, 192} <= constants and not {255, 256, 383, 384} & constants


def test_two_processes_read_what_one_does(compiled: list[Specialization]) -> None:
    spec, alone = resolve("examples/gemm.py", spec="bf16-192"), Known()
    found = tile_program(spec, alone)
    one = len(compiled)
    known = Known()
    assert tile_program(spec, known, 2) == found and known.keys() == alone.keys()
    assert len(compiled) - one < one  # here


def test_several_sizes_are_taken_one_after_the_other() -> None:
    program = tile_program(resolve("examples/attention_any_length.py", spec="full"))
    shapes = {program.type_of(op.results[0]).shape for op in program.ops() if op.kind in ("dot", "descriptor_load")}
    assert shapes == {(192, 128), (80, 128), (192, 80)}
    constants = {op.attribute("value") for op in program.ops() if op.kind == "constant"}
    assert {192, 80} <= constants


def test_whoever_reads_several_sizes_reads_powers_of_two_once(compiled: list[Specialization]) -> None:
    known: Known = {}
    for words in (["BLOCK_N=80"], ["BLOCK_N=96"], ["BLOCK_N=80"]):
        sig = [f"{name}=tensordesc<bf16[1,{words[0][8:]},128]>" for name in ("k_desc", "v_desc")]
        tile_program(resolve("examples/attention_any_length.py", spec="full", const=words, sig=sig), known)
    assert len(compiled) == len(set(compiled))


def test_numbers_follow_the_constant(tmp_path: Path) -> None:
    target, types, constants = kernel(tmp_path, "a = tl.where(offs < BLOCK * 3 + 1, a, 0.0)", 48)
    program = tile_program(resolve(target, sig=types, const=constants))
    (ranged,) = (op for op in program.ops() if op.kind == "range")
    assert dict(ranged.attributes)["end"] == 48
    assert program.type_of(ranged.results[0]).shape == (48,)
    assert 145 in {op.attribute("value") for op in program.ops() if op.kind == "constant"}
    direct = translate.tile_program(resolve(target, sig=types, const=["BLOCK=64"]))
    assert [op.kind for op in program.ops()] == [op.kind for op in direct.ops()]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a = a + 1.0 if BLOCK > 100 else a * 2.0", "another program at other sizes"),
        ("a = tl.where(offs < BLOCK * BLOCK, a, 0.0)", "no affine function"),
        ("a = tl.where(offs < (BLOCK // 32) % 4, a, 0.0)", "no affine function"),
    ],
)
def test_a_kernel_that_is_not_the_same_at_every_size_is_refused(tmp_path: Path, line: str, said: str) -> None:
    target, types, constants = kernel(tmp_path, line, 192)
    with pytest.raises(KernelDoesNotCompile, match=said) as raised:
        tile_program(resolve(target, sig=types, const=constants))
    assert raised.value.line and raised.value.hint == "a power of two"


def test_what_triton_compiles_is_read_as_it_is(tmp_path: Path) -> None:
    target, types, constants = kernel(tmp_path, "a = a + 1.0 if BLOCK > 100 else a * 2.0", 128)
    spec = resolve(target, sig=types, const=constants)
    assert tile_program(spec) == translate.tile_program(spec)


def test_other_mistakes_stay_what_they_are(tmp_path: Path) -> None:
    target, types, constants = kernel(tmp_path, "a = nothing", 192)
    with pytest.raises(KernelDoesNotCompile, match="nothing"):
        tile_program(resolve(target, sig=types, const=["BLOCK=128"]))


@pytest.mark.parametrize(
    ("points", "found"),
    [
        (((16, 15), (64, 63), (256, 255)), 191),
        (((16, 7), (64, 7), (256, 7)), 7),
        (((16, 1), (64, 4), (256, 16)), 12),
        (((16, 4), (64, 6), (256, 8)), None),
        (((64, 1), (128, 2), (256, 4)), 3),
        (((128, 1), (256, 2), (512, 4)), None),  # 1.5
    ],
)
def test_a_number_is_on_a_line_or_none(points: tuple[tuple[int, int], ...], found: int | None) -> None:
    assert number_at(192, points) == found
