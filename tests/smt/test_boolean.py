"""The paper's Boolean encoding decides every (I, L) as trying everything does, and breaks no rule."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.exhaustive import budgets_of, longest_paths, row_vectors, starts_within
from tests.groupings import groupings
from tests.rules import Plan, broken, length
from tests.strategies import make_graph, make_machine, problems
from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Read, Use
from twill.machine.description import Machine
from twill.smt import grid_rules
from twill.smt.assignment import Assignment
from twill.smt.boolean import BooleanAnswer, solve_boolean
from twill.smt.grid import Grid
from twill.smt.limits import Limits
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds

QUIET = settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))

FEWER = settings(QUIET, max_examples=20)


def solve(graph: CostedGraph, machine: Machine, ii: int, longest: int) -> BooleanAnswer:
    """The answer, given time enough for any small problem."""
    return solve_boolean(graph, machine, ii, longest, 60)


def feasible_within(graph: CostedGraph, machine: Machine, ii: int, longest: int) -> bool:
    """Whether some plan has this I and L <= longest, by trying all of them."""
    for grouping in groupings(graph, machine):
        paths = longest_paths(graph, grouping, ii)
        if paths is None:
            continue
        for rows in row_vectors(graph, grouping, ii):
            for starts in starts_within(graph, ii, rows, paths, longest):
                if budgets_of(graph, machine, Plan(ii, starts, grouping.groups, grouping.contexts)) is not None:
                    return True
    return False


def plan_of(a: Assignment) -> Plan:
    """The assignment as a plan; unused slots keep their number."""
    return Plan(a.ii, a.start, a.slot, tuple(slot.context.name for slot in a.slots))


def rules_broken(a: Assignment) -> frozenset[str]:
    """Rules that the assignment breaks with the least budgets that it needs."""
    return broken(a.graph, a.machine, plan_of(a), tuple(a.budget(slot.id) for slot in a.slots))


@QUIET
@given(problems(most_instructions=4, most_cycles=4), st.integers(1, 9), st.integers(0, 8))
def test_verdicts_are_those_of_trying_everything(problem: tuple[CostedGraph, Machine], ii: int, slack: int) -> None:
    graph, machine = problem
    longest = max(i.latency for i in graph.instructions) + slack
    answer = solve(graph, machine, ii, longest)
    assert answer.outcome == ("sat" if feasible_within(graph, machine, ii, longest) else "unsat")


@FEWER
@given(problems(most_instructions=6, most_cycles=6), st.integers(1, 16), st.integers(0, 16))
def test_every_schedule_keeps_the_rules(problem: tuple[CostedGraph, Machine], ii: int, slack: int) -> None:
    graph, machine = problem
    longest = max(i.latency for i in graph.instructions) + slack
    a = solve(graph, machine, ii, longest).assignment
    assume(a is not None)
    assert a is not None
    assert rules_broken(a) == frozenset()
    assert length(graph, plan_of(a)) <= longest


@FEWER
@given(problems(most_instructions=6, most_cycles=6))
def test_both_encodings_agree_on_the_optimum(problem: tuple[CostedGraph, Machine]) -> None:
    graph, machine = problem
    outcome = Search(graph, machine, lower_bounds(graph, machine), Limits()).run()
    assume(outcome.objective is not None)
    assert outcome.objective is not None
    ii, copies, within = outcome.objective.ii, outcome.objective.copies, outcome.objective.length
    assert solve(graph, machine, ii, within).outcome == "sat"
    assert solve(graph, machine, ii, (copies - 1) * ii).outcome == "unsat"
    if ii > 1:
        assert solve(graph, machine, ii - 1, (copies + 1) * (ii - 1)).outcome == "unsat"


def chain(number: int, cycles: int) -> Instruction:
    """A synchronous instruction on the unit "alu"."""
    uses = (Use(unit="alu", start=0, cycles=1),)
    return Instruction(
        id=number, name=f"chain{number}", op="add", unit="alu", line=number, block=-1, uses=uses, latency=cycles,
        hold=cycles, asynchronous=False, variable_latency=False, contexts=("compute",),
    )  # fmt: skip


def test_a_spill_blocks_its_warp_group_all_the_time_it_takes() -> None:
    """Three instructions of 2 cycles and a spill of 3 fill 9 cycles of one group only if all of the spill counts."""
    machine = make_machine(compute_groups=2)
    far = chain(1, 2).model_copy(update={"contexts": ("load",)})
    edge = CostedEdge(src=0, dst=1, delay=2, distance=0, crossing=3, kind="value")
    value = CostedValue(
        id=0, name="x", line=1, block=-1, producer=0, space="register", bytes=0, registers=2,
        reads=(Read(reader=1, distance=0),), spill=3,
    )  # fmt: skip
    tied = [chain(n, 2).model_copy(update={"single_issuer": "one"}) for n in (0, 2, 3)]
    graph = make_graph(machine, (tied[0], far, tied[1], tied[2]), (edge,), (value,))
    assert solve(graph, machine, 8, 40).outcome == "unsat"
    assert solve(graph, machine, 9, 40).outcome == "sat"


def test_two_uses_of_a_unit_by_one_instruction_must_not_meet_modulo_the_interval() -> None:
    machine = make_machine()
    uses = (Use(unit="alu", start=0, cycles=1), Use(unit="alu", start=4, cycles=1))
    graph = make_graph(machine, (chain(0, 2).model_copy(update={"uses": uses, "latency": 5}),))
    assert solve(graph, machine, 4, 5).outcome == "unsat"
    assert solve(graph, machine, 3, 5).outcome == "sat"


def test_of_an_interleaved_unit_only_the_sum_counts() -> None:
    """Two instructions one cycle apart that occupy a unit for 2 cycles each: 4 cycles of port fit I = 4, not I = 3."""
    machine = make_machine()
    ports = (Use(unit="alu", start=0, cycles=2),)
    steps = tuple(chain(n, 3).model_copy(update={"uses": ports, "hold": 1, "asynchronous": True}) for n in (0, 1))
    forth = CostedEdge(src=0, dst=1, delay=1, distance=0, crossing=0, kind="memory")
    back = CostedEdge(src=1, dst=0, delay=-1, distance=0, crossing=0, kind="anti")
    graph = make_graph(machine, steps, (forth, back))
    assert solve(graph, machine, 4, 8).outcome == "unsat"
    interleaved = graph.model_copy(update={"interleaved": ("alu",)})
    assert solve(interleaved, machine, 4, 8).outcome == "sat"
    assert solve(interleaved, machine, 3, 8).outcome == "unsat"


def test_the_printed_form_has_every_iteration_and_every_pair_of_cycles() -> None:
    """Two chains of 2 cycles, L = 8, I = 3: three iterations of 7 cycles, and the pairs that an edge forbids."""
    machine = make_machine()
    edge = CostedEdge(src=0, dst=1, delay=2, distance=0, crossing=0, kind="value")
    grid = Grid(make_graph(machine, (chain(0, 2), chain(1, 2)), (edge,)), machine, 3, 8)
    assert (grid.copies, grid.cycles) == (3, 14)
    grid_rules.uniqueness(grid)
    assert grid.variables == 2 * 3 * 7
    assert [grid.op(0, 1, t) for t in (2, 3, 9, 10)] == ["false", "op0_1_3", "op0_1_9", "false"]
    before = grid.clauses
    grid_rules.dependence(grid)
    assert grid.clauses - before == 3 * sum(1 for t in range(7) for early in range(7) if early < t + 2)


def test_what_an_iteration_hands_on_is_live_until_it_is_read() -> None:
    """A value that the next iteration reads is alive in a row of its own, whichever iterations the program has."""
    machine = make_machine(shared=64)
    value = CostedValue(
        id=0, name="x", line=1, block=-1, producer=0, space="shared", bytes=64, registers=0,
        reads=(Read(reader=1, distance=1),), spill=0,
    )  # fmt: skip
    edge = CostedEdge(src=0, dst=1, delay=2, distance=1, crossing=0, kind="value")
    order = CostedEdge(src=0, dst=1, delay=2, distance=0, crossing=0, kind="memory")
    graph = make_graph(machine, (chain(0, 2), chain(1, 2)), (edge, order), (value,))
    assert solve(graph, machine, 4, 4).outcome == "unsat"  # it lives for 4 + 2 + 2 cycles: two slots
    assert solve(graph, make_machine(shared=128), 4, 4).outcome == "sat"


def test_a_window_too_short_for_an_instruction_is_unsatisfiable() -> None:
    machine = make_machine()
    assert solve(make_graph(machine, (chain(0, 3),)), machine, 4, 2).outcome == "unsat"


def test_no_time_is_unknown_and_never_infeasible() -> None:
    machine = make_machine()
    answer = solve_boolean(make_graph(machine, (chain(0, 3),)), machine, 4, 2, seconds=0)
    assert answer.outcome == "unknown"
    assert answer.assignment is None
