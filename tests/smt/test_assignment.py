"""What follows from starts and warp groups: by the formulas of docs/model.md."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import rules
from tests.encodings import encoded, fix, plans, slots_of_plan
from tests.graphs import graph, instruction, value
from tests.rules import Plan
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.assignment import Assignment, read_assignment
from twill.zlp.slots import slots_of

QUIET = settings(max_examples=80, derandomize=True, suppress_health_check=list(HealthCheck))


def assigned(g: CostedGraph, machine: Machine, plan: Plan) -> tuple[Assignment, dict[int, int]] | None:
    """The plan as an assignment, and slots by group."""
    e = encoded(g, machine, plan.ii, plan.ii)
    slots = slots_of_plan(e, plan)
    if slots is None:
        return None
    ids = {group: slot.id for group, slot in slots.items()}
    return Assignment(g, machine, e.slots, plan.ii, plan.starts, tuple(ids[x] for x in plan.groups)), ids


@QUIET
@given(problems(most_instructions=5, most_cycles=5), st.data())
def test_every_figure_is_that_of_the_formulas(problem: tuple[CostedGraph, Machine], data: st.DataObject) -> None:
    g, machine = problem
    count = len(g.instructions)
    plan = Plan(
        data.draw(st.integers(1, 12)),
        (0, *data.draw(st.lists(st.integers(0, 30), min_size=count - 1, max_size=count - 1))),
        tuple(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))),
        ("compute", "load"),
    )
    found = assigned(g, machine, plan)
    if found is None:
        return
    a, ids = found
    assert a.length == rules.length(g, plan)
    assert a.copies == rules.copies(g, plan)
    assert a.crossing == rules.crossing(g, plan.groups)
    for x in g.values:
        assert (a.birth(x), a.death(x)) == rules.lifetime(g, plan, x)
        assert a.depth(x) == rules.depth(g, plan, x)
    budgets = 0
    for group, slot in ids.items():
        need = rules.registers(g, plan, group)
        context = machine.context(plan.contexts[group])
        budget = rules.least_budget(need, context, machine.register_file.granule)
        assert a.budget(slot) == budget
        budgets += budget
    assert a.registers == budgets
    assert {s.id for s in a.used} == set(ids.values())


@QUIET
@given(problems(most_instructions=4, most_cycles=4), st.data())
def test_a_model_is_read_back(problem: tuple[CostedGraph, Machine], data: st.DataObject) -> None:
    g, machine = problem
    plan = data.draw(plans(g, machine))
    if plan is None:
        return
    e = encoded(g, machine, plan.ii, plan.ii + 1)
    found = assigned(g, machine, plan)
    if found is None or not fix(e, plan):
        return
    answer = e.session.check()
    if answer.outcome == "sat":
        assert read_assignment(e, answer.values) == found[0]


def test_starts_are_moved_to_begin_at_zero() -> None:
    g = graph((instruction(0), instruction(1)))
    e = encoded(g, make_machine(), 10, 10)
    a = read_assignment(e, {"r0": 4, "s0": 2, "r1": 1, "s1": 3})
    assert a.start == (0, 7)


def test_a_range_of_intervals_is_read_from_the_model() -> None:
    e = encoded(graph((instruction(0),)), make_machine(), 3, 9)
    assert read_assignment(e, {"I": 7}).ii == 7


def test_pressure_names_the_birth_at_which_it_is_reached() -> None:
    # v0 makes 5 registers that live to the end of v2; v1 makes 9 more in between.
    ops = tuple(instruction(n, ("alu", 2)) for n in range(3))
    g = graph(ops, (), (value(0, (2, 0), size=5), value(1, (2, 0), size=9)))
    machine = make_machine(overhead=4)
    a = Assignment(g, machine, slots_of(machine), 20, (0, 2, 4), (0, 0, 0))
    peak, at = a.pressure(0)
    assert peak == 4 + 5 + 9
    assert at is not None
    assert at.id == 1
    assert a.budget(0) == 24  # the next multiple of 8
    assert a.live(g.values[0], a.birth(g.values[1])) == 1


def test_a_group_that_makes_and_reads_no_register_needs_the_least_budget() -> None:
    machine = make_machine(overhead=8)
    g = graph((instruction(0), instruction(1)), (), (value(0, (0, 0), size=5),))
    a = Assignment(g, machine, slots_of(machine), 20, (0, 0), (0, 1))
    assert a.pressure(1) == (0, None)
    assert a.budget(1) == 8


def test_a_value_from_another_group_needs_a_landing_place_once() -> None:
    machine = make_machine(overhead=0)
    ops = tuple(instruction(n) for n in range(3))
    g = graph(ops, (), (value(0, (1, 0), (2, 0), size=5),))
    a = Assignment(g, machine, slots_of(machine), 20, (0, 5, 6), (0, 1, 1))
    assert a.resident_registers(1) == 5
    assert a.resident_registers(0) == 0
