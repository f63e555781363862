"""Promises of `twill.codegen.lower.flushes`: which exponentials may be zero below 2^-126."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.tile_programs import Programs
from twill.codegen.lower.flushes import Flush, flush
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.targets.base import target_of
from twill.graph.build import wire

Make = Callable[[Programs, int], int]
ROWS, COLUMNS = 64, 128


def flushed(make: Make, element: str = "f32") -> Flush:
    """Of exp(A), where B becomes what `make` makes of it."""
    p = Programs()
    p.argument("A", "ptr:f32"), p.argument("B", f"ptr:{element}")
    exponential = p.op("exp", p.load("A", (ROWS, COLUMNS), "f32", name="a"))
    p.store("B", make(p, exponential))
    wired = wire(p.done())
    step = next(step for step in wired.flat.steps if step.op.kind == "exp")
    return flush(TileLayouts(wired, target_of(H100), -1, 1), step.results[0])


def constant(p: Programs, value: float) -> int:
    return p.constant(value, (ROWS, COLUMNS), "f32")


@pytest.mark.parametrize(
    "make, found",
    [
        (lambda p, e: e, Flush.SEEN),
        (lambda p, e: p.op("mul", e, constant(p, 2.0)), Flush.SEEN),
        (lambda p, e: p.op("add", e, constant(p, 1.0)), Flush.UNSEEN),
        (lambda p, e: p.op("add", e, constant(p, 2.0**-110)), Flush.SEEN),
        (lambda p, e: p.op("add", e, constant(p, -1.0)), Flush.SEEN),
        (lambda p, e: p.op("mul", p.op("add", e, constant(p, 1.0)), e), Flush.SEEN),
    ],
)  # fmt: skip
def test_an_exponential_is_zero_only_where_nobody_can_tell(make: Make, found: Flush) -> None:
    assert flushed(make) == found


def test_f16_has_no_numbers_so_small_and_bf16_has() -> None:
    assert flushed(lambda p, e: p.op("cast", e, element="f16"), "f16") == Flush.UNSEEN
    assert flushed(lambda p, e: p.op("cast", e, element="bf16"), "bf16") == Flush.SEEN
