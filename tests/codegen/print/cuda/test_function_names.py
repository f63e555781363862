"""Functions of CUDA's library are called whatever the values of a kernel are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import emit_solved, extract
from twill.codegen.emit import Emission
from twill.trial.execute import checked

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def doubles(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    v = tl.load(x + o)
    fabs = tl.abs(v)
    sqrt = tl.sqrt(fabs + 1.0)
    fma = tl.fma(sqrt, fabs, v)
    fmax = tl.maximum(fma, sqrt)
    tl.store(y + o, fmax + tl.sqrt(tl.abs(fma)) + tl.minimum(fma, tl.sqrt(fmax)))

@triton.jit
def compiled(x, y, B: tl.constexpr):
    o = tl.arange(0, B)
    exp = tl.exp(-tl.load(x + o))
    log = tl.log(exp + 1.0)
    tl.store(y + o, tl.exp(-log) + tl.log(exp) + tl.exp2(exp))
"""


def emission(folder: Path, name: str, kind: str) -> Emission:
    (folder / "k.py").write_text(KERNEL, encoding="utf-8")
    kernel = extract(f"{folder / 'k.py'}::{name}", sig=(f"x=*{kind}:16", f"y=*{kind}:16"), const=("B=128",))
    return emit_solved(kernel, H100, lambda graph, machine: scheduled(kernel.program))


@pytest.mark.parametrize("kind", ["fp32", "fp64"])
def test_values_with_the_names_of_functions_hide_none(tmp_path: Path, kind: str) -> None:
    assert not checked(emission(tmp_path, "doubles", kind)).said()


def test_functions_that_the_library_makes_of_many_instructions_are_compiled(tmp_path: Path) -> None:
    assert "::exp(" in emission(tmp_path, "compiled", "fp64").files()["kernel.cu"]
