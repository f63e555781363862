"""Bounds computed again from a witness agree with those that were found, and nothing more is believed."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.exhaustive import optimum
from tests.graphs import edge, graph, instruction, value
from tests.schedules import attention_schedule
from tests.strategies import make_machine, problems
from twill.certify.bounds import LifetimePath, NotExcluded, Witness, exclude
from twill.certify.witness import witnesses
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.document import Bounds
from twill.zlp.bounds import lower_bounds

QUIET = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
OVER_AND_OVER = (
    graph(
        (instruction(0, ("alu", 4)), instruction(1, ("tensor", 5))),
        (edge(0, 1, 4), edge(1, 0, 5, 1)),
    ),
    make_machine(),
)


@QUIET
@given(problems(most_instructions=6, most_cycles=8))
def test_every_kind_of_bound_has_a_witness_that_holds(problem: tuple[CostedGraph, Machine]) -> None:
    graph_, machine = problem
    found = lower_bounds(graph_, machine)
    none = {"resource": 0, "recurrence": 0, "memory": 0, "issue": 0}
    for kind in ("resource", "recurrence", "issue"):
        alone = Bounds(**{**none, kind: getattr(found, kind)}, witness="")
        closed = witnesses(graph_, machine, alone, alone.best)
        assert sum(w.ii_to - w.ii + 1 for w in closed) == alone.best - 1, kind
    closed = witnesses(graph_, machine, found, found.best)
    assert sum(w.ii_to - w.ii + 1 for w in closed) == found.best - 1


@settings(QUIET, max_examples=40)
@given(problems(most_instructions=3, most_cycles=4))
def test_no_witness_excludes_what_is_possible(problem: tuple[CostedGraph, Machine]) -> None:
    graph_, machine = problem
    best = optimum(graph_, machine, most_ii=16)
    if best is None:
        return
    for witness in witnesses(graph_, machine, lower_bounds(graph_, machine), 1_000):
        assert witness.ii_to < best.ii
        with pytest.raises(NotExcluded):
            exclude(graph_, machine, witness.model_copy(update={"ii_to": best.ii}))


def test_memory_that_is_too_small_has_a_witness() -> None:
    """A ring of 3 slots fits, one of 4 does not: 12 cycles of life need I >= 4."""
    ops = (instruction(0, ("tma", 1), asynchronous=True), instruction(1, ("alu", 2)))
    waits = graph(ops, (edge(0, 1, 10),), (value(0, (1, 0), space="shared", size=64),))
    machine = make_machine(shared=3 * 64)
    found = lower_bounds(waits, machine)
    assert (found.best, found.memory) == (4, 4)
    *_, witness = witnesses(waits, machine, found, 4)
    assert (witness.kind, witness.place, witness.ii_to) == ("memory", "shared", 3)
    exclude(waits, machine, witness)
    for lives in ((), (LifetimePath(value=0, read=0, edges=()),)):
        with pytest.raises(NotExcluded):
            exclude(waits, machine, witness.model_copy(update={"lives": lives}))


@pytest.mark.parametrize(
    ("witness", "reason"),
    [
        (Witness(kind="recurrence", ii=1, ii_to=9, edges=(0, 1)), "only I < 9"),
        (Witness(kind="recurrence", ii=1, ii_to=8, edges=(0,)), "no cycle"),
        (Witness(kind="recurrence", ii=1, ii_to=8, edges=()), "no cycle"),
        (Witness(kind="recurrence", ii=1, ii_to=8, edges=(0, 7)), "has not"),
        (Witness(kind="recurrence", ii=1, ii_to=8, edges=(-2, -1)), "has not"),
        (Witness(kind="resource", ii=1, ii_to=5, place="tensor"), "only I < 5"),
        (Witness(kind="resource", ii=1, ii_to=4, place="nothing"), "only I < 0"),
        (Witness(kind="issue", ii=1, ii_to=5, contexts=("compute",)), "only I < 5"),
        (Witness(kind="issue", ii=1, ii_to=4, contexts=("load",)), "only I < 0"),
        (Witness(kind="memory", ii=1, ii_to=1, place="shared"), "no more shared memory"),
        (Witness(kind="resource", ii=3, ii_to=2, place="tensor"), "no I"),
    ],
)
def test_a_witness_that_does_not_hold_is_refused(witness: Witness, reason: str) -> None:
    with pytest.raises(NotExcluded, match=reason):
        exclude(*OVER_AND_OVER, witness)


def test_the_issue_bound_of_the_examples_counts_warp_groups() -> None:
    schedule = attention_schedule()
    graph_, machine = schedule.loops[0].graph, load_machine("h100")
    bound = lower_bounds(graph_, machine).issue
    alone = Bounds(resource=0, recurrence=0, memory=0, issue=bound, witness="")
    (witness,) = witnesses(graph_, machine, alone, bound)
    exclude(graph_, machine, witness)
    with pytest.raises(NotExcluded):
        exclude(graph_, machine, witness.model_copy(update={"ii_to": bound}))
