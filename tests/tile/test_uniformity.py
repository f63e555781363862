"""What costs nothing, what is index arithmetic, and what leaves its loop."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tile_programs import Programs
from twill.tile.affine import Polynomial
from twill.tile.program import Index, TileProgram
from twill.tile.uniformity import Uniformity, classify


def finish(p: Programs) -> tuple[TileProgram, Uniformity]:
    p.store("y", p.constant(0.0, (64,), "f32"))
    program = p.done()
    return program, classify(program)


def test_scalars_are_uniform_also_if_they_are_looked_up() -> None:
    p = Programs()
    n, loaded = p.argument("n"), p.load("z", (), "i32")
    twice, mixed = p.op("add", n, n), p.op("add", n, loaded)
    _, uniformity = finish(p)
    assert {n, twice, loaded, mixed} <= uniformity.uniform and uniformity.lookups == {loaded}


def test_what_the_kernel_writes_itself_is_not_looked_up() -> None:
    p = Programs()
    loaded = p.load("z", (), "i32")
    mixed = p.op("add", loaded, loaded)
    p.store("z", mixed)
    _, uniformity = finish(p)
    assert not {loaded, mixed} & (uniformity.uniform | uniformity.pure) and not uniformity.lookups


@pytest.mark.parametrize("placing", [True, False])
def test_a_carried_number_that_does_not_count_is_computed_as_a_tile_unless_an_address_is_made_of_it(
    placing: bool,
) -> None:
    p = Programs()
    n, two, tile = p.argument("n"), p.constant(2), p.constant(0.0, (64,), "f32")
    with p.loop(n, [two, two, two]) as loop:
        counts, doubles, grows = loop.carried
        p.store("z", tile, at=(Polynomial.symbol(doubles if placing else counts),))
        loop.yields = [p.op("add", counts, n), p.op("mul", doubles, two), p.op("add", grows, loop.induction)]
    _, uniformity = finish(p)
    assert counts in uniformity.uniform and grows not in uniformity.uniform
    assert (doubles in uniformity.uniform) == (loop.results[1] in uniformity.uniform) == placing


@pytest.mark.parametrize("picking", [True, False])
def test_tiles_of_integers_that_addresses_are_made_of_are_looked_up(picking: bool) -> None:
    p = Programs()
    rows = p.load("rows", (64,), "i32")
    shifted = p.op("add", rows, p.constant(1, (64,)))
    picked = replace(p.access("x", (64,), "f16", []), indices=(Index((0,), Polynomial.constant_of(4)),))
    x = p.op("tile_load", shifted, shape=(64,), element="f16", access=picked) if picking else p.load("x", (64,))
    p.store("y", x)
    p.store("w", shifted)
    _, uniformity = finish(p)
    assert uniformity.lookups == ({rows} if picking else set())
    assert ({rows, shifted} <= uniformity.index) == picking


def test_carried_scalars_are_uniform_if_they_start_and_stay_so() -> None:
    p = Programs()
    n, zero = p.argument("n"), p.constant(0)
    with p.loop(n, [zero, zero, zero]) as loop:
        steady, tainted, late = loop.carried
        made = p.reduce(p.load("z", (64,), "i32"), 0, "add")
        loop.yields = [p.op("add", steady, n), p.op("add", tainted, late), made]
    _, uniformity = finish(p)
    assert steady in uniformity.uniform and loop.results[0] in uniformity.uniform
    assert not {tainted, late} & uniformity.uniform


def test_index_arithmetic_is_integer_all_the_way() -> None:
    p = Programs()
    offsets = p.op("range", shape=(64,), start=0, end=64)
    mask = p.op("compare", offsets, p.constant(3, (64,)), element="i1", predicate="lt")
    slopes = p.op("cast", offsets, element="f32")
    floats = p.op("compare", slopes, p.constant(3.0, (64,), "f32"), element="i1", predicate="lt")
    _, uniformity = finish(p)
    assert {offsets, mask} <= uniformity.index
    assert {slopes, floats} <= uniformity.pure - uniformity.index


def test_only_arithmetic_progressions_are_carried_for_nothing() -> None:
    p = Programs()
    start, step = p.op("range", shape=(64,), start=0, end=64), p.constant(64, (64,))
    with p.loop(p.argument("n"), [start, start, start]) as loop:
        forward, doubling, backward = loop.carried
        loop.yields = [p.op("add", step, forward), p.op("add", doubling, doubling), p.op("sub", step, backward)]
    _, uniformity = finish(p)
    assert {forward, loop.results[0]} <= uniformity.index
    assert not {doubling, backward} & uniformity.pure


def test_invariant_computations_move_out_but_accesses_stay() -> None:
    p = Programs()
    x = p.load("x", (64,), "f32")
    with p.loop(p.argument("n"), [x]) as loop:
        moved = p.op("exp2", x)
        again = p.reduce(moved, 0, "add")
        retained = p.op("exp2", loop.carried[0])
        loaded = p.load("z", (64,), "f32")
        loop.yields = [retained]
    program, uniformity = finish(p)
    home = {result: uniformity.home[op.id] for op in program.ops() for result in op.results}
    assert [home[v] for v in (x, moved, again, retained, loaded)] == [0, 0, 0, 1, 1]
