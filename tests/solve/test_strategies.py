"""Strategies beside the joint solve: valid schedules, no claim of optimality, and what joint gains over them."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.graphs import edge, graph, instruction, value
from tests.smt.test_boolean import rules_broken
from tests.smt.test_paper import two_steps
from tests.strategies import make_machine, problems
from twill.exc import ImpossibleCycle, StrategyOption
from twill.graph.costed import CostedGraph
from twill.graph.dependence import DependenceGraph, Region
from twill.graph.extract import extract
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import CooperationCandidate, Schedule, Strategy
from twill.schedule.key import units_of
from twill.smt.limits import Limits
from twill.smt.outcome import Outcome
from twill.smt.search import Search
from twill.solve.assemble import Solved, assemble
from twill.solve.pipeline import SolveOptions, solve
from twill.solve.strategies import Baseline
from twill.tile.rewrite.pipeline import Allowed
from twill.zlp.bounds import lower_bounds
from twill.zlp.slots import slots_of
from twill.zlp.ties import renamed, tied

QUIET = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))
BASELINES: tuple[Strategy, ...] = ("heuristic", "none")


def schedule_loop(strategy: Strategy, graph: CostedGraph, machine: Machine) -> Outcome:
    """What a strategy makes of one loop."""
    bounds = lower_bounds(graph, machine)
    if strategy == "joint":
        return Search(graph, machine, bounds, Limits()).run()
    return Baseline(strategy, graph, machine, bounds, Limits()).run()


def document(costed: CostedGraph, machine: Machine, outcome: Outcome) -> Schedule:
    """The outcome of one loop as a schedule document, checked."""
    region = Region.model_construct(id=costed.region, kind="loop", line=costed.line, trip=None)
    kernel = DependenceGraph.model_construct(kernel="two_steps", spec="test", file="", regions=(region,))
    solved = Solved(region, costed, outcome)
    chosen = CooperationCandidate(cooperation=costed.cooperation, verdict="chosen", ii=solved.outcome_ii)
    made = assemble(kernel, machine, solved, [solved], [chosen], (), "0" * 64, 0.0)
    check_or_raise(made, machine)
    return made


def test_joint_beats_the_paper_and_the_checker_accepts_both() -> None:
    costed, machine = two_steps(crossing=3), make_machine()
    paper = document(costed, machine, schedule_loop("paper", costed, machine))
    joint = document(costed, machine, schedule_loop("joint", costed, machine))
    assert (joint.ii, joint.copies) == (4, 3)
    assert (paper.ii, paper.copies) == (6, 2)
    assert joint.certificate.optimal
    assert not paper.certificate.optimal


@pytest.mark.parametrize("strategy", BASELINES)
@QUIET
@given(problem=problems())
def test_baselines_break_no_rule_and_claim_nothing(strategy: Strategy, problem: tuple[CostedGraph, Machine]) -> None:
    costed, machine = problem
    try:
        outcome = schedule_loop(strategy, costed, machine)
    except ImpossibleCycle:
        return
    assert not outcome.infeasible
    assert not outcome.certificate.optimal
    a = outcome.assignment
    if a is None:
        return
    assert rules_broken(a) == frozenset()
    assert outcome.objective is not None
    assert outcome.objective.proven == ()
    assert outcome.certificate.lower_bound <= a.ii
    if strategy == "none":
        assert a.copies == 1
        assert a.length <= a.ii


def test_without_pipelining_an_iteration_ends_before_the_next_begins() -> None:
    costed = graph(
        (instruction(0, ("tma", 5), asynchronous=True), instruction(1, ("tensor", 4)), instruction(2, ("alu", 3))),
        (edge(0, 1, 5), edge(1, 2, 4)),
    )
    outcome = schedule_loop("none", costed, make_machine())
    assert outcome.objective is not None
    assert (outcome.objective.ii, outcome.objective.length) == (12, 12)
    assert outcome.assignment is not None
    assert outcome.assignment.start == (0, 5, 9)


def test_tied_instructions_go_where_they_must() -> None:
    costed, machine = two_steps(crossing=3), make_machine()
    slots = slots_of(machine)
    last = max(number for number, slot in enumerate(slots) if slot.context == slots[0].context)
    assert last > 0
    for strategy in ("paper", *BASELINES):
        bounds = lower_bounds(costed, machine)
        a = Baseline(strategy, costed, machine, bounds, Limits(), fixed={0: last}).run().assignment
        assert a is not None
        assert a.slot[0] == last
        assert rules_broken(a) == frozenset()


def test_registers_that_are_taken_anyway_leave_less_room() -> None:
    costed, machine = two_steps(crossing=3), make_machine()
    bounds = lower_bounds(costed, machine)
    full = {0: int(machine.register_file.registers.value)}
    baseline = Baseline("none", costed, machine, bounds, floors=full)
    assert baseline.run().assignment is None
    assert baseline.state == "gave up"


def test_what_is_tied_to_one_group_is_kept_together() -> None:
    costed = two_steps(crossing=3)
    assert [i.single_issuer for i in tied(costed, {0: 1, 1: 1}).instructions] == ["slot 1", "slot 1"]
    assert tied(costed, {}) == costed


def test_groups_are_renamed_only_if_an_exchange_does_it() -> None:
    machine = make_machine(compute_groups=2)
    slots = slots_of(machine)
    assert renamed((0, 1), slots, {0: 1}) == (1, 0)
    assert renamed((0, 0), slots, {0: 1, 1: 0}) is None
    assert renamed((0, 1), slots, {0: 1, 1: 1}) is None


def test_only_the_paper_normalizes_unasked() -> None:
    assert [units_of(s, None) for s in ("joint", "paper", "heuristic", "none")] == [None, 300, None, None]
    assert units_of("paper", 50) == 50


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize("strategy", BASELINES)
def test_every_loop_of_a_kernel_gets_the_strategy_and_the_document_says_so(strategy: Strategy) -> None:
    _, kernel = extract("examples/attention.py", "causal", allowed=Allowed("masks"))
    made = solve(kernel, load_machine("h100"), SolveOptions(strategy=strategy))
    assert made.strategy == strategy
    assert len(made.loops) == 2
    assert not any(loop.certificate.optimal for loop in made.loops)
    assert made.ii >= 2048
    if strategy == "none":
        assert all(loop.copies == 1 for loop in made.loops)


@pytest.mark.usefixtures("at_root")
def test_strategies_have_different_keys() -> None:
    _, kernel = extract("examples/layer_norm.py")
    keys = {solve(kernel, load_machine("h100"), SolveOptions(strategy=s)).key for s in (*BASELINES, "joint")}
    assert len(keys) == 3


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(
    ("option", "asked"),
    [
        ("--pin", SolveOptions(pins=("acc.0=g0",))),
        ("--ii", SolveOptions(ii=512)),
        ("--resource-limit", SolveOptions(resource_limit=9)),
    ],
)
def test_fail_what_a_baseline_does_not_follow(option: str, asked: SolveOptions) -> None:
    _, kernel = extract("examples/gemm.py")
    with pytest.raises(StrategyOption, match=option):
        solve(kernel, load_machine("h100"), asked.model_copy(update={"strategy": "none"}))


def test_one_iteration_at_a_time_tiles_go_from_group_to_group_only_where_shared_memory_has_room() -> None:
    """The model counts them in registers; lowering hands them over through shared memory. Where no warp groups have
    room, the schedule is that of those who lack it: lowering may know better."""
    unit = make_machine().units[0].name
    work = (instruction(0, (unit, 1), hold=20, latency=20), instruction(1, (unit, 1), hold=20, latency=20))

    def groups(shared: int, context: str = "compute", registers: int = 8) -> set[int]:
        machine, last = make_machine(shared=shared), instruction(2, (unit, 1), hold=5, latency=5, contexts=(context,))
        values = (value(0, (2, 0), size=registers), value(1, (2, 0), size=registers))
        loop = graph((*work, last), (edge(0, 2, 20, crossing=1), edge(1, 2, 20, crossing=1)), values, machine)
        found = schedule_loop("none", loop, machine).assignment
        assert found is not None
        return set(found.slot)

    tile = 4 * 8 * 128
    assert len(groups(tile)) == 2
    assert len(groups(tile - 1)) == 1
    assert len(groups(0, "load", registers=4)) > 1
