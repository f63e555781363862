"""Promises of kernels of one warp group with nothing between its threads in memory: their first load is soon issued."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.codegen.print.cuda.test_print_reduce import FLAT, reductions
from tests.printed_programs import arguments, matrix, simple
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.lower.tile_scheduler import tile_scheduler
from twill.codegen.print.cuda.alone import alone
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import Layout, Uniform
from twill.codegen.warp.program import Fill, Reduce, Reg, StoreGlobal, Window


def sums(extent: int) -> str:
    """CUDA of a row's sum; extent: elements of the row."""
    layout = replace(FLAT, shape=(extent,))
    body = [Fill(0, Number(1, "f32")), Reduce(0, 1, 0, "add", 0, 0, (), line=9),
            StoreGlobal(Window("X", "f32", (), Number(0), 0.0), Reg(1))]  # fmt: skip
    fragments: list[tuple[str, str, Layout]] = [("x", "f32", layout), ("y", "f32", Uniform())]
    scratch, barriers = matrix(0, "scratch", (2048,), "f32"), reductions("f32", "add").barriers
    program = simple("k", arguments(X="ptr:f32"), fragments, body, buffers=[scratch], barriers=barriers)
    program = tile_scheduler().of(program)
    assert alone(program)
    return print_cuda(program).text


def test_nobody_waits_for_barriers_that_do_not_exist() -> None:
    text = sums(1024)
    body = text[text.index("// ---- setup") :]
    assert "mbar" not in body and "__syncthreads" not in body


@pytest.mark.parametrize(("extent", "chains"), [(1024, 4), (256, 1)])
def test_sums_of_a_thread_are_four_chains_if_they_are_long_enough(extent: int, chains: int) -> None:
    text = sums(extent)
    assert ("chain3" in text) == (chains == 4)
    compile_cubin(text)


def test_a_grid_of_one_axis_is_not_divided_by() -> None:
    assert "program_id_0 = instance < grid0 ? instance : instance % grid0;" in sums(1024)
