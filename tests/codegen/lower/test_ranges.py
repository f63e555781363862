"""Promises of `twill.codegen.lower.ranges`: what a tile cannot be below."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.tile_programs import Programs
from twill.codegen.lower.ranges import at_least
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.targets.base import target_of
from twill.graph.build import wire

Make = Callable[[Programs, int], int]


def bound(make: Make) -> float:
    """Of what `make` computes from a tile that may be anything."""
    p = Programs()
    p.argument("A", "ptr:f32"), p.argument("B", "ptr:f32")
    made = make(p, p.load("A", (64,), "f32", at=(0,), name="a"))
    p.store("B", made, at=(0,))
    wired = wire(p.done())
    store = next(step for step in wired.flat.steps if step.op.kind == "tile_store")
    return at_least(TileLayouts(wired, target_of(H100), -1, 1), store.operands[0])


def constant(p: Programs, value: float) -> int:
    return p.constant(value, (64,), "f32")


@pytest.mark.parametrize(
    "make, least",
    [
        (lambda p, a: a, -math.inf),
        (lambda p, a: p.op("exp", a), 0.0),
        (lambda p, a: p.op("add", p.op("exp2", a), constant(p, 1.0)), 1.0),
        (lambda p, a: p.op("max", a, constant(p, 3.0)), 3.0),
        (lambda p, a: p.op("max", a, constant(p, 3.0), slack=2.0), 1.0),
        (lambda p, a: p.op("add", a, constant(p, 1.0)), -math.inf),
        (lambda p, a: p.op("sub", constant(p, 1.0), p.op("exp", a)), -math.inf),
        (lambda p, a: p.op("mul", p.op("exp", a), constant(p, 2.0)), -math.inf),
    ],
)
def test_what_no_element_is_below(make: Make, least: float) -> None:
    assert bound(make) == least
