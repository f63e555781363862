"""The checker accepts good schedules and names the rule that a bad one breaks."""

from __future__ import annotations

import pytest

from tests.documents import assemble, buffers_of, combine, loop_schedule, ops_of
from tests.faults import (
    BUDGETS,
    LOAD,
    MACHINE,
    OUTPUT,
    PLAN,
    SCALE,
    SCORES,
    SOFTMAX,
    Fault,
    attention,
    buffer,
    edge,
    goal,
    good,
    group,
    in_graph,
    instruction,
    loop,
    op,
    rules,
    top,
    value,
)
from tests.rules import Plan
from tests.strategies import make_graph, make_machine
from twill.exc import InvalidSchedule
from twill.graph.costed import Read
from twill.schedule.checker.check import check, check_or_raise
from twill.schedule.document import CooperationCandidate, Schedule, ScheduledBuffer, ScheduledWarpGroup


def test_good_schedule_is_accepted() -> None:
    assert check(good(), MACHINE) == ()
    check_or_raise(good(), MACHINE)


def test_deeper_ring_is_accepted_if_it_fits() -> None:
    assert rules(buffer(0, depth=3)(good())) == set()
    assert rules(buffer(0, depth=4)(good())) == {"memory capacity"}


# -- faults of the plan: the document is consistent, the schedule is not -------------------------


def moved(number: int, start: int) -> Plan:
    starts = tuple(start if index == number else old for index, old in enumerate(PLAN.starts))
    return Plan(PLAN.ii, starts, PLAN.groups, PLAN.contexts)


def regrouped(number: int, group: int) -> Plan:
    groups = tuple(group if index == number else old for index, old in enumerate(PLAN.groups))
    return Plan(PLAN.ii, PLAN.starts, groups, PLAN.contexts)


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        pytest.param(moved(SCORES, 5), {"dependence", "cross-warp spill"}, id="op moved before its operand is there"),
        pytest.param(moved(SOFTMAX, 8), {"dependence", "concurrency"}, id="op moved before its operand, in one group"),
        pytest.param(moved(SCALE, 14), {"dependence"}, id="op moved into the crossing"),
        pytest.param(moved(OUTPUT, 15), {"capacity"}, id="unit over-full across iterations"),
        pytest.param(moved(OUTPUT, 13), {"capacity", "cross-warp spill"}, id="issue while a value leaves"),
        pytest.param(moved(OUTPUT, 17), {"concurrency"}, id="issue while the group is held"),
        pytest.param(moved(SCALE, 17), {"capacity"}, id="unit over-full between groups"),
        pytest.param(moved(LOAD, 1), {"dependence", "uniqueness"}, id="nothing starts at 0"),
        pytest.param(regrouped(OUTPUT, 2), {"single issuer", "register limit"}, id="two issuers"),
        pytest.param(regrouped(SCALE, 0), {"warp uniqueness", "variable latency"}, id="consumer in the load group"),
        pytest.param(regrouped(LOAD, 2), {"warp uniqueness", "variable latency"}, id="load in a compute group"),
    ],
)
def test_fault_in_the_plan(plan: Plan, expected: set[str]) -> None:
    assert rules(assemble(attention(), MACHINE, plan, BUDGETS)) == expected


@pytest.mark.parametrize(
    ("budgets", "machine", "expected"),
    [
        pytest.param((8, 32, 8), {}, {"register limit"}, id="registers exceeded"),
        pytest.param((8, 40, 8), {"overhead": 12}, {"register limit"}, id="registers exceeded by the overhead"),
        pytest.param((8, 44, 8), {}, {"register file"}, id="budget off the granule"),
        pytest.param((8, 72, 8), {}, {"register file"}, id="budget over the context's maximum"),
        pytest.param((8, 40, 8), {"register_file": 6000}, {"register file"}, id="budgets over the register file"),
        pytest.param((8, 40, 8), {"shared": 191}, {"memory capacity"}, id="shared memory exceeded"),
        pytest.param((8, 40, 8), {"compute_groups": 1}, {"warp uniqueness"}, id="too many groups of a context"),
    ],
)
def test_fault_against_the_machine(budgets: tuple[int, ...], machine: dict[str, int], expected: set[str]) -> None:
    given = make_machine(**machine)  # type: ignore[arg-type]
    graph = attention().model_copy(update={"machine_digest": given.digest()})
    assert rules(assemble(graph, given, PLAN, budgets), given) == expected


def test_unit_that_the_machine_lacks() -> None:
    graph = make_graph(MACHINE, (instruction(0, "x", "fpu", 1, 1, 1),))
    assert rules(assemble(graph, MACHINE, Plan(1, (0,), (0,), ("compute",)), (8,))) == {"machine"}


def test_use_longer_than_the_interval_meets_itself() -> None:
    graph = make_graph(MACHINE, (instruction(0, "long", "tensor", 5, 5, 1),))
    plan = Plan(4, (0,), (0,), ("compute",))
    assert rules(assemble(graph, MACHINE, plan, (8,), optimal=False)) == {"capacity", "certificate"}


def test_of_an_interleaved_unit_only_the_sum_counts() -> None:
    machine = make_machine(interleaved=("tensor",))
    ops = (instruction(0, "a", "tensor", 2, 2, 1), instruction(1, "b", "tensor", 2, 2, 0))
    graph = make_graph(machine, ops)
    fits, full = (Plan(ii, (0, 1), (0, 0), ("compute",)) for ii in (4, 3))
    assert rules(assemble(graph, machine, fits, (8,)), machine) == set()
    assert "capacity" in rules(assemble(graph, machine, full, (8,), optimal=False), machine)
    alone = graph.model_copy(update={"interleaved": ()})
    assert rules(assemble(alone, machine, fits, (8,)), machine) == {"machine", "capacity"}


def test_two_values_leaving_a_group_at_once() -> None:
    ops = (
        instruction(0, "x", "alu", 1, 1, 1),
        instruction(1, "y", "tensor", 1, 2, 0),
        instruction(2, "z", "tma", 1, 1, 1),
    )
    ops = (*ops[:2], ops[2].model_copy(update={"contexts": ("load",)}))
    values = (value(0, "x", "register", 1, (2,), 0, spill=2), value(1, "y", "register", 1, (2,), 1, spill=2))
    graph = make_graph(MACHINE, ops, (edge(0, 2, 1, 0), edge(1, 2, 2, 0)), values)
    plan = Plan(8, (0, 0, 4), (0, 0, 1), ("compute", "load"))
    assert rules(assemble(graph, MACHINE, plan, (8, 8))) == {"cross-warp spill"}
    apart = Plan(8, (0, 1, 5), (0, 0, 1), ("compute", "load"))
    assert rules(assemble(graph, MACHINE, apart, (8, 8))) == set()


# -- faults of the document -----------------------------------------------------------------------

EXTRA_BUFFER = ScheduledBuffer(name="ghost", loop=1, space="shared", bytes=16, depth=1)
EXTRA_GROUP = ScheduledWarpGroup(id=7, role="idle", context="load", registers=8, threads=32)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        pytest.param(lambda s: top(ops=s.ops[1:])(s), {"uniqueness", "warp groups"}, id="missing op"),
        pytest.param(lambda s: top(ops=(*s.ops, s.ops[2]))(s), {"uniqueness"}, id="duplicate op"),
        pytest.param(op(SOFTMAX, id=9), {"uniqueness", "operations"}, id="op of no instruction"),
        pytest.param(op(SOFTMAX, loop=2), {"uniqueness", "operations"}, id="op of no loop"),
        pytest.param(op(LOAD, start=-8, stage=-1), {"uniqueness", "depth"}, id="negative start"),
        pytest.param(op(SOFTMAX, cycles=2), {"operations"}, id="wrong latency"),
        pytest.param(op(SOFTMAX, hold=1), {"operations"}, id="wrong hold"),
        pytest.param(op(SOFTMAX, unit="tensor"), {"operations"}, id="wrong unit"),
        pytest.param(op(SOFTMAX, line=99), {"operations"}, id="wrong line"),
        pytest.param(op(SOFTMAX, stage=2), {"operations"}, id="wrong stage"),
        pytest.param(op(SOFTMAX, stage=0, row=9), {"operations"}, id="row outside the interval"),
        pytest.param(op(SCALE, warp_group=5), {"warp uniqueness", "warp groups", "objective"}, id="op in no group"),
        pytest.param(loop(length=18), {"completion", "objective"}, id="length too short"),
        pytest.param(loop(length=20), {"completion", "objective"}, id="length too long"),
        pytest.param(loop(copies=2), {"figures", "objective"}, id="wrong copies"),
        pytest.param(top(copies=2), {"figures"}, id="copies unlike the main loop's"),
        pytest.param(top(length=20), {"figures"}, id="length unlike the main loop's"),
        pytest.param(top(loops=()), {"figures"}, id="no loop"),
        pytest.param(loop(loop=3), {"figures", "uniqueness", "operations", "buffers"}, id="loop of another region"),
        pytest.param(goal(crossing=5), {"objective"}, id="wrong crossing sum"),
        pytest.param(goal(registers=48), {"objective"}, id="wrong register sum"),
        pytest.param(goal(proven=("copies",)), {"objective", "certificate"}, id="proven is no prefix"),
        pytest.param(buffer(0, depth=1), {"depth"}, id="buffer too shallow"),
        pytest.param(buffer(0, depth=0), {"depth"}, id="buffer of depth 0"),
        pytest.param(buffer(0, bytes=32), {"buffers"}, id="buffer too small"),
        pytest.param(buffer(0, space="tmem"), {"buffers"}, id="buffer in another memory"),
        pytest.param(buffer(1, depth=2), {"buffers"}, id="resident tile with two slots"),
        pytest.param(lambda s: top(buffers=s.buffers[1:])(s), {"buffers"}, id="missing buffer"),
        pytest.param(lambda s: top(buffers=(*s.buffers, EXTRA_BUFFER))(s), {"buffers"}, id="extra buffer"),
        pytest.param(buffer(1, loop=6), {"buffers"}, id="buffer of no loop"),
        pytest.param(lambda s: top(warp_groups=(*s.warp_groups, EXTRA_GROUP))(s), {"warp groups"}, id="unused group"),
        pytest.param(group(2, role=""), {"warp groups"}, id="no role"),
        pytest.param(group(2, threads=64), {"warp groups"}, id="wrong threads"),
        pytest.param(group(2, context="tensor"), {"warp groups", "warp uniqueness"}, id="unknown context"),
        pytest.param(
            group(2, id=1), {"warp groups", "warp uniqueness", "register limit", "objective"}, id="two groups of one id"
        ),
        pytest.param(top(machine="h100"), {"machine"}, id="machine of another name"),
        pytest.param(top(machine_digest="0" * 64), {"machine"}, id="machine changed"),
        pytest.param(in_graph(machine_digest="0" * 64), {"machine"}, id="graph costed for another machine"),
        pytest.param(
            lambda s: in_graph(edges=(*s.loops[0].graph.edges, edge(0, 9, 1, 0)))(s), {"graph"}, id="edge to nowhere"
        ),
        pytest.param(
            lambda s: in_graph(values=(value(0, "k", "shared", -64, (1,), 0),))(s), {"graph"}, id="negative size"
        ),
        pytest.param(
            lambda s: in_graph(cooperation=s.cooperation.model_copy(update={"split": 2}))(s),
            {"figures"},
            id="graph of another cooperation",
        ),
        pytest.param(
            lambda s: top(
                candidates=(
                    CooperationCandidate(
                        cooperation=s.cooperation.model_copy(update={"fuse": 2}), verdict="chosen", ii=8
                    ),
                )
            )(s),
            {"figures"},
            id="another candidate chosen",
        ),
        pytest.param(
            lambda s: in_graph(storages=s.loops[0].graph.storages * 2)(s), {"graph"}, id="two storages of one id"
        ),
        pytest.param(
            lambda s: in_graph(edges=(*s.loops[0].graph.edges, edge(0, 1, 1, -1)))(s), {"graph"}, id="negative crossing"
        ),
        pytest.param(lambda s: top(loops=(*s.loops, *s.loops))(s), {"figures"}, id="the same loop twice"),
        pytest.param(loop(ii=0), {"figures"}, id="interval 0"),
        pytest.param(op(SCALE, start=10**9), {"operations", "completion"}, id="too long to lay out"),
    ],
)
def test_fault_in_the_document(fault: Fault, expected: set[str]) -> None:
    assert rules(fault(good())) == expected


def test_violation_names_node_line_cycle_and_loop() -> None:
    (found,) = check(assemble(attention(), MACHINE, moved(SCALE, 17), BUDGETS), MACHINE)
    assert (found.rule, found.loop, found.cycle) == ("capacity", 1, 17)
    assert set(found.nodes) == {"p", "alpha"}
    assert set(found.lines) == {13, 15}
    assert "unit alu" in found.describe()


def test_error_lists_every_violation() -> None:
    broken = group(2, role="")(buffer(0, depth=1)(good()))
    with pytest.raises(InvalidSchedule, match=r"(?s)breaks 2 rules.*no role.*depth 1") as caught:
        check_or_raise(broken, MACHINE, file="attention.json")
    assert caught.value.exit_code == 2
    assert str(caught.value).startswith("attention.json: ")


def test_order_of_reports_is_that_of_the_rules() -> None:
    found = check(group(2, role="")(loop(length=20)(buffer(0, depth=1)(good()))), MACHINE)
    assert [item.rule for item in found] == ["warp groups", "completion", "depth", "objective"]
    assert found == check(group(2, role="")(loop(length=20)(buffer(0, depth=1)(good()))), MACHINE)


# -- several loops ----------------------------------------------------------------------------------


def two_loops(groups: tuple[int, ...] = (0, 1), registers: int = 8, claimed: int = 8) -> Schedule:
    """The good loop, and one of two instructions with a value of `registers` registers."""
    ops = (instruction(0, "k", "tma", 2, 5, 1, "load"), instruction(1, "s", "tensor", 2, 3, 1))
    held = value(1, "s", "register", registers, (1,), 1).model_copy(update={"reads": (Read(reader=1, distance=1),)})
    second = make_graph(MACHINE, ops, (edge(0, 1, 5, 1), edge(1, 1, 3, 0, distance=1)), (held,), region=2)
    plan = Plan(8, (0, 6), groups, ("load", "compute", "compute", "compute"))
    first = good()
    every = list(first.warp_groups)
    every += [ScheduledWarpGroup(id=3, role="x", context="compute", registers=40, threads=128)] if 3 in groups else []
    return combine(
        MACHINE,
        (first.loops[0], loop_schedule(second, plan, claimed)),
        (*first.ops, *ops_of(second, plan)),
        tuple(every),
        (*first.buffers, *buffers_of(second, plan)),
    )


def test_loops_share_groups_and_budgets() -> None:
    assert rules(two_loops(claimed=8 + 24)) == set()
    assert rules(two_loops(claimed=8 + 16)) == {"objective"}
    assert rules(two_loops(claimed=8 + 48)) == {"objective"}


def test_group_of_the_second_loop_counts_for_the_machine() -> None:
    assert rules(two_loops(groups=(0, 3), claimed=8 + 24)) == {"warp uniqueness"}


def test_second_loop_is_held_to_the_shared_budget() -> None:
    assert rules(two_loops(groups=(0, 2), claimed=16)) == {"register limit"}
    found = check(two_loops(groups=(0, 2), claimed=16), MACHINE)
    assert {item.loop for item in found} == {2}


def test_figures_at_the_top_may_be_those_of_either_loop() -> None:
    schedule = two_loops(claimed=8 + 24)
    other = schedule.loops[1]
    names = ("ii", "length", "copies", "objective", "certificate")
    swapped = schedule.model_copy(update={name: getattr(other, name) for name in names})
    assert rules(swapped) == set()
