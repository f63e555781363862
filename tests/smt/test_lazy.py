"""Register limit and cross-warp spill are added where a model breaks them, and then bind."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.encodings import encoded, refined
from tests.exhaustive import optimum
from tests.graphs import edge, graph, instruction, value
from tests.kernels import H100, costed_example
from tests.rules import Plan, broken
from tests.strategies import make_machine, problems
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.assignment import Assignment, read_assignment
from twill.smt.backend import Z3Session
from twill.smt.encoding import Encoding
from twill.smt.lazy import LazyRules
from twill.smt.rules import assert_rules
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds
from twill.zlp.largest import largest_ii

QUIET = settings(max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


def crowded(registers: int) -> tuple[CostedGraph, Machine]:
    """Two chains of producer and reader in one warp group, whose values do not fit side by side."""
    machine = make_machine(compute_groups=1, max_registers=24, overhead=4)
    ops = tuple(instruction(n, ("alu" if n % 2 else "tensor", 3)) for n in range(4))
    edges = (edge(0, 1, 3), edge(2, 3, 3))
    return graph(ops, edges, (value(0, (1, 0), size=registers), value(2, (3, 0), size=registers)), machine), machine


def spilling(spill: int) -> tuple[CostedGraph, Machine]:
    """A producer in the compute group, a reader in the load group, and work that the spill must not meet."""
    machine = make_machine(compute_groups=1)
    ops = (
        instruction(0, ("alu", 2)),
        instruction(1, ("tma", 1), contexts=("load",)),
        instruction(2, ("tensor", 4)),
    )
    made = value(0, (1, 0), size=2).model_copy(update={"spill": spill})
    return graph(ops, (edge(0, 1, 2, crossing=spill),), (made,), machine), machine


def models(e: Encoding, *terms: str) -> Assignment:
    """A schedule of the rules that are asserted from the start."""
    e.flush()
    answer = e.session.check(terms)
    assert answer.outcome == "sat"
    return read_assignment(e, answer.values)


def budgets(e: Encoding, a: Assignment) -> dict[int, int]:
    """As many registers as the context allows."""
    return {s.id: s.context.max_registers for s in a.used}


def figures(g: CostedGraph, machine: Machine) -> tuple[int, int, int, int, int]:
    """What the search finds."""
    o = Search(g, machine, lower_bounds(g, machine), warm=False).run().objective
    assert o is not None
    return o.ii, o.copies, o.crossing, o.length, o.registers


def oracle(g: CostedGraph, machine: Machine) -> tuple[int, int, int, int, int]:
    """What exhaustive search finds."""
    best = optimum(g, machine, largest_ii(g))
    assert best is not None
    return best.ii, best.copies, best.crossing, best.length, best.registers


# -- registers ----------------------------------------------------------------------------------


@pytest.mark.parametrize("registers", [8, 12, 20])
def test_registers_that_do_not_fit_side_by_side_are_kept_apart(registers: int) -> None:
    g, machine = crowded(registers)
    assert figures(g, machine) == oracle(g, machine)


def test_a_model_that_needs_too_many_registers_is_refused_for_good() -> None:
    g, machine = crowded(12)
    e = encoded(g, machine, 12, 12)
    both = ["(= s0 s2 s1 s3 0)", "(= r0 0)", "(= r2 3)", "(= r1 6)", "(= r3 9)"]  # 0 and 2 first, then the readers
    a = models(e, *both)
    assert a.pressure(a.slot[0])[0] == 4 + 12 + 12
    lazy = LazyRules(e)
    assert lazy.refine(a, budgets(e, a))
    assert e.session.check(both).outcome == "unsat"
    one_after_the_other = ["(= s0 s2 s1 s3 0)", "(= r0 0)", "(= r1 3)", "(= r2 6)", "(= r3 9)"]
    fits = models(e, *one_after_the_other)
    assert not lazy.refine(fits, budgets(e, fits))


def test_registers_never_fit_and_the_problem_is_infeasible() -> None:
    g, machine = crowded(21)  # one value and the overhead of 4 exceed 24
    assert refined(encoded(g, machine, 12, 12)) is None
    assert optimum(g, machine, 30) is None
    assert Search(g, machine, lower_bounds(g, machine), warm=False).run().infeasible


def test_what_the_model_grants_counts_and_not_what_the_context_could() -> None:
    g, machine = crowded(8)
    e = encoded(g, machine, 12, 12)
    a = models(e, "(= s0 s2 s1 s3 0)", "(= r0 0)", "(= r2 3)", "(= r1 6)", "(= r3 9)")
    assert not LazyRules(e).refine(a, {a.slot[0]: 24})
    assert LazyRules(e).refine(a, {a.slot[0]: 16})


# -- spills -------------------------------------------------------------------------------------


@pytest.mark.parametrize("spill", [0, 1, 3, 5])
def test_a_spill_takes_the_time_of_its_warp_group(spill: int) -> None:
    g, machine = spilling(spill)
    assert figures(g, machine) == oracle(g, machine)
    assert figures(g, machine)[0] == 2 + 4 + spill


def test_a_model_whose_spill_meets_other_work_is_refused_for_good() -> None:
    g, machine = spilling(3)
    e = encoded(g, machine, 9, 9)
    meets = ["(= s0 0)", "(= r0 0)", "(= r2 4)"]  # the spill lasts from 2 to 5
    a = models(e, *meets)
    lazy = LazyRules(e)
    assert lazy.refine(a, budgets(e, a))
    assert e.session.check(meets).outcome == "unsat"
    clear = models(e, "(= s0 0)", "(= r0 0)", "(= r2 5)")
    assert not lazy.refine(clear, budgets(e, clear))


def test_two_spills_of_one_group_do_not_overlap() -> None:
    machine = make_machine(compute_groups=1)
    ops = (
        instruction(0, ("alu", 1)),
        instruction(1, ("tensor", 1)),
        instruction(2, ("tma", 1), contexts=("load",)),
    )
    made = tuple(value(n, (2, 0), size=1).model_copy(update={"spill": 3}) for n in (0, 1))
    g = graph(ops, (edge(0, 2, 1), edge(1, 2, 1)), made, machine)
    assert figures(g, machine) == oracle(g, machine)
    assert figures(g, machine)[0] == 1 + 1 + 3 + 3


def test_a_spill_longer_than_the_interval_meets_itself() -> None:
    machine = make_machine(compute_groups=1)
    ops = instruction(0, ("alu", 1)), instruction(1, ("tma", 1), contexts=("load",))
    g = graph(ops, (edge(0, 1, 1),), (value(0, (1, 0), size=1).model_copy(update={"spill": 6}),), machine)
    assert refined(encoded(g, machine, 6, 6)) is None
    assert refined(encoded(g, machine, 7, 7)) is not None


def test_without_a_reader_elsewhere_nothing_is_spilled() -> None:
    g, machine = spilling(5)
    here = g.instructions[1].model_copy(update={"contexts": ("compute",)})
    g = g.model_copy(update={"instructions": (g.instructions[0], here, g.instructions[2])})
    assert refined(encoded(g, machine, 7, 7)) is not None


# -- both ---------------------------------------------------------------------------------------


@QUIET
@given(problems(most_instructions=5, most_cycles=4))
def test_what_passes_breaks_no_rule(problem: tuple[CostedGraph, Machine]) -> None:
    g, machine = problem
    bound = lower_bounds(g, machine).best
    a = refined(encoded(g, machine, bound, bound + 6))
    if a is None:
        return
    used = [s.id for s in a.used]
    plan = Plan(a.ii, a.start, tuple(used.index(s) for s in a.slot), tuple(s.context.name for s in a.used))
    assert broken(g, machine, plan, tuple(a.budget(s) for s in used)) == frozenset()


def test_what_is_learnt_of_one_row_block_holds_for_all() -> None:
    g = costed_example("attention", "full", split=2)
    e = Encoding(g, H100, Z3Session(), (2600, 2600))
    assert_rules(e)
    a = models(e, *(e.member(i.id, e.slots[i.block]) for i in g.instructions if i.block >= 0))
    lazy = LazyRules(e)
    plenty = {s.id: 10_000 for s in a.used}
    assert lazy.refine(a, {**plenty, 0: 0})  # only the first row block's warp group lacks registers
    crowds = [{g.values[x].block for x in crowd} for crowd in lazy._crowds.values()]
    assert sorted(crowds, key=min) == [{0}, {1}]
