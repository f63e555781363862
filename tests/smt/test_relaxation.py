"""The relaxation excludes no schedule, and much that the bounds do not."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from tests.exhaustive import optimum
from tests.graphs import edge, graph, instruction, value
from tests.kernels import B200, costed_example
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.backend import Z3Session
from twill.smt.objectives import crossing_at_most, length_at_most, registers_at_most
from twill.smt.problem import Problem
from twill.smt.relaxation import Relaxation, least_possible
from twill.zlp.bounds import lower_bounds
from twill.zlp.largest import largest_ii

QUIET = settings(max_examples=30, derandomize=True, suppress_health_check=list(HealthCheck))


def relaxed(problem: CostedGraph, machine: Machine, low: int, high: int) -> Relaxation:
    """The relaxation of a problem for I in [low, high]."""
    return Relaxation(Problem(problem, machine), Z3Session, (low, high))


def unlimited() -> None:
    """The seconds left: any number."""


@QUIET
@given(problems(most_instructions=5, most_cycles=4))
def test_no_schedule_is_excluded(problem: tuple[CostedGraph, Machine]) -> None:
    g, machine = problem
    best = optimum(g, machine, largest_ii(g))
    if best is None:
        return
    assert least_possible(relaxed(g, machine, 1, best.ii), unlimited) <= best.ii
    r = relaxed(g, machine, best.ii, best.ii)
    r.sharpen()
    e = r.encoding
    r.keep(length_at_most(e, best.copies * best.ii))
    r.keep(crossing_at_most(e, best.crossing))
    r.keep(length_at_most(e, best.length))
    r.keep(registers_at_most(e, best.registers))
    assert r.possible(best.ii, None)[0] == "sat"


def test_wide_values_of_one_warp_group_live_one_after_another() -> None:
    """Two values of 40 registers in a group of 60: together they live 5 + 7 cycles, though units are busy for 4."""
    ops = tuple(instruction(n, (unit, 1)) for n, unit in enumerate(("alu", "tensor", "tma", "alu")))
    edges = (edge(0, 1, 5), edge(2, 3, 7))
    values = (value(0, (1, 0), size=40), value(2, (3, 0), size=40))
    g = graph(ops, edges, tuple(x.model_copy(update={"id": n}) for n, x in enumerate(values)))
    machine = make_machine(compute_groups=1)
    assert lower_bounds(g, machine).best < 12
    assert least_possible(relaxed(g, machine, 1, 40), unlimited) == 12


def test_a_ring_of_one_slot_is_free_again_after_its_last_reader() -> None:
    ops = (instruction(0, ("tma", 1), asynchronous=True), instruction(1, ("alu", 1)), instruction(2, ("alu", 1)))
    g = graph(ops, (edge(0, 1, 9), edge(1, 2, 6)), (value(0, (1, 0), (2, 0), space="shared", size=200),))
    assert least_possible(relaxed(g, make_machine(), 1, 40), unlimited) == 16


def test_what_no_memory_holds_is_excluded_at_every_interval() -> None:
    ops = (instruction(0, ("tma", 1), asynchronous=True), instruction(1, ("alu", 1)))
    g = graph(ops, (edge(0, 1, 1),), (value(0, (1, 0), space="shared", size=999),))
    assert least_possible(relaxed(g, make_machine(), 1, 40), unlimited) == 41


def test_neighbouring_iterations_are_kept_apart_when_asked_for_more() -> None:
    """v1 starts 4 to 5 cycles after v0, each holds the only group for 2: at I = 4 and 5 v1 meets the next v0."""
    ops = (instruction(0, ("alu", 1), hold=2, latency=2), instruction(1, ("tensor", 1), hold=2, latency=2))
    g = graph(ops, (edge(0, 1, 4), edge(1, 0, -5)))
    r = relaxed(g, make_machine(compute_groups=1), 4, 9)
    assert least_possible(r, unlimited) == 4
    r.sharpen()
    assert least_possible(r, unlimited, 4) == 6


def test_nothing_is_held_while_a_value_leaves_its_warp_group_when_asked_for_more() -> None:
    """v0 leaves for v2, which has a group of its own, in cycles 2 to 4; v1 is held in cycles 9 and 10. Sums and holds
    allow I = 7, but the next v0 leaves in cycles 9 to 11 then."""
    ops = (
        instruction(0, ("alu", 1), hold=2, latency=2),
        instruction(1, ("tensor", 1), hold=2, latency=2),
        instruction(2, ("tma", 1), variable=True, asynchronous=True),
    )
    leaving = value(0, (2, 0), size=1).model_copy(update={"spill": 3})
    g = graph(ops, (edge(0, 1, 9), edge(1, 0, -9), edge(0, 2, 2)), (leaving,))
    r = relaxed(g, make_machine(compute_groups=2), 1, 30)
    assert least_possible(r, unlimited) == 7
    r.sharpen()
    assert least_possible(r, unlimited, 7) == 11


def test_values_of_one_warp_group_leave_it_one_after_another() -> None:
    """Two values leave one group for 4 cycles each; the second is made 2 cycles after the first at most: at no I."""
    ops = (
        instruction(0, ("alu", 1), hold=1, latency=1),
        instruction(1, ("tensor", 1), hold=1, latency=1),
        instruction(2, ("tma", 1), variable=True, asynchronous=True),
    )
    one, other = (value(v, (2, 0), size=1).model_copy(update={"spill": 4}) for v in (0, 1))
    g = graph(ops, (edge(0, 1, 1), edge(1, 0, -2), edge(0, 2, 1), edge(1, 2, 1)), (one, other))
    machine = make_machine(compute_groups=2)
    r = relaxed(g, machine, 1, 30)
    assert least_possible(r, unlimited) == 10
    r.sharpen()
    assert least_possible(r, unlimited, 10) == 31


def test_no_time_excludes_nothing() -> None:
    g = graph((instruction(0, ("alu", 6)),))
    assert least_possible(relaxed(g, make_machine(), 1, 40), lambda: 0.0) == 1


def test_attention_on_b200_has_its_least_interval_from_the_relaxation() -> None:
    """Two instances fused: the units alone allow 2064."""
    g = costed_example("attention", "full", B200, fuse=2, operand_a="shared")
    assert lower_bounds(g, B200).best == 2064
    assert least_possible(relaxed(g, B200, 2064, 2600), unlimited) == 2354


def test_attention_with_half_of_its_exponentials_by_a_polynomial_has_its_least_interval_from_the_relaxation() -> None:
    """One row block. The tile of scores waits 50 cycles until the factor of rescaling has left for another warp group;
    without that, 1,438 cycles would do."""
    g = costed_example("attention", "full", B200, operand_a="tmem", polynomial=8)
    r = relaxed(g, B200, lower_bounds(g, B200).best, 1600)
    r.sharpen()
    assert least_possible(r, unlimited) == 1488
