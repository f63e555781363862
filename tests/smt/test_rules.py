"""The encoding has exactly the schedules that docs/model.md allows, rule by rule."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.encodings import encoded, fix, plans, refined
from tests.graphs import edge, graph, instruction, value
from tests.kernels import B200, costed_example
from tests.rules import Plan, broken, least_budget, registers
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph, Instruction, Use
from twill.machine.description import Machine
from twill.smt.backend import Z3Session
from twill.smt.encoding import Encoding
from twill.smt.rules import assert_rules
from twill.zlp.bound import resident_bytes

QUIET = settings(max_examples=80, derandomize=True, suppress_health_check=list(HealthCheck))
MACHINE = make_machine()
ON_DEMAND = {"register limit", "register file", "cross-warp spill"}  # twill.smt.lazy


def faults(g: CostedGraph, machine: Machine, plan: Plan) -> frozenset[str]:
    """The rules that the plan breaks with the smallest budgets."""
    budgets = tuple(
        least_budget(registers(g, plan, n), machine.context(name), machine.register_file.granule)
        for n, name in enumerate(plan.contexts)
    )
    return broken(g, machine, plan, budgets)


@QUIET
@given(problems(most_instructions=4, most_cycles=4), st.data(), st.booleans())
def test_a_plan_is_a_model_exactly_if_it_breaks_no_rule(
    problem: tuple[CostedGraph, Machine], data: st.DataObject, open_interval: bool
) -> None:
    g, machine = problem
    plan = data.draw(plans(g, machine))
    if plan is None:
        return
    low, high = (max(1, plan.ii - 2), plan.ii + 2) if open_interval else (plan.ii, plan.ii)
    e = encoded(g, machine, low, high)
    wrong = faults(g, machine, plan)
    if not fix(e, plan):
        assert "warp uniqueness" in wrong
        return
    if wrong - ON_DEMAND:
        assert e.session.check().outcome == "unsat"
    if not wrong:
        assert e.session.check().outcome == "sat"
    a = refined(e)
    assert (a is None) == bool(wrong)
    if a is not None:
        assert (a.ii, a.start) == (plan.ii, plan.starts)


# -- one rule at a time -------------------------------------------------------------------------


def feasible(g: CostedGraph, ii: int, *terms: str, machine: Machine = MACHINE) -> bool:
    """Whether the rules of `twill.smt.rules` allow I = ii together with `terms`."""
    e = Encoding(g, machine, Z3Session(), (ii, ii))
    assert_rules(e)
    e.flush()
    answer = e.session.check(terms)
    assert answer.outcome != "unknown"
    return answer.outcome == "sat"


def test_dependence_waits_for_the_delay_and_the_crossing() -> None:
    alone = instruction(0, ("alu", 1)), instruction(1, ("tensor", 1), contexts=("load",))
    g = graph(alone, (edge(0, 1, 3, crossing=4), edge(1, 0, 1, distance=1, crossing=2)))
    assert feasible(g, 10)
    assert not feasible(g, 9)


def test_dependence_on_itself_bounds_the_interval() -> None:
    g = graph((instruction(0, ("alu", 1)),), (edge(0, 0, 7, distance=2),))
    assert feasible(g, 4)
    assert not feasible(g, 3)


def test_capacity_keeps_the_uses_of_a_unit_apart_in_every_iteration() -> None:
    g = graph(tuple(instruction(n, ("tensor", 4), asynchronous=True) for n in range(3)))
    assert feasible(g, 12)
    assert not feasible(g, 11)
    assert not feasible(g, 12, "(= r0 0)", "(= r1 3)")
    assert not feasible(g, 12, "(= r0 0)", "(= r1 9)")
    assert feasible(g, 12, "(= r0 0)", "(= r1 8)", "(= r2 4)")


def test_capacity_keeps_an_instruction_off_its_own_next_iteration() -> None:
    g = graph((instruction(0, ("tensor", 5), asynchronous=True),))
    assert feasible(g, 5)
    assert not feasible(g, 4)


def test_capacity_counts_every_row_of_a_reservation_table() -> None:
    twice = instruction(0, ("alu", 1), latency=12, asynchronous=True)
    rows = (Use(unit="alu", start=0, cycles=2), Use(unit="alu", start=6, cycles=2))
    g = graph((twice.model_copy(update={"uses": rows}),))
    assert feasible(g, 4)
    assert not feasible(g, 5, "true")  # 6 mod 5 = 1: the second row meets the first of the iteration before
    assert not feasible(g, 6)
    assert feasible(g, 8)


def test_of_an_interleaved_unit_only_the_sum_counts() -> None:
    machine = make_machine(interleaved=("alu",))
    ops = tuple(instruction(n, ("alu", 4), latency=9, hold=1, asynchronous=True) for n in range(2))
    g = graph(ops, machine=machine)
    assert feasible(g, 8, "(= r0 r1)", "(not (= g0_0 g1_0))", machine=machine)
    assert not feasible(g, 7, machine=machine)


def two_held(hold: int, **more: bool) -> CostedGraph:
    """Two instructions that hold their warp group and share no unit."""
    ops = (instruction(0, ("alu", 1), latency=9, hold=hold), instruction(1, ("tensor", 1), latency=9, hold=hold))
    return graph(tuple(i.model_copy(update=more) for i in ops))


def test_concurrency_is_issue_in_order_within_a_warp_group() -> None:
    one_group = make_machine(compute_groups=1)
    assert feasible(two_held(4), 8, machine=one_group)
    assert not feasible(two_held(4), 7, machine=one_group)
    assert feasible(two_held(4), 4)  # in two warp groups
    assert not feasible(two_held(4), 3)
    assert not feasible(two_held(4), 8, "(= g0_0 g1_0)", "(= r0 0)", "(= r1 5)")


def test_variable_latency_keeps_to_itself() -> None:
    free, waits = instruction(0, ("alu", 1)), instruction(1, ("tma", 1), asynchronous=True, variable=True)
    assert not feasible(graph((free, waits)), 8, machine=make_machine(compute_groups=1))
    assert feasible(graph((free, waits)), 8)
    both = (waits.model_copy(update={"id": 0}), waits)
    assert feasible(graph(both), 8, machine=make_machine(compute_groups=1))


def test_one_issuer_for_a_tag() -> None:
    g = graph(tuple(instruction(n, ("tensor", 2), hold=5, issuer="mma") for n in range(2)))
    assert feasible(g, 10)
    assert not feasible(g, 9)  # two warp groups would do, but the tag forbids them


def ring(depth_of: int) -> CostedGraph:
    """A load whose reader begins `depth_of` intervals of 10 after it, with 32 bytes a slot."""
    ops = (instruction(0, ("tma", 1), asynchronous=True), instruction(1, ("alu", 1)))
    return graph(ops, (edge(0, 1, 10 * depth_of - 1),), (value(0, (1, 0), space="shared", size=32),))


def test_memory_capacity_holds_a_ring_of_the_depth_of_its_lifetime() -> None:
    assert feasible(ring(4), 10, machine=make_machine(shared=128))
    assert not feasible(ring(4), 10, machine=make_machine(shared=127))
    assert not feasible(ring(5), 10, machine=make_machine(shared=128))
    assert feasible(ring(5), 13, machine=make_machine(shared=128))  # 50 cycles in four slots


def test_memory_capacity_counts_a_value_nobody_reads() -> None:
    g = graph((instruction(0, ("tma", 1), latency=25),), (), (value(0, space="shared", size=32),))
    long = g.instructions[0].model_copy(update={"hold": 1, "asynchronous": True})
    g = g.model_copy(update={"instructions": (long,)})
    assert feasible(g, 10, machine=make_machine(shared=96))
    assert not feasible(g, 10, machine=make_machine(shared=95))


def test_warp_uniqueness_allows_as_many_groups_as_the_machine_has() -> None:
    def issue(number: int) -> Instruction:
        return instruction(number, ("alu", 1), latency=6, hold=6)

    ops = tuple(issue(n) for n in range(3))
    assert feasible(graph(ops), 6, machine=make_machine(compute_groups=3))
    assert not feasible(graph(ops), 6, machine=make_machine(compute_groups=2))


def test_register_file_holds_the_least_budgets_of_the_groups_that_are_used() -> None:
    ops = (instruction(0, ("alu", 1), hold=6), instruction(1, ("tensor", 1), hold=6))
    assert feasible(graph(ops), 6, machine=make_machine(register_file=2 * 128 * 8))
    assert not feasible(graph(ops), 6, machine=make_machine(register_file=2 * 128 * 8 - 1))
    assert feasible(graph(ops), 12, machine=make_machine(register_file=128 * 8))  # one group does


def blocks(count: int) -> CostedGraph:
    """Row blocks alike, each one instruction."""
    ops = tuple(instruction(n, ("tensor", 4), asynchronous=True) for n in range(count))
    return graph(tuple(i.model_copy(update={"block": i.id, "line": 1, "name": "x"}) for i in ops))


def test_row_blocks_that_are_alike_start_in_order_and_slots_open_in_order() -> None:
    assert feasible(blocks(2), 8, "(= s0 s1)", "(< r0 r1)")
    assert not feasible(blocks(2), 8, "(= s0 s1)", "(< r1 r0)")
    assert not feasible(blocks(2), 8, "(not g0_0)")
    pinned = Encoding(blocks(2), MACHINE, Z3Session(), (8, 8), pinned=True, named_slots=True)
    assert_rules(pinned)
    pinned.flush()
    assert pinned.session.check(["(= s0 s1)", "(< r1 r0)", "(not g0_0)"]).outcome == "sat"


def test_breaking_symmetry_loses_no_interval() -> None:
    for ii in range(4, 13):
        free = encoded(blocks(3), MACHINE, ii, ii)
        assert feasible(blocks(3), ii) == (free.session.check().outcome == "sat")


def test_resident_bytes_are_those_of_storages_and_invariants() -> None:
    assert resident_bytes(ring(1), "shared") == 0  # a ring comes and goes
    assert resident_bytes(costed_example("attention", "full", split=2), "shared") == 128 * 128 * 2  # the query tile
    blackwell = costed_example("attention", "full", B200, fuse=2)
    assert resident_bytes(blackwell, "tmem") == 2 * 128 * 128 * 4  # two accumulators
