"""Promises of `twill.codegen.emittable`: what depends on data where it must not is refused at its line; and what is
carried or masked by one number is emitted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs
from twill import exc
from twill.codegen.emittable import refuse_unemittable
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.tile.affine import Polynomial
from twill.tile.dead_code import compact
from twill.tile.program import Index, TileProgram


def computed(where: str) -> TileProgram:
    """A number or a tile of integers that is computed from data, in an address; one that is looked up as a trip count;
    one that a loop carries from one look-up to the next."""
    p = Programs()
    for name, element in (("I", "i32"), ("X", "f32"), ("Y", "f32")):
        p.argument(name, f"ptr:{element}")
    trips, zero = p.argument("trips"), p.constant(0)
    number = p.reduce(p.load("I", (64,), "i32", name="pages"), 0, "max", name="page")
    scale = p.load("I", (), "i32", name="scale")
    at = Polynomial.symbol(number) * 64 if where == "address" else Polynomial()
    access = p.access("X", (64,), "f32", [])
    with p.loop(scale if where == "trips" else trips, [p.constant(0.0, (64,), "f32"), zero]) as k:
        at += Polynomial.symbol(k.carried[1]) if where == "carried" else k.i
        x = p.load("X", (64,), "f32", at=(at,))
        if where == "index":
            rows = p.op("cast", x, element="i32", name="rows")
            x = p.op("tile_load", rows, shape=(64,), element="f32", name="x",
                     access=replace(access, indices=(Index((0,), Polynomial.constant_of(1)),)))  # fmt: skip
        if where == "mask":
            rows, some = (
                p.load("I", (64,), "i32", name="rows"),
                p.op("compare", x, x, element="i1", name="some", predicate="lt"),
            )
            x = p.op("tile_load", rows, some, shape=(64,), element="f32", name="x",
                     access=replace(access, indices=(Index((0,), Polynomial.constant_of(1)),)))  # fmt: skip
        following = p.op("add", k.carried[1], p.load("I", (), "i32", at=(), name="skip"), name="at")
        k.yields = [p.op("add", k.carried[0], x), following if where == "carried" else k.carried[1]]
    p.store("Y", k.results[0])
    if where in ("index", "mask"):  # with products, others load than compute
        a, b = (p.load("X", (64, 64), "f16", at=(0, 0)) for _ in range(2))
        p.store("Y", p.dot(a, b, p.constant(0.0, (64, 64), "f32")))
    return compact(p.done())


@pytest.mark.parametrize(("where", "words"), [
    ("address", "the address of a tile of `X` depends on `page`, which is loaded from memory"),
    ("index", "the address of a tile of `X` is made of `rows` of line [0-9]+, which is computed from data"),
    ("mask", "the mask of a tile of `X` is made of `some` of line [0-9]+, which is computed from data"),
    ("carried", "changes from iteration to iteration by more than a fixed amount"),
])  # fmt: skip
def test_what_depends_on_data_where_it_must_not_is_refused(where: str, words: str) -> None:
    with pytest.raises(exc.UnsupportedInKernel, match=words) as caught:
        refuse_unemittable(computed(where))
    assert caught.value.line and caught.value.hint and caught.value.file == "k.py"


def test_a_number_that_is_loaded_before_a_loop_is_taken_as_its_trip_count_too() -> None:
    refuse_unemittable(computed("nowhere"))
    refuse_unemittable(computed("trips"))


def test_a_number_that_a_loop_carries_is_emitted() -> None:
    """s += sum of a tile, begun with a constant."""
    p = Programs()
    p.argument("X", "ptr:f32")
    p.argument("Y", "ptr:f32")
    with p.loop(p.argument("trips"), [p.constant(0.0, (), "f32")]) as k:
        x = p.load("X", (256,), "f32", at=(k.i * 256,), name="x")
        k.yields = [p.op("add", k.carried[0], p.reduce(x, 0, "add", name="part"), name="s")]
    p.store("Y", k.results[0])
    program = p.done()
    assert verify(lower(program, scheduled(program), H100)) == ()


@pytest.mark.parametrize("uniform", [False, True])
def test_one_number_is_added_to_memory_if_one_condition_holds(uniform: bool) -> None:
    p = Programs()
    p.argument("X", "ptr:f32")
    p.argument("Y", "ptr:f32")
    limit = p.argument("limit")
    x = p.reduce(p.load("X", (256,), "f32", name="x"), 0, "add", name="total")
    true = p.constant(1, (), "i1")
    mask = (
        p.op("compare", p.op("program_id", axis=0), limit, element="i1", predicate="lt", signed=1) if uniform else true
    )
    p.op("tile_reduce", x, mask, access=p.access("Y", (), "f32", []), combine="add")
    program = p.done()
    assert verify(lower(program, scheduled(program), H100)) == ()
