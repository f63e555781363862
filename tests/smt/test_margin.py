"""Promises of `twill.smt.margin`: room for late products costs nothing that comes before it among the objectives."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings

from tests import blackwell_attention
from tests.golden_schedules import examples
from tests.kernels import B200, H100, costed_example, example
from tests.strategies import problems
from twill.exc import BudgetExhausted
from twill.graph.costed import CostedGraph
from twill.graph.mma_hazards import awaited, hazard_pairs, is_mma, one_result
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.schedule.key import schedule_key
from twill.schedule.options import SolveOptions
from twill.smt import margin
from twill.smt.assignment import Assignment
from twill.smt.limits import Limits
from twill.smt.margin import PARTS, with_margin
from twill.smt.problem import Problem
from twill.smt.search import Search
from twill.solve.pipeline import solve
from twill.zlp.bounds import lower_bounds

THREE = "attention_any_length_full"  # three warp groups share the tensor core
QUIET = settings(max_examples=20, derandomize=True, suppress_health_check=list(HealthCheck))
KEPT = ("attention_full", "attention_causal", "attention_full-d256", THREE)


@QUIET
@given(problems(most_instructions=4, most_cycles=4))
def test_a_margin_costs_at_most_one_more_copy(problem: tuple[CostedGraph, Machine]) -> None:
    graph, machine = problem
    found = [Search(graph, machine, lower_bounds(graph, machine), margin=margin).run() for margin in (False, True)]
    plain, roomy = (o.objective for o in found)
    if plain is None or roomy is None:
        assert plain is roomy
        return
    assert roomy.ii == plain.ii and roomy.crossing <= plain.crossing and roomy.copies <= plain.copies + 1
    if "copies" in roomy.proven:
        assert (roomy.copies, roomy.crossing) == (plain.copies, plain.crossing)
    assert found[1].assignment is None or found[1].assignment.graph == graph


def test_a_margin_that_a_bound_of_i_excludes_is_no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_schedule(blackwell_attention.FULL.path)
    asked = SimpleNamespace(problem=Problem(found.loops[0].graph, B200), limits=Limits(), open_session=None)
    assert lower_bounds(with_margin(found.loops[0].graph, 256), B200).best > found.ii
    monkeypatch.setattr(margin, "Questions", lambda *_, **named: pytest.fail("asked"))
    assert margin._ask(cast(Any, asked), cast(Any, SimpleNamespace(ii=found.ii, copies=4)), 256, 0) is None


@pytest.fixture(params=KEPT)
def retained(request: pytest.FixtureRequest) -> Schedule:
    """A schedule that was found with a margin."""
    return load_schedule(next(e.path for e in examples() if e.name == request.param))


def starts(schedule: Schedule) -> list[int]:
    """Of the main loop's instructions."""
    return [op.start for op in sorted((op for op in schedule.ops if op.loop == 1), key=lambda op: op.id)]


def test_products_of_attention_may_be_late(retained: Schedule) -> None:
    graph, start = retained.loops[0].graph, starts(retained)
    late = [
        start[e.dst] + e.distance * retained.ii - start[e.src] - e.delay
        for e in one_result(graph).edges
        if awaited(graph, e)
    ]
    longest = max(u.cycles for i in graph.instructions if is_mma(i) for u in i.uses)
    assert min(late) >= longest // PARTS


def test_the_more_groups_share_the_tensor_core_the_later_products_may_be() -> None:
    schedule = load_schedule(next(e.path for e in examples() if e.name == THREE))
    graph, start = schedule.loops[0].graph, starts(schedule)
    late = [start[e.dst] + e.distance * schedule.ii - start[e.src] - e.delay for e in graph.edges if awaited(graph, e)]
    longest = max(u.cycles for i in graph.instructions if is_mma(i) for u in i.uses)
    assert min(late) >= (len(issuers(schedule)) - 1) * longest > longest


def issuers(schedule: Schedule) -> set[int]:
    """Warp groups of the main loop's products."""
    graph = schedule.loops[0].graph
    return {op.warp_group for op in schedule.ops if op.loop == 1 and is_mma(graph.instructions[op.id])}


def test_nothing_writes_registers_of_products_while_one_is_in_flight(retained: Schedule) -> None:
    graph, start = retained.loops[0].graph, starts(retained)
    group = {op.id: op.warp_group for op in retained.ops if op.loop == 1}
    for writer, mma in hazard_pairs(graph):
        if group[writer] != group[mma]:
            continue
        ahead = (start[mma] - start[writer]) % retained.ii
        assert graph.instructions[writer].hold <= ahead <= retained.ii - graph.instructions[mma].latency


def test_products_of_a_group_follow_one_another(retained: Schedule) -> None:
    mmas = [op for op in retained.ops if op.loop == 1 and is_mma(retained.loops[0].graph.instructions[op.id])]
    order = [op.warp_group for op in sorted(mmas, key=lambda op: op.row)]
    changes = sum(one != other for one, other in zip(order, [*order[1:], order[0]], strict=True))
    assert changes == len(set(order)) > 1


def test_only_waits_for_products_grow(retained: Schedule) -> None:
    graph = retained.loops[0].graph
    for before, after in zip(graph.edges, with_margin(graph, 7).edges, strict=True):
        assert after.delay - before.delay == (7 if awaited(graph, before) else 0)


def test_without_a_margin_everything_is_proven(at_root: object) -> None:
    graph = example("attention", "full")
    plain = solve(graph, H100, SolveOptions(budget=60.0, margin=False))
    assert plain.objective.proven == ("ii", "copies", "crossing", "length", "registers")
    retained = next(load_schedule(e.path) for e in examples() if e.name == "attention_full")
    assert (plain.ii, plain.copies, plain.objective.crossing) == (
        retained.ii,
        retained.copies,
        retained.objective.crossing,
    )
    assert plain.length < retained.length  # what room costs
    assert retained.objective.proven == ("ii", "copies", "crossing")


def lateness(a: Assignment) -> int:
    """Cycles by which every product may be late."""
    waits = [e for e in one_result(a.graph).edges if awaited(a.graph, e)]
    return min(a.start[e.dst] + e.distance * a.ii - a.start[e.src] - e.delay for e in waits)


def test_part_of_the_budget_is_kept_for_room() -> None:
    """A limit that answers no question about copies ends the proof, not the search for room."""
    graph = costed_example("attention", "full", split=2)
    longest = max(u.cycles for i in graph.instructions if is_mma(i) for u in i.uses)
    found = Search(graph, H100, lower_bounds(graph, H100), Limits(resource_limit=1), margin=True).run()
    assert found.assignment is not None and found.objective is not None
    assert lateness(found.assignment) >= longest // PARTS
    assert found.objective.proven == ("ii",)
    assert not found.certificate.optimal


def test_the_certificate_tells_the_whole_budget() -> None:
    graph = costed_example("gemm", "bf16", split=2)
    found = Search(graph, H100, lower_bounds(graph, H100), Limits(seconds=60.0), margin=True).run()
    assert found.certificate.budget_seconds == 60.0


def test_the_seconds_kept_are_those_that_other_questions_leave() -> None:
    limits = Limits(seconds=40.0, began=time.perf_counter())
    retained, all_of_it = limits.sparing(4).left(), limits.left()
    assert retained is not None and all_of_it is not None
    assert 29 < retained <= 30 < all_of_it <= 40
    assert Limits().sparing(4).left() is None


def test_a_verdict_without_a_proof_says_what_is_proven() -> None:
    with pytest.raises(BudgetExhausted, match="proven lower bound 2048; proven minimal: I\\n"):
        solve(example("attention", "full"), H100, SolveOptions(resource_limit=1))


def test_the_margin_is_part_of_what_is_asked() -> None:
    graph, digest = example("gemm"), H100.digest()
    keys = [schedule_key(graph, digest, SolveOptions(margin=margin).asked) for margin in (True, False)]
    assert keys[0] == schedule_key(graph, digest) != keys[1]
