"""Over random graphs: the checker accepts what is optimal and finds what formulas modulo I find."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.documents import assemble
from tests.exhaustive import optimum
from tests.rules import Plan, broken
from tests.strategies import problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule

# What the checker says of the document rather than of the plan in it.
DOCUMENT_RULES = {"certificate"}


def found_by_check(graph: CostedGraph, machine: Machine, plan: Plan, budgets: tuple[int, ...]) -> set[str]:
    schedule = assemble(graph, machine, plan, budgets, optimal=False)
    return {item.rule for item in check(schedule, machine)} - DOCUMENT_RULES


@settings(max_examples=100, derandomize=True)
@given(problems(most_instructions=4, most_cycles=3))
def test_optimal_schedules_are_accepted(problem: tuple[CostedGraph, Machine]) -> None:
    graph, machine = problem
    found = optimum(graph, machine, most_ii=8)
    if found is not None:
        assert check(assemble(graph, machine, found.plan, found.budgets), machine) == ()


@settings(max_examples=150, derandomize=True)
@given(problems(most_instructions=6, most_cycles=6), st.data())
def test_random_plans_break_the_same_rules_as_by_formula(
    problem: tuple[CostedGraph, Machine], data: st.DataObject
) -> None:
    graph, machine = problem
    count = len(graph.instructions)
    contexts = ("compute", "load", "compute", "compute")
    plan = Plan(
        ii=data.draw(st.integers(1, 16)),
        starts=tuple(data.draw(st.lists(st.integers(0, 40), min_size=count, max_size=count))),
        groups=tuple(data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))),
        contexts=contexts,
    )
    budgets = tuple(data.draw(st.lists(st.sampled_from((4, 8, 16, 24, 40, 64)), min_size=4, max_size=4)))
    assert found_by_check(graph, machine, plan, budgets) == broken(graph, machine, plan, budgets)


@settings(max_examples=100, derandomize=True)
@given(problems(most_instructions=4, most_cycles=3), st.data())
def test_a_fault_in_an_optimal_schedule_is_found(problem: tuple[CostedGraph, Machine], data: st.DataObject) -> None:
    graph, machine = problem
    found = optimum(graph, machine, most_ii=8)
    if found is None:
        return
    starts, groups, ii = list(found.plan.starts), list(found.plan.groups), found.ii
    number = data.draw(st.integers(0, len(starts) - 1))
    fault = data.draw(st.sampled_from(("move", "regroup", "hurry")))
    if fault == "move":
        starts[number] = max(0, starts[number] + data.draw(st.integers(-ii, ii)))
    elif fault == "regroup":
        groups[number] = data.draw(st.integers(0, max(groups)))
    else:
        ii = max(1, ii - 1)
    plan = Plan(ii, tuple(starts), tuple(groups), found.plan.contexts)
    rules = broken(graph, machine, plan, found.budgets)
    assert found_by_check(graph, machine, plan, found.budgets) == rules
    if fault == "hurry" and ii < found.ii:
        assert rules


@settings(max_examples=200, derandomize=True)
@given(problems(most_instructions=3, most_cycles=3), st.data())
def test_no_edited_number_stops_the_checker(problem: tuple[CostedGraph, Machine], data: st.DataObject) -> None:
    graph, machine = problem
    count = len(graph.instructions)
    plan = Plan(3, tuple(range(count)), (0,) * count, ("compute",))
    document: Any = json.loads(assemble(graph, machine, plan, (16,), optimal=False).canonical())
    places = list(integers_in(document))
    holder, key = places[data.draw(st.integers(0, len(places) - 1))]
    holder[key] = data.draw(st.sampled_from((-(10**12), -1, 0, 1, 2, 7, 10**6, 10**12)))
    check(load_schedule(json.dumps(document)), machine)


@settings(max_examples=200, derandomize=True)
@given(problems(most_instructions=3, most_cycles=3), st.data())
def test_every_edited_number_of_ops_and_figures_is_found(
    problem: tuple[CostedGraph, Machine], data: st.DataObject
) -> None:
    graph, machine = problem
    found = optimum(graph, machine, most_ii=6)
    if found is None:
        return
    schedule = assemble(graph, machine, found.plan, found.budgets)
    document: Any = json.loads(schedule.canonical())
    part = data.draw(st.sampled_from(("ops", "objective", "figures")))
    holder = {"ops": document["ops"][0], "objective": document["loops"][0]["objective"], "figures": document}[part]
    keys = [key for key, value in holder.items() if type(value) is int]
    key = data.draw(st.sampled_from(keys))
    holder[key] += data.draw(st.sampled_from((-1, 1)))
    edited = Schedule.parse(json.dumps(document))
    assert check(edited, machine), f"{part}.{key}"


def integers_in(document: Any) -> Any:
    """(container, key) of every integer in a JSON document, in order."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        if type(value) is int:
            yield document, key
        elif isinstance(value, dict | list):
            yield from integers_in(value)
