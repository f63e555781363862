"""Promises of `twill.codegen.lower.operations`: tile operations as statements; what is not emitted is refused at its
line."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs
from twill import exc
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import shape_of
from twill.codegen.warp.program import NORMAL, Compute, Fill, LoadShared, Range, Reduce, Reg, WarpProgram, walk
from twill.tile.program import TileProgram


def lowered(program: TileProgram) -> WarpProgram:
    return lower(program, scheduled(program), H100)


def statements(program: WarpProgram, kind: type) -> list[object]:
    """Of every group, but of one only of those that take instances alternately."""
    groups = [group for group in program.groups if group.share[0] == 0]
    return [stmt for group in groups for stmt in walk(group.body) if isinstance(stmt, kind)]


def tensors(p: Programs, *names: str) -> None:
    """Pointers, 16-bit or (a name in lower case) 32-bit floats, which a run on the abstract machine needs."""
    for name in names:
        p.argument(name, "ptr:f16" if name.isupper() else "ptr:f32")


def product(work: Callable[[Programs, int], None], rows: int = 64, columns: int = 64) -> TileProgram:
    """A loop of products, and `work` on their sum behind it."""
    p = Programs()
    tensors(p, "A", "B", "C", "D", "E", "s", "t")
    trips = p.argument("trips")
    zeros = p.constant(0.0, (rows, columns), "f32")
    with p.loop(trips, [zeros]) as k:
        a = p.load("A", (rows, 64), at=(0, k.i * 64), name="a")
        b = p.load("B", (64, columns), at=(k.i * 64, 0), name="b")
        k.yields = [p.dot(a, b, k.carried[0], name="acc")]
    work(p, k.results[0])
    return p.done()


# -- reductions ---------------------------------------------------------------------------------


def test_a_reduction_along_a_row_stays_in_its_warp() -> None:
    made = lowered(product(lambda p, acc: p.store("s", p.reduce(acc, 1, "add", name="total"))))
    (reduce,) = statements(made, Reduce)
    assert isinstance(reduce, Reduce)
    assert (reduce.axis, reduce.combine, reduce.scratch, reduce.barrier) == (1, "add", None, None)
    assert verify(made) == ()


def test_a_reduction_along_a_column_meets_the_other_warps_in_shared_memory() -> None:
    """Four warps hold 16 rows each: four values a column."""
    made = lowered(product(lambda p, acc: p.store("s", p.reduce(acc, 0, "max", name="highest"))))
    (reduce,) = statements(made, Reduce)
    assert isinstance(reduce, Reduce) and reduce.scratch is not None and reduce.barrier is not None
    assert made.buffers[reduce.scratch].shape == (4 * 64,)
    (group,) = (g for g in made.groups if reduce in list(walk(g.body)))
    assert made.barriers[reduce.barrier].threads == group.threads
    assert verify(made) == ()


def test_large_reductions_of_one_group_share_their_scratch() -> None:
    def work(p: Programs, acc: int) -> None:
        p.store("s", p.reduce(acc, 0, "max", name="highest"))
        p.store("t", p.reduce(acc, 0, "min", name="lowest"))

    made = lowered(product(work))
    first, second = statements(made, Reduce)
    assert isinstance(first, Reduce) and isinstance(second, Reduce)
    assert first.scratch == second.scratch and first.barrier == second.barrier
    assert verify(made) == ()


# -- operands -----------------------------------------------------------------------------------


def test_a_constant_and_a_scalar_are_no_fragments() -> None:
    def work(p: Programs, acc: int) -> None:
        doubled = p.op("mul", acc, p.constant(2.0, (64, 64), "f32"), name="doubled")
        p.store("D", p.op("cast", doubled, element="f16"))

    made = lowered(product(work))
    (mul,) = (c for c in statements(made, Compute) if isinstance(c, Compute) and c.kind == "mul")
    assert mul.operands[1] == Number(2.0, "f32")
    assert verify(made) == ()


def test_a_vector_is_spread_by_its_axis() -> None:
    def work(p: Programs, acc: int) -> None:
        mean = p.reduce(acc, 1, "add", name="total")
        p.store("D", p.op("cast", p.op("sub", acc, p.column(mean, 64), name="centred"), element="f16"))

    made = lowered(product(work))
    (sub,) = (c for c in statements(made, Compute) if isinstance(c, Compute) and c.kind == "sub")
    first, second = sub.operands
    assert isinstance(first, Reg) and first.axes == ()
    assert isinstance(second, Reg) and second.axes == (0, -1)
    assert verify(made) == ()


def test_a_matrix_is_divided_by_a_vector_with_one_division_a_row() -> None:
    def work(p: Programs, acc: int) -> None:
        total = p.reduce(p.op("mul", acc, acc), 1, "add", name="total")
        p.store("C", p.op("cast", p.op("div", acc, p.column(total, 64)), element="f16"))

    made = lowered(product(work))
    divisions = [s for s in statements(made, Compute) if isinstance(s, Compute) and s.kind == "div"]
    fragments = {f.id: f for group in made.groups for f in group.fragments}
    assert [len(shape_of(fragments[d.result].layout)) for d in divisions] == [1]
    assert divisions[0].operands[0] == Number(1.0, "f32")
    assert verify(made) == ()


@pytest.mark.parametrize("added, known", [(1.0, True), (-1.0, False)])
def test_a_divisor_that_cannot_be_subnormal_is_said_to_be(added: float, known: bool) -> None:
    def work(p: Programs, acc: int) -> None:
        one, exp = p.constant(1.0, (64, 64), "f32"), p.op("exp", acc)
        below = p.op("add", exp, p.constant(added, (64, 64), "f32"))
        p.store("C", p.op("cast", p.op("div", one, below), element="f16"))

    made = lowered(product(work))
    (division,) = (s for s in statements(made, Compute) if isinstance(s, Compute) and s.kind == "div")
    assert (dict(division.attributes).get(NORMAL) == 1) == known
    assert ("rcp(" in print_cuda(made, H100).text) == known


def test_index_arithmetic_is_made_where_it_is_used() -> None:
    """The mask of a matrix needs its columns' numbers: a range in the group that uses it, no ring."""

    def work(p: Programs, acc: int) -> None:
        columns = p.op("range", shape=(64,), start=0, end=64)
        seen = p.op("compare", columns, p.constant(40, (64,)), element="i1", predicate="lt", signed=1)
        retained = p.op("select", p.row(seen, 64), acc, p.constant(0.0, (64, 64), "f32"), name="kept")
        p.store("D", p.op("cast", retained, element="f16"))

    made = lowered(product(work))
    assert len(statements(made, Range)) == 1
    assert {aref.name for aref in made.arefs} == {"a", "b"}
    assert verify(made) == ()


def test_a_tile_in_a_ring_is_read_by_elementwise_work() -> None:
    """B times itself into the product: what threads need of a ring slot comes by ld.shared."""
    p = Programs()
    tensors(p, "A", "B", "C", "D", "E", "s", "t")
    trips = p.argument("trips")
    zeros = p.constant(0.0, (64, 64), "f32")
    with p.loop(trips, [zeros]) as k:
        a = p.load("A", (64, 64), at=(0, k.i * 64), name="a")
        b = p.load("B", (64, 64), at=(k.i * 64, 0), name="b")
        k.yields = [p.dot(p.op("mul", a, a, name="square"), b, k.carried[0], name="acc")]
    p.store("C", p.op("cast", k.results[0], element="f16"))
    made = lowered(p.done())
    assert len({s.source.buffer for s in statements(made, LoadShared) if isinstance(s, LoadShared)}) == 1
    assert verify(made) == ()


def test_a_carried_offset_is_computed_from_the_iteration() -> None:
    """columns += 64 each iteration: init + number * 64, whatever the trip count."""
    p = Programs()
    tensors(p, "A", "B", "C", "D", "E", "s", "t")
    trips = p.argument("trips")
    zeros = p.constant(0.0, (64, 64), "f32")
    first = p.op("range", shape=(64,), start=0, end=64)
    with p.loop(trips, [zeros, first]) as k:
        acc, columns = k.carried
        a = p.load("A", (64, 64), at=(0, k.i * 64), name="a")
        b = p.load("B", (64, 64), at=(k.i * 64, 0), name="b")
        seen = p.op("compare", columns, p.op("splat", trips, shape=(64,)), element="i1", predicate="lt", signed=1)
        s = p.dot(a, b, name="s")
        retained = p.op("select", p.row(seen, 64), s, p.constant(0.0, (64, 64), "f32"), name="kept")
        k.yields = [p.op("add", acc, retained), p.op("add", columns, p.constant(64, (64,)))]
    p.store("C", p.op("cast", k.results[0], element="f16"))
    made = lowered(p.done())
    assert verify(made) == ()


# -- what is refused ----------------------------------------------------------------------------


def refusal(program: TileProgram) -> exc.UnsupportedInKernel:
    with pytest.raises(exc.UnsupportedInKernel) as raised:
        lowered(program)
    assert raised.value.file == "k.py" and raised.value.line
    return raised.value


def test_a_vector_beside_matrices_is_reduced() -> None:
    p = product(lambda p, acc: p.store("s", p.reduce(p.reduce(acc, 1, "add"), 0, "add", name="all")))
    assert verify(lowered(p)) == ()


def test_one_axis_of_a_matrix_without_products_is_reduced() -> None:
    p = Programs()
    tensors(p, "x", "s")
    p.store("s", p.reduce(p.load("x", (64, 64), "f32", name="x"), 1, "add", name="total"))
    made = lowered(p.done())
    (reduced,) = statements(made, Reduce)
    assert isinstance(reduced, Reduce) and (reduced.axis, reduced.scratch) == (1, None)


def test_fill_is_for_operands_that_must_be_fragments() -> None:
    """A constant that is stored as a tile."""

    def work(p: Programs, acc: int) -> None:
        p.store("D", p.op("cast", acc, element="f16"))
        p.store("E", p.constant(1.0, (64, 64), "f16"))

    made = lowered(product(work))
    assert any(isinstance(f, Fill) and f.value == Number(1.0, "f16") for f in statements(made, Fill))
    assert verify(made) == ()
