"""No bound exceeds the optimum, each finds what it is for, and witnesses name kernel lines."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.exhaustive import optimum
from tests.graphs import costed, edge, graph, instruction, value
from tests.strategies import make_machine, problems
from tests.tile_programs import attention
from twill.exc import ImpossibleCycle
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.zlp.bounds import lower_bounds
from twill.zlp.issue import issue_bound
from twill.zlp.lifetime import memory_bound
from twill.zlp.recurrence import recurrence_bound
from twill.zlp.resource import resource_bound

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]


@settings(max_examples=80, suppress_health_check=SLOW)
@given(problems(most_instructions=3, most_cycles=4))
def test_no_smaller_interval_than_a_bound_is_feasible(problem: tuple[CostedGraph, Machine]) -> None:
    costed_graph, machine = problem
    bounds = lower_bounds(costed_graph, machine)
    assert bounds.best == max(bounds.resource, bounds.recurrence, bounds.memory, bounds.issue, 1)
    assert optimum(costed_graph, machine, most_ii=min(bounds.best - 1, 16)) is None


def test_the_busiest_unit_bounds() -> None:
    bound = resource_bound(
        graph((instruction(0, ("alu", 3)), instruction(1, ("tensor", 2)), instruction(2, ("alu", 4))))
    )
    assert bound.value == 7
    assert bound.witness == "the unit alu is busy 7 cycles in every iteration: v2 (line 12) 4, v0 (line 10) 3"


def test_row_blocks_of_an_instruction_are_named_once() -> None:
    one, other = instruction(0, ("alu", 3)), instruction(1, ("alu", 3))
    twin = other.model_copy(update={"name": "v0", "line": 10})
    assert "v0 (line 10) 2 x 3" in resource_bound(graph((one, twin))).witness


def test_the_worst_cycle_bounds_rounded_up() -> None:
    edges = (edge(0, 1, 4), edge(1, 0, 3, distance=2), edge(1, 1, 2, distance=1))
    bound = recurrence_bound(graph((instruction(0), instruction(1)), edges))
    assert bound.value == 4  # (4 + 3) / 2 beats 2 / 1
    assert (
        "v0 (line 10) -> v1 (line 11) -> v0" in bound.witness or "v1 (line 11) -> v0 (line 10) -> v1" in bound.witness
    )


def test_negative_delays_count_against_a_cycle() -> None:
    edges = (edge(0, 1, 9), edge(1, 0, -2, distance=1))
    assert recurrence_bound(graph((instruction(0), instruction(1)), edges)).value == 7


def test_a_crossing_that_no_warp_group_avoids_is_paid() -> None:
    load = instruction(0, ("tma", 2), contexts=("load",), asynchronous=True, variable=True)
    edges = (edge(0, 1, 2, crossing=5), edge(1, 0, 1, distance=1, crossing=5))
    assert recurrence_bound(graph((load, instruction(1)), edges)).value == 13
    assert recurrence_bound(graph((instruction(0), instruction(1)), edges)).value == 3


def test_a_chain_that_waits_for_itself_is_refused() -> None:
    with pytest.raises(ImpossibleCycle, match="line 10"):
        recurrence_bound(graph((instruction(0), instruction(1)), (edge(0, 1, 1), edge(1, 0, 1))))


def test_holds_are_shared_by_the_groups_there_are() -> None:
    machine = make_machine(compute_groups=2)
    assert issue_bound(graph(tuple(instruction(n, hold=4) for n in range(4))), machine).value == 8
    assert issue_bound(graph(tuple(instruction(n, hold=4) for n in range(3))), machine).value == 8  # two share a group
    assert issue_bound(graph((instruction(0, hold=9), instruction(1, hold=1))), machine).value == 9


def test_a_single_issuer_holds_all_its_instructions() -> None:
    machine = make_machine(compute_groups=3)
    ops = tuple(instruction(n, hold=3, issuer="mma") for n in range(3))
    assert issue_bound(graph(ops), machine).value == 9


def test_variable_latency_takes_groups_of_its_own() -> None:
    machine = make_machine(compute_groups=2)
    ops = (instruction(0, hold=2, variable=True), instruction(1, hold=4), instruction(2, hold=4))
    assert issue_bound(graph(ops), machine).value == 8


def test_a_ring_that_does_not_fit_bounds() -> None:
    machine = make_machine(shared=100)
    load = instruction(0, ("tma", 1), latency=20, asynchronous=True, contexts=("load",))
    reader = instruction(1, ("alu", 10))
    held = value(0, (1, 0), space="shared", size=40)
    bound = memory_bound(graph((load, reader), (edge(0, 1, 20),), (held,), machine), machine, 10)
    assert bound.value == 15  # alive 30 cycles; two slots of 40 bytes fit, three do not
    assert "x0 (line 10) 3 x 40 bytes" in bound.witness


def test_registers_on_average_bound() -> None:
    machine = make_machine(register_file=128 * 20)
    ops = (instruction(0, hold=1, latency=30), instruction(1, hold=1))
    bound = memory_bound(graph(ops, (edge(0, 1, 30),), (value(0, (1, 0), size=10),), machine), machine, 1)
    assert bound.value == 15  # 10 registers alive 30 cycles, of 20
    assert "free registers" in bound.witness


def test_a_graph_that_never_fits_gets_no_memory_bound() -> None:
    machine = make_machine(shared=10)
    ops = (instruction(0, asynchronous=True),)
    assert memory_bound(graph(ops, (), (value(0, space="shared", size=40),), machine), machine, 1).value == 0


def test_attention_on_the_h100_is_bound_by_a_unit_and_says_which() -> None:
    machine = load_machine("h100")
    bounds = lower_bounds(costed(attention(), machine, split=2), machine)
    assert bounds.best == bounds.resource
    assert "the unit" in bounds.witness and "(line " in bounds.witness
