"""Bytes and 16-bit integers become floats by their bits: every one of them, exactly, in the machine code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill.codegen.emission import emit_scheduled, extract
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

ALL = """
@triton.jit
def k(x, y):
    i = tl.arange(0, 1024)
    at = tl.program_id(0) * 1024 + i
    v = i.to(tl.{integer}) + tl.load(x + at)
    tl.store(y + at, v.to(tl.{number}) * 2)
"""
PRODUCT = """
@triton.jit
def k(x, y):
    i, j = tl.arange(0, 64), tl.arange(0, 64)
    a = tl.load(x + i[:, None] * 64 + j[None, :])
    tl.store(y + i[:, None] * 64 + j[None, :], tl.dot(a.to(tl.{number}), tl.trans(a).to(tl.{number})))
"""
TYPES = {"int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "bfloat16": "bf16", "float16": "fp16",
         "float32": "fp32"}  # fmt: skip
PAIRS = {"bfloat16": "bf16x2", "float16": "f16x2"}


@pytest.mark.parametrize("number", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("integer", ["int8", "uint8", "int16", "uint16"])
def test_all_short_integers_become_floats(kernel_file: Callable[..., str], integer: str, number: str) -> None:
    text = ALL.format(integer=integer, number=number)
    sig = [f"x=*{TYPES[integer]}:16", f"y=*{TYPES[number]}:16"]
    kernel = extract(f"{kernel_file(text)}::k", sig=sig)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    checked(emission)
    assert "cvt.rn.f32.s" not in emission.build.ptx
    assert "cvt.rn.f32.u" not in emission.build.ptx


@pytest.mark.parametrize("number", PAIRS)
@pytest.mark.parametrize("integer", ["int8", "uint8"])
def test_operands_of_products_are_converted_in_pairs(
    kernel_file: Callable[..., str], integer: str, number: str
) -> None:
    sig = [f"x=*{TYPES[integer]}:16", "y=*fp32:16"]
    kernel = extract(f"{kernel_file(PRODUCT.format(number=number))}::k", sig=sig)
    emission = emit_scheduled(kernel, H100, solve(kernel.graph, H100, SolveOptions(strategy="heuristic")))
    checked(emission)
    assert f"sub.rn.{PAIRS[number]}" in emission.build.ptx
