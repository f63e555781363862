"""Neighbourhoods lead from a poor schedule to a better one, and only to valid ones."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, assume, given, settings

from tests.graphs import edge, graph, instruction
from tests.smt.test_compaction import refusals, some_schedule
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.assignment import Assignment
from twill.smt.limits import Limits
from twill.smt.neighbourhood import CHOICES, Neighbourhoods, fixed_structure
from twill.smt.problem import Problem
from twill.smt.questions import Questions
from twill.zlp.slots import slots_of

QUIET = settings(max_examples=40, derandomize=True, suppress_health_check=list(HealthCheck))


def asked(costed: CostedGraph, machine: Machine, best: Assignment) -> Questions:
    """Questions about a graph of which a schedule is known."""
    found = Questions(Problem(costed, machine), Limits())
    found.best = best
    return found


@QUIET
@given(problems(most_instructions=6, most_cycles=6))
def test_what_is_kept_of_a_schedule_is_true_of_it(problem: tuple[CostedGraph, Machine]) -> None:
    costed, machine = problem
    known = some_schedule(costed, machine, slack=3)
    assume(known is not None)
    assert known is not None
    questions = asked(costed, machine, known)
    e = questions.about((known.ii, known.ii))
    base = known.start[0] % known.ii
    lowest = min((t - base) // known.ii for t in known.start)
    itself = [f"(= {e.start(v).row} {(t - base) % known.ii})" for v, t in enumerate(known.start)]
    itself += [f"(= {e.start(v).stage} {(t - base) // known.ii - lowest})" for v, t in enumerate(known.start)]
    same_group = {known.slot[v]: v for v in range(len(known.start))}
    itself += [t for v, s in enumerate(known.slot) if (t := e.same(v, same_group[s])) != "true"]
    e.flush()
    if e.session.check(itself).outcome == "sat":  # it is not where symmetric schedules are excluded
        assert e.session.check([*itself, *fixed_structure(e, known, set())]).outcome == "sat"


@QUIET
@given(problems(most_instructions=6, most_cycles=6))
def test_improved_schedules_break_no_rule(problem: tuple[CostedGraph, Machine]) -> None:
    costed, machine = problem
    known = some_schedule(costed, machine, slack=4)
    assume(known is not None)
    assert known is not None
    questions = asked(costed, machine, known)
    better = Neighbourhoods(questions, free=2).improve(1, 4)
    assert better == (questions.found.ii < known.ii)
    assert refusals(questions.found) == ()


def test_a_bad_order_is_mended() -> None:
    # In this order the chain 0 -> 1 -> 2 has to wait for the others on its way round; another one needs I = 8.
    uses = (("alu", 3), ("tensor", 4), ("alu", 3), ("tensor", 4), ("alu", 2))
    costed = graph(
        tuple(instruction(k, u) for k, u in enumerate(uses)),
        (edge(0, 1, 3), edge(1, 2, 4), edge(2, 0, 3, 2), edge(3, 4, 4), edge(4, 3, 2, 1)),
    )
    machine = make_machine(compute_groups=2)
    slow = Assignment(costed, machine, slots_of(machine), 40, (0, 3, 12, 20, 30), (0, 1, 0, 1, 0))
    questions = asked(costed, machine, slow)
    questions.take(slow)
    before = questions.found.ii
    Neighbourhoods(questions, free=3).improve(8, 30)
    assert before > questions.found.ii == 8
    assert refusals(questions.found) == ()


def test_the_same_calls_find_the_same_schedules() -> None:
    uses = (("alu", 3), ("tensor", 4), ("alu", 3), ("tensor", 4), ("alu", 2))
    costed = graph(tuple(instruction(k, u) for k, u in enumerate(uses)), (edge(0, 1, 3), edge(2, 3, 3)))
    machine = make_machine(compute_groups=2)
    found = []
    for _ in range(2):
        loose = Assignment(costed, machine, slots_of(machine), 60, (0, 10, 20, 30, 40), (0, 1, 0, 1, 0))
        questions = asked(costed, machine, loose)
        Neighbourhoods(questions, seed=7).improve(1, 3)
        found.append((questions.found.ii, questions.found.start, questions.found.slot))
    assert found[0] == found[1]


def test_every_way_to_choose_names_instructions_once() -> None:
    costed = graph((instruction(0, ("alu", 3)), instruction(1, ("tensor", 4)), instruction(2, ("alu", 1))))
    a = Assignment(costed, make_machine(), slots_of(make_machine()), 9, (0, 3, 5), (0, 0, 0))
    for choose in CHOICES:
        chosen = choose(a, random.Random(1))
        assert chosen
        assert len(set(chosen)) == len(chosen)
        assert set(chosen) <= {0, 1, 2}
