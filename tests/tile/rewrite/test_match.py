"""Promises of finding one loop in another: accesses are at one place only if their indices are scaled alike, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tile_programs import Programs
from twill.tile.affine import Polynomial
from twill.tile.program import Index, Loop, TileProgram, walk
from twill.tile.rewrite.match import _Matcher
from twill.tile.uniformity import classify


def two_loops() -> TileProgram:
    p = Programs()
    p.argument("X", "ptr:f32")
    trips = p.argument("trips")
    for _ in range(2):
        with p.loop(trips, [p.constant(0.0, (64,), "f32")]) as k:
            k.yields = [p.op("add", k.carried[0], p.load("X", (64,), "f32", at=(k.i,)))]
    return p.done()


@pytest.mark.parametrize(("scale", "same"), [(128, True), (256, False)])
def test_gathers_with_other_distances_between_rows_are_at_other_places(scale: int, same: bool) -> None:
    program = two_loops()
    main, other = (item for item in program.body if isinstance(item, Loop))
    matcher = _Matcher(program, classify(program), main, other)
    left, right = (next(op.access for op in walk(loop.body) if op.access is not None) for loop in (main, other))
    assert matcher.at_one_place(left, right)
    rows = (Index((0,), Polynomial.constant_of(128)),), (Index((0,), Polynomial.constant_of(scale)),)
    assert matcher.at_one_place(replace(left, indices=rows[0]), replace(right, indices=rows[1])) == same
