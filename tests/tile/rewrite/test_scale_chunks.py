"""Scales in chunks are read as they are loaded; others stay what they are."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, kernel
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.program import TileProgram
from twill.tile.rewrite.scale_chunks import read_chunks
from twill.tile.translate.translate import tile_program

pytestmark = pytest.mark.usefixtures("at_root")

HEAD = """
import triton
import triton.language as tl

@triton.jit
def k(a, sa, b, sb, c, n):
    acc = tl.zeros([128, 128], tl.float32)
    for i in range(n):
        of_a = sa.load([0, 0, i, 0, 0])
        of_b = sb.load([0, 0, i, 0, 0])
        of_a = of_a.reshape(1, 1, 32, 4, 4).trans(ORDER).reshape(128, 4)
        of_b = of_b.reshape(1, 1, 32, 4, 4).trans(0, 3, 2, 1, 4).reshape(128, 4)
        acc = tl.dot_scaled(a.load([0, i * 128]), of_a, "e4m3", b.load([0, i * 128]).T, of_b, "e4m3", acc)
    c.store([0, 0], acc)
"""
TYPES = {"a": "fp8e4nv[128,128]", "sa": "u8[1,1,1,2,256]", "b": "fp8e4nv[128,128]", "sb": "u8[1,1,1,2,256]",
         "c": "fp32[128,128]"}  # fmt: skip


def written(tmp_path, order: str) -> TileProgram:  # type: ignore[no-untyped-def]
    file = tmp_path / "k.py"
    file.write_text(HEAD.replace("ORDER", order), encoding="utf-8")
    sig = [*(f"{name}=tensordesc<{kind}>" for name, kind in TYPES.items()), "n=i32"]
    return resolve_accesses(tile_program(resolve(f"{file}::k", sig=sig)))


def test_views_that_show_chunks_are_left_out(tmp_path) -> None:  # type: ignore[no-untyped-def]
    program = written(tmp_path, "0, 3, 2, 1, 4")
    made = read_chunks(program)
    (product,) = (op for op in made.ops() if op.kind == "dot_scaled")
    assert product.attribute("layout") == "chunks"
    loads = {result: op for op in made.ops() if op.kind == "tile_load" for result in op.results}
    assert [loads[scales].access.base for scales in product.operands[3:]] == ["sa", "sb"]  # type: ignore[union-attr]
    assert not any(op.kind == "reshape" for op in made.ops())
    assert read_chunks(made) is made


@pytest.mark.parametrize("order", ["0, 1, 2, 3, 4", "0, 3, 4, 1, 2"])
def test_views_that_show_something_else_are_not(tmp_path, order: str) -> None:  # type: ignore[no-untyped-def]
    program = written(tmp_path, order)
    assert read_chunks(program) is program


def test_the_examples_load_chunks() -> None:
    for spec in ("nvfp4", "mxfp4"):
        program = kernel(Example("examples/gemm_nvfp4.py", spec)).program
        assert [op.attribute("layout") for op in program.ops() if op.kind == "dot_scaled"] == ["chunks"]
        assert not any(op.kind == "rearrange" for op in program.ops())
