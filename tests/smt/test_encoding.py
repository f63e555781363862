"""The terms of the encoding mean what their names say, for a fixed I and for a range of them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graphs import graph, instruction
from tests.strategies import make_machine
from twill.smt.backend import Z3Session
from twill.smt.encoding import AT_ONCE, Encoding, RuleOrigin, implies, number, read_end
from twill.smt.limits import OutOfBudget

QUIET = settings(max_examples=80, derandomize=True)
MACHINE = make_machine()


def two(low: int, high: int) -> Encoding:
    """Instructions 0 and 1 with nothing asserted of them."""
    return Encoding(graph((instruction(0), instruction(1))), MACHINE, Z3Session(), (low, high))


def at(e: Encoding, ii: int, *starts: int) -> list[str]:
    """Terms that put I and the starts of instructions 0, 1, ... at these values."""
    terms = [] if e.interval != "I" else [f"(= I {ii})"]
    for v, start in enumerate(starts):
        terms += [f"(= {e.start(v).row} {start % ii})", f"(= {e.start(v).stage} {start // ii})"]
    return terms


def holds(e: Encoding, term: str, fixed: list[str]) -> bool:
    """Whether the term is true where everything it speaks of is fixed; checks that it is not both."""
    e.flush()
    yes = e.session.check([*fixed, term]).outcome
    no = e.session.check([*fixed, f"(not {term})"]).outcome
    assert {yes, no} == {"sat", "unsat"}
    return yes == "sat"


@st.composite
def intervals(draw: st.DrawFn) -> tuple[int, tuple[int, int]]:
    """An I, and a range around it that is given to the encoding."""
    ii = draw(st.integers(1, 9))
    return ii, (max(1, ii - draw(st.integers(0, 3))), ii + draw(st.integers(0, 3)))


@QUIET
@given(intervals(), st.integers(0, 30), st.integers(0, 30), st.integers(-3, 25), st.integers(0, 3))
def test_a_gap_is_at_least_the_delay(
    interval: tuple[int, tuple[int, int]], u: int, v: int, delay: int, distance: int
) -> None:
    ii, around = interval
    e = two(*around)
    term = e.gap(e.start(0), e.start(1), delay, distance)
    assert holds(e, term, at(e, ii, u, v)) == (v + distance * ii >= u + delay)


@QUIET
@given(intervals(), st.integers(0, 30), st.integers(0, 30))
def test_a_point_is_so_many_cycles_after_its_instruction(
    interval: tuple[int, tuple[int, int]], start: int, offset: int
) -> None:
    ii, around = interval
    e = two(*around)
    p = e.point(0, offset)
    fixed = at(e, ii, start)
    assert holds(e, f"(= (+ (* {ii} {p.stage}) {p.row}) {start + offset})", fixed)
    assert holds(e, f"(and (<= 0 {p.row}) (< {p.row} {ii}))", fixed)


@settings(QUIET, max_examples=200)
@given(intervals(), st.tuples(st.integers(0, 12), st.integers(1, 4)), st.tuples(st.integers(0, 12), st.integers(1, 4)))
def test_disjoint_intervals_share_no_cycle_modulo_the_interval(
    interval: tuple[int, tuple[int, int]], a: tuple[int, int], b: tuple[int, int]
) -> None:
    ii, around = interval
    e = two(*around)
    term = e.disjoint(e.start(0), a[1], e.start(1), b[1])
    cycles_of_a, cycles_of_b = ({(start + n) % ii for n in range(cycles)} for start, cycles in (a, b))
    apart = not cycles_of_a & cycles_of_b and a[1] <= ii and b[1] <= ii
    assert holds(e, term, at(e, ii, a[0], b[0])) == apart


@QUIET
@given(intervals(), st.integers(0, 12), st.integers(0, 12))
def test_before_compares_rows(interval: tuple[int, tuple[int, int]], u: int, v: int) -> None:
    ii, around = interval
    e = two(*around)
    term = e.before(e.start(0), e.start(1))
    assert holds(e, term, at(e, ii, u, v)) == (u % ii < v % ii)
    assert e.before(e.start(0), e.start(1)) == term  # asked once, declared once
    assert e.before(e.start(0), e.start(0)) == "false"


def test_rows_and_stages_are_of_a_legal_start() -> None:
    e = two(5, 5)
    e.start(0)
    e.flush()
    for term in ("(< r0 0)", "(<= 5 r0)", "(< s0 0)"):
        assert e.session.check([term]).outcome == "unsat"
    assert e.session.check(["(= r0 4)", "(= s0 7)"]).outcome == "sat"


def test_the_interval_is_a_number_or_an_unknown_in_its_range() -> None:
    assert two(5, 5).interval == "5"
    open_range = two(5, 8)
    open_range.flush()
    assert open_range.interval == "I"
    assert open_range.session.check(["(= I 8)"]).outcome == "sat"
    assert open_range.session.check(["(= I 9)"]).outcome == "unsat"
    assert open_range.session.check(["(= I 4)"]).outcome == "unsat"
    assert open_range.times(-2) == "(* (- 2) I)"
    assert two(5, 5).times(-2) == "(- 10)"


# -- warp groups --------------------------------------------------------------------------------


def test_slots_are_the_same_for_every_loop_of_a_kernel() -> None:
    machine = make_machine(compute_groups=2)
    only = Encoding(graph((instruction(0),)), machine, Z3Session(), (1, 1))
    both = Encoding(graph((instruction(0, contexts=("load", "compute")),)), machine, Z3Session(), (1, 1))
    assert [(s.id, s.context.name) for s in only.slots] == [(0, "compute"), (1, "compute"), (2, "load")]
    assert only.slots == both.slots
    assert both.slots_of(0) == both.slots
    assert only.slots_of(0) == only.slots[:2]


@pytest.mark.parametrize("contexts", [("compute",), ("compute", "load"), ("load",)])
@pytest.mark.parametrize("others", [("compute",), ("compute", "load"), ("load",)])
def test_same_is_true_exactly_in_one_warp_group(contexts: tuple[str, ...], others: tuple[str, ...]) -> None:
    g = graph((instruction(0, contexts=contexts), instruction(1, contexts=others)))
    e = Encoding(g, MACHINE, Z3Session(), (1, 1))
    for v in (0, 1):
        for slot in e.slots_of(v):
            e.session.declare(e.member(v, slot), "Bool")
    same = e.same(0, 1)
    assert e.same(1, 0) == same
    for mine in e.slots_of(0):
        for theirs in e.slots_of(1):
            fixed = [e.member(v, s) if s == chosen else f"(not {e.member(v, s)})"
                     for v, chosen in ((0, mine), (1, theirs)) for s in e.slots_of(v)]  # fmt: skip
            assert holds(e, same, fixed) == (mine == theirs)


def test_same_needs_no_unknown_where_it_is_settled() -> None:
    g = graph((instruction(0, contexts=("load",)), instruction(1, contexts=("load",)), instruction(2),
               instruction(3, issuer="mma"), instruction(4, issuer="mma")))  # fmt: skip
    e = Encoding(g, MACHINE, Z3Session(), (1, 1))
    assert e.same(0, 0) == "true"
    assert e.same(0, 1) == "true"  # there is one load group
    assert e.same(0, 2) == "false"
    assert e.same(3, 4) == "true"
    assert e.member(3, e.slots[0]) == e.member(4, e.slots[0])


# -- origins ------------------------------------------------------------------------------------


def explained(dropped: frozenset[RuleOrigin] = frozenset()) -> Encoding:
    """x <= 3 by one rule and 5 <= x by another."""
    e = Encoding(graph((instruction(0),)), MACHINE, Z3Session(), (1, 1), explain=True, dropped=dropped)
    e.session.declare("x", "Int")
    e.add("(<= x 3)", RuleOrigin("low", (0,)))
    e.add("(<= 5 x)", RuleOrigin("high", (0,)))
    e.add("(<= x 4)", RuleOrigin("low", (0,)))
    e.flush()
    return e


def test_an_assertion_holds_under_the_literal_of_its_origin() -> None:
    e = explained()
    assert set(e.origins.values()) == {RuleOrigin("low", (0,)), RuleOrigin("high", (0,))}
    assert e.session.check().outcome == "sat"
    answer = e.session.check(assuming=sorted(e.origins))
    assert answer.outcome == "unsat"
    assert {e.origins[c] for c in answer.core} == set(e.origins.values())


def test_what_is_dropped_is_not_asserted() -> None:
    e = explained(frozenset({RuleOrigin("low", (0,))}))
    assert set(e.origins.values()) == {RuleOrigin("high", (0,))}
    assert e.session.check(assuming=sorted(e.origins)).outcome == "sat"


def test_without_explanations_assertions_hold_at_once() -> None:
    e = two(1, 1)
    e.session.declare("x", "Int")
    e.add("(<= x 3)", RuleOrigin("low"))
    assert e.session.check(["(= x 9)"]).outcome == "sat"  # pending
    e.flush()
    assert e.session.check(["(= x 9)"]).outcome == "unsat"
    assert e.origins == {}


# -- small words --------------------------------------------------------------------------------


def test_implications_are_simplified() -> None:
    assert implies(["true"], "x") == "x"
    assert implies(["a", "true"], "x") == "(=> a x)"
    assert implies(["a", "b"], "x") == "(=> (and a b) x)"
    assert implies(["a"], "false") == "(not a)"
    assert implies([], "false") == "false"
    assert implies(["a", "false"], "x") is None
    assert implies(["a"], "true") is None


def test_numerals_of_both_signs() -> None:
    assert (number(7), number(0), number(-7)) == ("7", "0", "(- 7)")


def test_operands_are_read_until_the_end_of_the_hold_or_of_asynchronous_work() -> None:
    assert read_end(instruction(0, latency=9, hold=4)) == 4
    assert read_end(instruction(0, latency=9, hold=4, asynchronous=True)) == 9


def test_terms_are_neither_written_nor_handed_over_when_the_time_has_ended() -> None:
    """The terms of hundreds of instructions take longer to write and to read than a short budget."""
    late = replace_left(two(3, 3), 0.0)
    with pytest.raises(OutOfBudget):
        for _ in range(AT_ONCE):
            late.add("true")
    unhurried = two(3, 3)
    for _ in range(AT_ONCE + 1):
        unhurried.add("true")
    with pytest.raises(OutOfBudget):
        replace_left(unhurried, 0.0).flush()


def replace_left(e: Encoding, seconds: float) -> Encoding:
    """The same encoding with so many seconds left."""
    e.left = lambda: seconds
    return e
