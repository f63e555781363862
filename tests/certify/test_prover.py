"""Making proofs: what z3 says is read right, derived again, and left out where nobody needs it."""

from __future__ import annotations

import pytest
import z3

from tests.certified import statement
from tests.certify.test_verify import asked, proof
from tests.schedules import attention_schedule
from twill.certify.clause_log import Log, inequality
from twill.certify.derivation import Derivation, Unprovable
from twill.certify.farkas import factors
from twill.certify.linear import Atoms, Linear, at_least, at_most, negated
from twill.certify.proof import packed
from twill.certify.prover import prove
from twill.certify.symmetry import exchangeable
from twill.certify.trim import Propagation
from twill.machine.file import load_machine


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("(<= (+ a (* (- 1) b)) 7)", at_most({"a": 1, "b": -1}, 7)),
        ("(not (<= a 7))", at_least({"a": 1}, 8)),
        ("(>= a.3 (- 7))", at_least({"a.3": 1}, -7)),
        ("(<= 2 (+ a a (* 3 b) 1))", at_least({"a": 2, "b": 3}, 1)),
        ("(<= (* 2 a) 7)", at_most({"a": 1}, 3)),
        ("(not true)", False),
        ("a", None),
        ("(= a 7)", None),
        ("(or (<= a 7) (<= b 7))", None),
        ("(<= (* a b) 7)", None),
    ],
)
def test_an_inequality_of_z3_is_read_as_ours(text: str, literal: Linear | bool | None) -> None:
    assert inequality(text) == literal


def test_a_literal_and_its_negation_have_opposite_numbers() -> None:
    atoms = Atoms()
    literal = at_most({"b": -1, "a": 2}, 3)
    assert isinstance(literal, Linear)
    other = negated(literal)
    assert isinstance(other, Linear)
    assert atoms.number(literal) == -atoms.number(other) != 0
    assert (atoms.literal(atoms.number(literal)), atoms.literal(atoms.number(other))) == (literal, other)


def test_factors_add_up_to_a_contradiction() -> None:
    parts = [at_most({"a": 1, "b": -2}, -1), at_most({"b": 3}, 4), at_least({"a": 1}, 2), at_most({"c": 1}, 0)]
    found = factors([p for p in parts if isinstance(p, Linear)])
    assert found is not None and found[3] == 0
    total: dict[str, int] = {}
    bound = 0
    for part, factor in zip(parts, found, strict=True):
        assert isinstance(part, Linear)
        bound += factor * part.bound
        for name, times in part.terms:
            total[name] = total.get(name, 0) + factor * times
    assert bound < 0 and set(total.values()) == {0}


def test_inequalities_with_a_solution_have_no_factors() -> None:
    parts = [at_most({"a": 1}, 3), at_least({"a": 1}, 3)]
    assert factors([p for p in parts if isinstance(p, Linear)]) is None


def test_propagation_names_the_clauses_that_it_used_in_order() -> None:
    clauses = Propagation()
    for clause in ((1,), (5, 6), (-1, 2), (-2, -3, 4), (-4, -2)):
        clauses.add(clause)
    reason, trail, broken = clauses.consequences((-3,), 5)
    assert broken is not None
    assert [*clauses.chain(reason, trail, clauses.clauses[broken]), broken] in ([0, 2, 3, 4], [0, 2, 4, 3])
    assert clauses.consequences((-3,), 4)[2] is None  # the last clause is not one of the first four


def test_what_does_not_follow_is_not_derived() -> None:
    wrong = at_most({"a": 1}, -1)
    assert isinstance(wrong, Linear)
    with pytest.raises(Unprovable):
        Derivation([(("start", 0), 0, (wrong,))], [(True, ())]).lines()


def test_clauses_of_a_refutation_are_logged() -> None:
    solver = z3.SimpleSolver()
    log = Log(solver)
    solver.from_string(
        "(declare-fun a () Int)(declare-fun b () Int)"
        "(assert (or (<= a (+ b (- 1))) (<= b (+ a (- 1)))))(assert (<= a b))(assert (<= b a))"
    )
    assert solver.check() == z3.unsat
    assert log.learned


def test_the_same_question_gets_the_same_proof() -> None:
    again = prove(asked())
    assert again is not None and packed(again) == packed(proof())


def test_a_question_that_takes_too_long_is_not_proven() -> None:
    schedule = attention_schedule()
    s = statement(schedule.loops[0].graph, load_machine("h100"), 2048, length=4096)
    with pytest.raises(Unprovable, match="within its limit"):
        prove(s, effort=1_000)


def test_row_blocks_are_exchangeable_just_if_they_are_alike() -> None:
    graph = attention_schedule().loops[0].graph
    assert exchangeable(graph, 0, 1)
    one = next(i for i in graph.instructions if i.block == 1)
    slower = one.model_copy(update={"latency": one.latency + 1})
    ops = tuple(slower if i.id == one.id else i for i in graph.instructions)
    assert not exchangeable(graph.model_copy(update={"instructions": ops}), 0, 1)
    inside = next(n for n, e in enumerate(graph.edges) if {graph.instructions[e.src].block} == {0})
    longer = graph.edges[inside].model_copy(update={"delay": graph.edges[inside].delay + 1})
    edges = (*graph.edges[:inside], longer, *graph.edges[inside + 1 :])
    assert not exchangeable(graph.model_copy(update={"edges": edges}), 0, 1)
    assert not exchangeable(graph, 0, 7)
