"""Values are followed through views and carries to the step that makes them."""

from __future__ import annotations

from tests.tile_programs import Programs
from twill.graph.dims import dimension_classes
from twill.graph.wiring import Wiring
from twill.tile.flat import Flat, flatten, merge
from twill.tile.uniformity import classify


def flat_of(p: Programs) -> Flat:
    program = p.done()
    copied = flatten(program, classify(program))
    return merge(copied, dimension_classes(copied).of)


def test_a_join_comes_from_both_halves() -> None:
    p = Programs()
    x, z = p.load("x", (64,), "f32"), p.load("z", (64,), "f32")
    p.store("y", p.op("join", x, z, shape=(64, 2)))
    flat = flat_of(p)
    wiring = Wiring(flat)
    stored = flat.steps[-1].operands[0]
    assert [flat.steps[o.step].op.access.base for o in wiring.origins(stored)] == ["x", "z"]  # type: ignore[union-attr]


def test_transposing_twice_is_not_transposing() -> None:
    p = Programs()
    x = p.load("x", (64, 32), "f32")
    once = p.op("transpose", x, shape=(32, 64), order=(1, 0))
    twice = p.op("transpose", once, shape=(64, 32), order=(1, 0))
    for tile in (x, once, twice):
        p.store("y", tile)
    flat = flat_of(p)
    wiring = Wiring(flat)
    stored = [step.operands[0] for step in flat.steps if step.op.kind == "tile_store"]
    assert [wiring.is_transposed(cell) for cell in stored] == [False, True, False]


def test_equal_copies_of_a_pure_tile_are_one_again() -> None:
    p = Programs()
    ramp = p.op("cast", p.op("range", shape=(64,), start=0, end=64), element="f32")
    square = p.load("s", (64, 64), "f32")
    by_row = p.op("mul", square, p.column(ramp, 64))
    p.store("y", p.op("add", p.op("mul", by_row, p.column(ramp, 64)), p.row(ramp, 64)))
    casts = [step for step in flat_of(p).steps if step.op.kind == "cast"]
    assert len(casts) == 2  # one along the rows, used twice, one along the columns
