"""The heuristic's schedules obey docs/model.md, and come near the lower bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graphs import edge, graph, instruction, value
from tests.rules import Plan, broken
from tests.strategies import make_machine, problems
from twill.exc import ImpossibleCycle
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.costed import CostedGraph
from twill.graph.extract import extract
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.solve.pipeline import main_region
from twill.zlp.bounds import lower_bounds
from twill.zlp.grouping import proposals
from twill.zlp.heuristic import HeuristicSchedule, heuristic_schedule
from twill.zlp.memory_use import MemoryUse
from twill.zlp.sequential import in_orders, sequential_schedule
from twill.zlp.slots import slots_of


def violations(costed: CostedGraph, machine: Machine, found: HeuristicSchedule) -> frozenset[str]:
    contexts = tuple(slot.context.name for slot in slots_of(machine))
    return broken(costed, machine, Plan(found.ii, found.start, found.group, contexts), found.budgets)


def example(name: str, spec: str, machine: Machine, split: int) -> CostedGraph:
    _, dependences = extract(f"examples/{name}.py", spec)
    region = main_region(dependences)
    found = cooperations(dependences, region, machine)
    chosen = next(c for c in found if (c.split, c.fuse) == (split, 1))
    return cost(dependences, region, machine, chosen)


@settings(max_examples=150)
@given(problems())
def test_every_schedule_breaks_no_rule(problem: tuple[CostedGraph, Machine]) -> None:
    costed, machine = problem
    try:
        least = lower_bounds(costed, machine).best
    except ImpossibleCycle:
        return
    found = heuristic_schedule(costed, machine, least)
    if found is not None:
        assert violations(costed, machine, found) == frozenset()
        assert found.ii >= least
        assert MemoryUse(costed, machine, slots_of(machine), found.group).holds_operands()


@settings(max_examples=40)
@given(problems(), st.integers(0, 12))
def test_where_only_small_intervals_are_of_use_the_schedule_is_the_same_or_has_none_of_them(
    problem: tuple[CostedGraph, Machine], more: int
) -> None:
    costed, machine = problem
    try:
        least = lower_bounds(costed, machine).best
    except ImpossibleCycle:
        return
    found = heuristic_schedule(costed, machine, least, at_most=least + more)
    anything = heuristic_schedule(costed, machine, least)
    assert found == anything or (found is None and anything is not None and anything.ii > least + more)


@settings(max_examples=150)
@given(problems())
def test_warp_groups_of_a_schedule_have_registers_for_what_each_instruction_reads(
    problem: tuple[CostedGraph, Machine],
) -> None:
    costed, machine = problem
    try:
        least = lower_bounds(costed, machine).best
    except ImpossibleCycle:
        return
    slots = slots_of(machine)
    for groups in proposals(costed, machine, least):
        memory_use = MemoryUse(costed, machine, slots, groups)
        if memory_use.possible() and not memory_use.holds_operands():
            assert not [*in_orders(costed, machine, groups, thrifty=True)]


def test_an_instruction_that_reads_more_than_its_warp_group_has_ends_the_search_at_once() -> None:
    machine = make_machine()
    most = max(context.max_registers for context in machine.contexts)
    parts = tuple(instruction(number, ("alu", 2)) for number in range(3))
    edges = (edge(0, 2, 2), edge(1, 2, 2))
    for registers, possible in ((most // 2, False), (most // 8, True)):
        read = tuple(value(number, (2, 0), size=registers) for number in range(2))
        costed = graph(parts, edges).model_copy(update={"values": read})
        assert MemoryUse(costed, machine, slots_of(machine), (0, 0, 0)).holds_operands() is possible
        assert (heuristic_schedule(costed, machine, 1) is not None) is possible


@pytest.mark.usefixtures("at_root")
def test_a_limit_between_two_intervals_that_are_tried_is_no_reason_to_find_nothing() -> None:
    """Where a schedule of more is found first, and then one of less than the limit."""
    machine = load_machine("b200")
    costed = example("attention_backward", "full", machine, 1)
    least = lower_bounds(costed, machine).best
    anything = heuristic_schedule(costed, machine, least, 3)
    assert anything is not None
    assert heuristic_schedule(costed, machine, least, 3, at_most=anything.ii) == anything


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize("spec", ["full", "full-d256"])
def test_attention_comes_within_a_tenth_of_its_tensor_core_time(spec: str) -> None:
    machine = load_machine("h100")
    costed = example("attention", spec, machine, 2)
    found = heuristic_schedule(costed, machine, 2048)
    assert found is not None
    assert found.ii <= 1.1 * 2048
    assert violations(costed, machine, found) == frozenset()


@pytest.mark.usefixtures("at_root")
def test_loads_get_a_warp_group_of_their_own_and_row_blocks_one_each() -> None:
    machine = load_machine("h100")
    costed = example("attention", "full", machine, 2)
    found = heuristic_schedule(costed, machine, 2048)
    assert found is not None
    loads = {found.group[i.id] for i in costed.instructions if i.variable_latency}
    rows = [{found.group[i.id] for i in costed.instructions if i.block == b} for b in (0, 1)]
    assert len(loads) == 1
    assert [len(row) for row in rows] == [1, 1]
    assert loads.isdisjoint(rows[0] | rows[1]) and rows[0].isdisjoint(rows[1])


def test_the_same_graph_gives_the_same_schedule() -> None:
    costed = graph(
        (instruction(0, ("tensor", 3)), instruction(1, ("alu", 4)), instruction(2, ("alu", 2))),
        (edge(0, 1, 3), edge(1, 2, 4), edge(2, 0, 2, distance=1)),
    )
    machine = make_machine()
    assert heuristic_schedule(costed, machine, 1) == heuristic_schedule(costed, machine, 1)


def test_a_recurrence_alone_is_met_exactly() -> None:
    costed = graph((instruction(0, ("alu", 4)), instruction(1, ("tensor", 3))), (edge(0, 1, 4), edge(1, 0, 3, 1)))
    found = heuristic_schedule(costed, make_machine(), 1)
    assert found is not None
    assert found.ii == 7
    assert found.start == (0, 4)


def test_no_schedule_is_made_up_for_a_graph_that_fits_no_memory() -> None:
    machine = make_machine(shared=0)
    costed = graph((instruction(0, ("tma", 1), asynchronous=True), instruction(1, ("alu", 1))), (edge(0, 1, 1),))
    with_tile = costed.model_copy(update={"values": (value(0, (1, 0), space="shared", size=16),)})
    assert heuristic_schedule(with_tile, machine, 1) is None


@settings(max_examples=40)
@given(problems(), st.integers(0, 60))
def test_a_clock_that_ends_anywhere_leaves_a_valid_schedule_or_none(
    problem: tuple[CostedGraph, Machine], after: int
) -> None:
    """And what looks for one looks at the clock no more than a few times behind the end."""
    costed, machine = problem
    try:
        least = lower_bounds(costed, machine).best
    except ImpossibleCycle:
        return
    asked = 0

    def over() -> bool:
        nonlocal asked
        asked += 1
        return asked > after

    found = heuristic_schedule(costed, machine, least, over=over)
    assert found is None or violations(costed, machine, found) == frozenset()
    assert asked <= after + 60


def test_an_instruction_that_is_held_while_its_value_leaves_has_no_schedule_in_program_order() -> None:
    """Where the warp group is busy with the instruction itself when its value is to be written for another."""
    held = instruction(0, latency=5, hold=10)
    leaving = value(0, (1, 0)).model_copy(update={"spill": 2})
    costed = graph((held, instruction(1)), (edge(0, 1, delay=5),), (leaving,))
    machine = make_machine()
    assert list(in_orders(costed, machine, (0, 0)))
    assert not list(in_orders(costed, machine, (0, 1)))


def test_where_the_order_of_the_program_keeps_too_much_alive_another_one_does_not() -> None:
    """Six tiles of 60 registers are made first and summed one after another behind that; two are alive at a time."""
    tiles, size = 6, 60
    machine = load_machine("h100")
    (unit, *_) = [one.name for one in machine.units if one.name == "fma"]
    made = [instruction(n, (unit, 10)) for n in range(2 * tiles)]  # tile n, then what adds it to the sum
    reads = [edge(n, tiles + n, 10) for n in range(tiles)] + [
        edge(tiles + n, tiles + n + 1, 10) for n in range(tiles - 1)
    ]
    values = [value(n, (tiles + n, 0), size=size) for n in range(tiles)]
    sums = [value(tiles + n, (tiles + n + 1, 0), size=size) for n in range(tiles - 1)]
    costed = graph(tuple(made), tuple(reads), tuple(values + sums), machine)
    one = tuple(0 for _ in made)
    assert sequential_schedule(costed, machine, [one]) is None
    found = sequential_schedule(costed, machine, [one], thrifty=True)
    assert found is not None
    assert violations(costed, machine, found) == frozenset()
