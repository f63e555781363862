"""Promises of `twill.smt.warm`: where a budget ends with nothing, a schedule that keeps what other loops have fixed."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.graphs import edge, graph, instruction, value
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.problem import Problem
from twill.smt.warm import patient_start
from twill.zlp.effort import unending
from twill.zlp.slots import slots_of


def test_what_is_fixed_in_two_warp_groups_stays_in_both_though_one_reads_the_other() -> None:
    """The heuristic puts what is connected into one warp group."""
    ops = (instruction(0, ("alu", 2)), instruction(1, ("alu", 2)), instruction(2, ("alu", 2)))
    made = graph(ops, (edge(0, 1, 2, crossing=3), edge(1, 2, 2, crossing=3)), (value(0, (1, 0)), value(1, (2, 0))))
    found = patient_start(Problem(made, make_machine(), fixed={0: 1, 2: 0}), 6, unending)
    assert found is not None
    assert (found.slot[0], found.slot[2]) == (1, 0) and found.slot[1] in (0, 1)


def test_a_slower_schedule_is_taken_where_the_fastest_needs_registers_of_other_loops() -> None:
    """Both values are alive at once in the fastest order; another loop's warp group has the registers for that."""
    ops = tuple(instruction(v, ("alu", 2), latency=6 if v < 2 else 2, hold=2) for v in range(4))
    edges = (edge(0, 2, 6), edge(1, 3, 6))
    made = graph(ops, edges, tuple(value(v, (v + 2, 0), size=16) for v in (0, 1)))
    machine = make_machine(register_file=128 * 40)
    free = patient_start(Problem(made, machine, fixed={0: 0}), 8, unending)
    left = patient_start(Problem(made, machine, fixed={0: 0}, floors={1: 16}), 8, unending)
    assert free is not None and free.budget(0) == 40
    assert left is not None and left.budget(0) == 24 and left.ii > free.ii


@settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problems(most_instructions=5, most_cycles=4), st.integers(0, 4), st.integers(0, 2), st.integers(0, 2))
def test_no_start_moves_what_is_fixed(problem: tuple[CostedGraph, Machine], first: int, one: int, other: int) -> None:
    made, machine = problem
    slots, count = slots_of(machine), len(made.instructions)
    wanted = {first % count: one % len(slots), (first + 1) % count: other % len(slots)}
    fixed = {v: s for v, s in wanted.items() if slots[s].context.name in made.instructions[v].contexts}
    asked = Problem(made, machine, fixed=fixed)
    found = patient_start(asked, 1, unending)
    assert found is None or (asked.keeps_fixed(found) and all(found.slot[v] == s for v, s in fixed.items()))
