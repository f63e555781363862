"""Trip counts in kernel terms, and what scalars depend on."""

from __future__ import annotations

from tests.tile_programs import Programs
from twill.tile.program import Loop, TileProgram
from twill.tile.scalars import Scalars
from twill.tile.uniformity import classify


def finish(p: Programs, upper: int, step: int = 1) -> tuple[TileProgram, Loop]:
    with p.loop(upper, [], step) as loop:
        p.store("y", p.load("x", (64,), at=(loop.i * 64,)), at=(loop.i * 64,))
    program = p.done()
    return program, next(item for item in program.body if isinstance(item, Loop))


def trip(p: Programs, upper: int, step: int = 1) -> tuple[str, int | None, bool]:
    program, loop = finish(p, upper, step)
    found = Scalars(program, classify(program)).trip(loop)
    return found.text, found.constant, found.varies_with_grid


def test_a_constant_trip_count() -> None:
    p = Programs()
    assert trip(p, p.constant(100), 32) == ("4", 4, False)


def test_an_empty_range_has_no_trips() -> None:
    p = Programs()
    assert trip(p, p.constant(-5)) == ("0", 0, False)


def test_a_step_divides() -> None:
    p = Programs()
    assert trip(p, p.argument("N"), 64) == ("cdiv(N, 64)", None, False)


def test_parentheses_keep_the_meaning() -> None:
    p = Programs()
    k, c = p.argument("K"), p.constant(63)
    assert trip(p, p.op("div", p.op("add", k, c), p.constant(64), signed=1))[0] == "(K + 63) / 64"


def test_bounds_are_simplified() -> None:
    p = Programs()
    a, b = p.argument("a"), p.argument("b")
    assert trip(p, p.op("sub", a, p.op("sub", b, p.constant(1))))[0] == "a - b + 1"


def test_a_bound_from_the_grid_is_told() -> None:
    p = Programs()
    bound = p.op("mul", p.op("program_id", axis=1), p.constant(128))
    assert trip(p, bound, 128) == ("program_id(1)", None, True)
