"""One conversation with the solver: verdicts, values, cores, and limits that never decide anything."""

from __future__ import annotations

from itertools import combinations

import pytest

from twill.smt.backend import Z3Session


def pigeons(session: Z3Session, holes: int) -> None:
    """One pigeon more than holes: unsatisfiable, and hard to see."""
    for p in range(holes + 1):
        for h in range(holes):
            session.declare(f"p{p}_{h}", "Bool")
    session.add(f"(or {' '.join(f'p{p}_{h}' for h in range(holes))})" for p in range(holes + 1))
    session.add(
        f"(or (not p{a}_{h}) (not p{b}_{h}))" for a, b in combinations(range(holes + 1), 2) for h in range(holes)
    )


def test_values_of_a_model_are_read_back() -> None:
    session = Z3Session()
    session.declare("x", "Int")
    session.declare("y", "Int")
    session.declare("yes", "Bool")
    session.declare("no", "Bool")
    session.add(["(= x (- 7))", "(= (+ x y) 5)", "yes", "(not no)"])
    answer = session.check()
    assert answer.outcome == "sat"
    assert answer.values == {"x": -7, "y": 12, "yes": 1, "no": 0}
    assert answer.seconds >= 0


def test_assertions_accumulate() -> None:
    session = Z3Session()
    session.declare("x", "Int")
    session.add(["(< 3 x)"])
    assert session.check().outcome == "sat"
    session.declare("y", "Int")
    session.add(["(< x y)", "(< y 5)"])
    answer = session.check()
    assert answer.outcome == "unsat"
    assert answer.values == {}


def test_an_extra_assertion_leaves_no_trace() -> None:
    session = Z3Session()
    session.declare("x", "Int")
    session.add(["(<= 0 x 9)"])
    assert session.check(["(= x 3)"]).values == {"x": 3}
    assert session.check(["(= x 4)"]).values == {"x": 4}
    assert session.check(["(= x 10)"]).outcome == "unsat"
    assert session.check(["(= x 9)"]).values == {"x": 9}
    assert session.check().outcome == "sat"


def test_a_core_names_the_assumptions_that_exclude_each_other() -> None:
    session = Z3Session()
    session.declare("x", "Int")
    for name, term in (("low", "(< x 3)"), ("high", "(< 5 x)"), ("odd", "(= (mod x 2) 1)")):
        session.declare(name, "Bool")
        session.add([f"(=> {name} {term})"])
    answer = session.check(assuming=["low", "high", "odd"])
    assert answer.outcome == "unsat"
    assert set(answer.core) == {"low", "high"}
    assert session.check(assuming=["low", "odd"]).outcome == "sat"
    assert session.check().core == ()


def test_an_effort_that_ran_out_is_unknown_and_the_session_goes_on() -> None:
    session = Z3Session()
    pigeons(session, 6)
    assert session.check(effort=10).outcome == "unknown"
    assert session.check(effort=10, seconds=60.0).outcome == "unknown"
    assert session.check(["(or p0_0 p1_0)"], effort=10).outcome == "unknown"
    assert session.check().outcome == "unsat"


def test_time_that_ran_out_is_unknown() -> None:
    session = Z3Session()
    pigeons(session, 11)
    assert session.check(seconds=0.05).outcome == "unknown"


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_without_time_nothing_is_asked(seconds: float) -> None:
    session = Z3Session()
    session.add(["false"])
    assert session.check(seconds=seconds).outcome == "unknown"
    assert session.check(seconds=1.0).outcome == "unsat"


def test_a_limit_holds_for_one_check_only() -> None:
    session = Z3Session()
    pigeons(session, 5)
    assert session.check(effort=1).outcome == "unknown"
    assert session.check(effort=0).outcome == "unsat"


def test_equal_conversations_have_equal_answers() -> None:
    def ask() -> tuple[str, dict[str, int]]:
        session = Z3Session(seed=5)
        for n in range(6):
            session.declare(f"x{n}", "Int")
        session.add(f"(<= 0 x{n} 20)" for n in range(6))
        session.add(f"(or (<= (+ x{a} 3) x{b}) (<= (+ x{b} 3) x{a}))" for a, b in combinations(range(6), 2))
        answer = session.check()
        return answer.outcome, answer.values

    assert ask() == ask()


def test_sessions_do_not_share_names() -> None:
    one, two = Z3Session(), Z3Session()
    one.declare("x", "Int")
    two.declare("x", "Bool")
    one.add(["(= x 1)"])
    two.add(["(not x)"])
    assert one.check().values == {"x": 1}
    assert two.check().values == {"x": 0}


def test_a_session_says_which_solver_it_is() -> None:
    assert Z3Session().name.startswith("z3 ")
