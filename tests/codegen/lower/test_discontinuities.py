"""Promises of `twill.codegen.lower.discontinuities`: which values a discontinuous operation reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.tile_programs import Programs
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.lower.discontinuities import reaches_discontinuity
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.numerics import changes
from twill.codegen.targets.base import target_of
from twill.graph.build import wire
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

Make = Callable[[Programs, int], int]
ROWS, COLUMNS = 64, 128


def constant(p: Programs, value: float) -> int:
    return p.constant(value, (ROWS, COLUMNS), "f32")


@pytest.mark.parametrize(
    ("make", "element", "found"),
    [
        (lambda p, q: q, "f32", False),
        (lambda p, q: p.op("mul", q, constant(p, 2.0)), "f32", False),
        (lambda p, q: p.op("cast", q, element="bf16"), "bf16", False),
        (lambda p, q: p.op("cast", q, element="i8"), "i8", True),
        (lambda p, q: p.op("cast", p.op("add", q, constant(p, 0.5)), element="i8"), "i8", True),
        (lambda p, q: p.op("floor", q), "f32", True),
        (lambda p, q: p.op("mul", p.op("rint", p.op("max", q, constant(p, -8.0))), constant(p, 2.0)), "f32", True),
    ],
)
def test_a_value_is_followed_through_elementwise_operations(make: Make, element: str, found: bool) -> None:
    """Of A / 3, where B becomes what `make` makes of it."""
    p = Programs()
    p.argument("A", "ptr:f32"), p.argument("B", f"ptr:{element}")
    quotient = p.op("div", p.load("A", (ROWS, COLUMNS), "f32", name="a"), constant(p, 3.0))
    p.store("B", make(p, quotient))
    wired = wire(p.done())
    step = next(step for step in wired.flat.steps if step.op.kind == "div")
    assert reaches_discontinuity(TileLayouts(wired, target_of(H100), -1, 1), step.results[0]) is found


QUANTIZE = """

@triton.jit
def k(x, o, s, n, ROWS: tl.constexpr, B: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = rows[:, None] * B + tl.arange(0, B)[None, :]
    a = tl.load(x + at, mask=rows[:, None] < n, other=0.0)
    scale = tl.max(tl.abs(a), 1) / 127.0
    tl.store(o + at, {quotient}, mask=rows[:, None] < n)
    tl.store(s + rows, scale, mask=rows < n)
"""


@pytest.mark.parametrize(
    ("quotient", "element", "reciprocal"),
    [("(a / scale[:, None]).to(tl.int8)", "i8", False), ("a / scale[:, None]", "fp32", True)],
)
def test_a_quotient_that_becomes_an_integer_is_divided(
    kernel_file: Callable[..., str], quotient: str, element: str, reciprocal: bool
) -> None:
    """The largest element of a row is 127 then, as the program says, and not 126."""
    file = kernel_file(QUANTIZE.format(quotient=quotient))
    words = ("x=*fp32:16", f"o=*{element}:16", "s=*fp32:16", "n=i32")
    known = extract(file, sig=words, const=("ROWS=64", "B=128"))
    made = emit_scheduled(known, H100, solve(known.graph, H100, SolveOptions(strategy="heuristic")))
    assert any("one reciprocal" in str(change) for change in changes(made.program)) is reciprocal
