"""Loops unrolled, folded again, and put side by side."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from benchmarks.side_by_side import side_by_side
from tests.graphs import edge, graph, instruction, value
from tests.kernels import B200, H100, costed_example
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph, Instruction
from twill.graph.unroll import folded, unrolled
from twill.machine.description import Machine
from twill.smt.assignment import repeated
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds

QUIET = settings(max_examples=40, derandomize=True)


def chain() -> CostedGraph:
    """v0 -> v1, and v1 to the v0 three iterations later."""
    ops = (instruction(0, ("alu", 2)), instruction(1, ("tensor", 3)))
    return graph(ops, (edge(0, 1, 2), edge(1, 0, 3, distance=3)), (value(0, (1, 0), size=4), value(1, (0, 3), size=4)))


def test_a_distance_is_split_into_copies_and_iterations() -> None:
    twice = unrolled(chain(), 2)
    assert [(e.src, e.dst, e.distance) for e in twice.edges] == [(0, 1, 0), (1, 2, 1), (2, 3, 0), (3, 0, 2)]
    assert [(x.producer, [(r.reader, r.distance) for r in x.reads]) for x in twice.values] == [
        (0, [(1, 0)]), (1, [(2, 1)]), (2, [(3, 0)]), (3, [(0, 2)])]  # fmt: skip


@QUIET
@given(problems(most_instructions=4))
def test_folding_undoes_unrolling(problem: tuple[CostedGraph, Machine]) -> None:
    once, _ = problem
    found = folded(unrolled(once, 3))
    assert found is not None
    assert found.times % 3 == 0
    assert len(found.graph.instructions) * found.times == 3 * len(once.instructions)


def test_a_loop_that_differs_anywhere_is_not_folded() -> None:
    twice = unrolled(chain(), 2)
    changed = twice.edges[2].model_copy(update={"delay": 7})
    assert folded(twice) is not None
    assert folded(twice.model_copy(update={"edges": (*twice.edges[:2], changed, *twice.edges[3:])})) is None
    assert folded(chain()) is None


def test_what_fits_is_repeated_and_what_does_not_is_not() -> None:
    g, machine = chain(), make_machine()
    best = Search(g, machine, lower_bounds(g, machine)).run().assignment
    assert best is not None
    again = repeated(best, unrolled(g, 4), 4)
    assert again is not None
    assert (again.ii, again.start[6]) == (4 * best.ii, best.start[0] + 3 * best.ii)
    one = graph((instruction(0, ("tma", 4), asynchronous=True), instruction(1, ("alu", 1))), (edge(0, 1, 4),),
                (value(0, (1, 0), space="shared", size=100),))  # fmt: skip
    best = Search(one, machine, lower_bounds(one, machine)).run().assignment
    assert best is not None
    assert repeated(best, unrolled(one, 2), 2) is not None
    assert repeated(best, unrolled(one, 3), 3) is None


def test_loops_side_by_side_share_units_and_nothing_else() -> None:
    g = side_by_side([chain(), chain()])
    assert [(e.src, e.dst) for e in g.edges] == [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert [x.id for x in g.values] == [0, 1, 2, 3]
    one, two = (Search(x, make_machine(), lower_bounds(x, make_machine())).run().objective for x in (chain(), g))
    assert one is not None
    assert two is not None
    assert (one.ii, two.ii) == (3, 6)


def test_row_blocks_are_numbered_on() -> None:
    attention = costed_example("attention", "full-d64", H100, split=2)
    both = side_by_side([attention, attention])

    def blocks(some: tuple[Instruction, ...]) -> set[int]:
        return {i.block for i in some}

    n = len(attention.instructions)
    assert (blocks(both.instructions[:n]), blocks(both.instructions[n:])) == ({-1, 0, 1}, {-1, 2, 3})


def test_fail_for_loops_of_different_machines() -> None:
    with pytest.raises(ValueError, match="different machines"):
        side_by_side([costed_example("gemm", None, H100), costed_example("gemm", None, B200)])
