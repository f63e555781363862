"""A plan put to the solver: is it one of the encoding's schedules?"""

from __future__ import annotations

from hypothesis import strategies as st

from tests.exhaustive import optimum
from tests.rules import Plan
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.smt.assignment import Assignment, read_assignment
from twill.smt.backend import Z3Session
from twill.smt.encoding import Encoding
from twill.smt.lazy import LazyRules
from twill.smt.rules import assert_rules
from twill.zlp.slots import Slot


def encoded(graph: CostedGraph, machine: Machine, low: int, high: int, *, explain: bool = False) -> Encoding:
    """All rules of a problem, for I in [low, high]; warp groups and row blocks are not interchangeable."""
    e = Encoding(graph, machine, Z3Session(), (low, high), explain=explain, pinned=True, named_slots=True)
    assert_rules(e)
    e.flush()
    return e


def slots_of_plan(e: Encoding, plan: Plan) -> dict[int, Slot] | None:
    """A slot for every used group, in order; None if the machine has too few of a context."""
    free = list(e.slots)
    found: dict[int, Slot] = {}
    for group in sorted(set(plan.groups)):
        slot = next((s for s in free if s.context.name == plan.contexts[group]), None)
        if slot is None:
            return None
        free.remove(slot)
        found[group] = slot
    return found


def fix(e: Encoding, plan: Plan) -> bool:
    """Assert the plan's I, starts and warp groups; False if it asks for an instruction's warp group in vain."""
    slots = slots_of_plan(e, plan)
    if slots is None or any(slots[g] not in e.slots_of(v) for v, g in enumerate(plan.groups)):
        return False
    if e.interval == "I":
        e.add(f"(= I {plan.ii})")
    for v, (start, group) in enumerate(zip(plan.starts, plan.groups, strict=True)):
        p = e.start(v)
        e.add(f"(and (= {p.row} {start % plan.ii}) (= {p.stage} {start // plan.ii}))")
        e.add(e.member(v, slots[group]))
        for other in e.slots_of(v):
            if other != slots[group]:
                e.add(f"(not {e.member(v, other)})")
    e.flush()
    return True


def refined(e: Encoding) -> Assignment | None:
    """A schedule after the rules that are added on demand, or None if there is none."""
    lazy = LazyRules(e)
    granule = e.machine.register_file.granule
    while True:
        e.flush()
        answer = e.session.check()
        assert answer.outcome != "unknown"
        if answer.outcome == "unsat":
            return None
        a = read_assignment(e, answer.values)
        if not lazy.refine(a, {s.id: granule * answer.values.get(f"b{s.id}", 0) for s in a.used}):
            return a


@st.composite
def plans(draw: st.DrawFn, graph: CostedGraph, machine: Machine) -> Plan | None:
    """The optimal plan, or one that differs from it in one thing; None if there is none."""
    found = optimum(graph, machine, most_ii=12)
    if found is None:
        return None
    starts, groups, ii = list(found.plan.starts), list(found.plan.groups), found.ii
    number = draw(st.integers(0, len(starts) - 1))
    change = draw(st.sampled_from(("none", "move", "regroup", "hurry", "tarry")))
    if change == "move":
        starts[number] = max(0, starts[number] + draw(st.integers(-ii, ii)))
    elif change == "regroup":
        groups[number] = draw(st.integers(0, max(groups)))
    elif change in ("hurry", "tarry"):
        ii = max(1, ii + (1 if change == "tarry" else -1))
    base = min(starts)
    return Plan(ii, tuple(t - base for t in starts), tuple(groups), found.plan.contexts)
