"""The schedule document says of every loop what its assignment says."""

from __future__ import annotations

from tests.graphs import edge, graph, instruction, value
from tests.strategies import make_machine
from twill.graph.costed import Cooperation, CostedGraph
from twill.graph.dependence import DependenceGraph, Region
from twill.machine.description import Machine
from twill.schedule.checker.check import check
from twill.schedule.document import CooperationCandidate, Schedule
from twill.smt.search import Search
from twill.solve.assemble import Solved, assemble
from twill.tile.trip import Trip
from twill.zlp.bounds import lower_bounds

MACHINE = make_machine()


def pipeline(number: int, registers: int) -> CostedGraph:
    """A load, and a reader whose result is kept for two iterations."""
    ops = (
        instruction(0, ("tma", 3), latency=5, asynchronous=True, variable=True, contexts=("load",)),
        instruction(1, ("alu", 4)),
    )
    tile = value(0, (1, 0), space="shared", size=16)
    retained = value(1, (1, 2), size=registers)
    made = graph(ops, (edge(0, 1, 5, crossing=2), edge(1, 1, 4, distance=2)), (tile, retained))
    return made.model_copy(update={"region": number, "line": 10 * number})


def solved(g: CostedGraph, machine: Machine = MACHINE) -> Solved:
    """The optimum of one loop."""
    region = Region(
        id=g.region, kind="loop", line=g.line, trip=Trip(text=f"n{g.region}", constant=None, varies_with_grid=False),
        nodes=(), edges=(),
    )  # fmt: skip
    return Solved(region, g, Search(g, machine, lower_bounds(g, machine)).run())


def document(main: Solved, loops: list[Solved], *, candidates: tuple[CooperationCandidate, ...] = ()) -> Schedule:
    """The document of loops."""
    kernel = DependenceGraph(
        kernel="kernel", spec="spec", file="kernel.py", dims=(), regions=tuple(s.region for s in loops)
    )
    return assemble(kernel, MACHINE, main, loops, candidates, ("x<y",), "key", 1.5)


def test_the_document_repeats_the_assignment() -> None:
    loop = solved(pipeline(1, 5))
    schedule = document(loop, [loop])
    assert check(schedule, MACHINE) == ()
    assert (schedule.kernel, schedule.spec, schedule.machine) == ("kernel", "spec", "tiny")
    assert (schedule.pins, schedule.key, schedule.solve_seconds) == (("x<y",), "key", 1.5)
    assert (schedule.ii, schedule.length, schedule.copies) == (
        loop.assignment.ii, loop.assignment.length, loop.assignment.copies,
    )  # fmt: skip
    for op, i in zip(schedule.ops, loop.graph.instructions, strict=True):
        assert (op.id, op.name, op.unit, op.line, op.cycles, op.hold) == (
            i.id,
            i.name,
            i.unit,
            i.line,
            i.latency,
            i.hold,
        )
        assert op.start == op.stage * schedule.ii + op.row == loop.assignment.start[i.id]
    assert [(b.name, b.space, b.bytes, b.depth) for b in schedule.buffers] == [
        ("x0", "shared", 16, loop.assignment.depth(loop.graph.values[0]))
    ]


def test_the_main_loop_gives_the_figures_at_the_top_and_every_loop_has_its_own() -> None:
    first, main = solved(pipeline(1, 5)), solved(pipeline(2, 9))
    schedule = document(main, [first, main])
    assert [(loop.loop, loop.line, loop.trip) for loop in schedule.loops] == [(1, 10, "n1"), (2, 20, "n2")]
    assert schedule.objective == main.objective
    assert schedule.certificate == main.outcome.certificate
    assert {o.loop for o in schedule.ops} == {b.loop for b in schedule.buffers} == {1, 2}
    assert check(schedule, MACHINE) == ()


def test_a_budget_is_the_largest_that_any_loop_needs() -> None:
    for sizes in ((2, 12), (12, 2)):
        loops = [solved(pipeline(number, size)) for number, size in zip((1, 2), sizes, strict=True)]
        slot = loops[0].assignment.slot[1]
        needs = [loop.budgets()[slot] for loop in loops]
        assert needs[0] != needs[1]
        for main in loops:
            (compute,) = [g for g in document(main, loops).warp_groups if g.context == "compute"]
            assert compute.registers == max(needs)


def test_warp_groups_are_numbered_in_the_order_of_their_slots() -> None:
    loop = solved(pipeline(1, 5))
    schedule = document(loop, [loop])
    assert [(g.id, g.role, g.context, g.threads) for g in schedule.warp_groups] == [
        (0, "compute", "compute", 128),
        (1, "load", "load", 32),
    ]
    assert loop.assignment.slot == (2, 0)  # the second compute group is not used
    assert [o.warp_group for o in schedule.ops] == [1, 0]


def test_cooperations_are_ranked_by_cycles_per_instance_then_by_fewer_instances() -> None:
    loop = solved(pipeline(1, 5))

    def under(split: int, fuse: int, ii: int) -> tuple[float, ...]:
        cooperation = Cooperation(dim="m", split=split, fuse=fuse)
        objective = loop.objective.model_copy(update={"ii": ii})
        outcome = type(loop.outcome)(loop.outcome.assignment, objective, loop.outcome.certificate, False)
        return Solved(loop.region, loop.graph.model_copy(update={"cooperation": cooperation}), outcome).rank()

    assert under(1, 2, 19) < under(1, 1, 10)
    assert under(1, 1, 10) < under(1, 2, 20)
    assert under(1, 1, 10) < under(2, 1, 10)  # all else equal, fewer row blocks
