"""The checker of proofs accepts what follows and refuses what does not, whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import cache

import pytest

from tests.graphs import edge, graph, instruction
from tests.strategies import make_machine
from twill.certify.proof import Proof
from twill.certify.prover import prove
from twill.certify.question import Question
from twill.certify.statement import Statement
from twill.certify.verify import WrongStep, verify

Lines = list[list[object]]


def asked(ii: int = 6, ii_to: int = 6) -> Statement:
    """Two instructions of 3 cycles that the second of must start 4 after the first: they meet again after 6 cycles.

    Neither the unit's 6 cycles nor the recurrence of 6 excludes I = 6; only both together do.
    """
    ops = (instruction(0, ("alu", 3)), instruction(1, ("alu", 3)))
    edges = (edge(0, 1, 4), edge(1, 0, 2, 1))
    machine = make_machine()
    return Statement(graph(ops, edges, machine=machine), machine, Question(ii=ii, ii_to=ii_to))


@cache
def proof() -> Proof:
    found = prove(asked())
    assert found is not None
    return found


def changed(change: Callable[[Lines], object]) -> Proof:
    """The proof with other lines."""
    lines = deepcopy(list(proof().lines))
    change(lines)
    return Proof(proof().header, tuple(lines))


def first(lines: Lines, kind: str) -> list[object]:
    """The first line of a kind."""
    return next(line for line in lines if line[0] == kind)


def test_it_accepts_the_proof() -> None:
    assert verify(proof(), asked()) > 3


def test_a_feasible_question_has_no_proof() -> None:
    assert prove(asked(7, 7)) is None
    assert prove(asked(6, 7)) is None


def test_the_proof_of_one_question_does_not_prove_another() -> None:
    for other in (asked(7, 7), asked(6, 7)):
        with pytest.raises(WrongStep):
            verify(proof(), other)


def multiply(lines: Lines) -> None:
    line = first(lines, "sum")
    line[2] = [2, *line[2][1:]]  # type: ignore[index]


def negate(lines: Lines) -> None:
    line = first(lines, "sum")
    line[2] = [-factor for factor in line[2]]  # type: ignore[attr-defined]


def shorten(lines: Lines) -> None:
    line = first(lines, "sum")
    line[1], line[2] = line[1][1:], line[2][1:]  # type: ignore[index]


def loosen(lines: Lines) -> None:
    first(lines, "literal")[2] = 1_000


def strengthen(lines: Lines) -> None:
    """A sum whose bound does not contradict itself: one cycle less to add up."""
    for line in lines:
        if line[0] == "literal":
            line[2] += 1  # type: ignore[operator]


def look_ahead(lines: Lines) -> None:
    first(lines, "follows")[2] = [len(lines)]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda lines: lines.pop(), "before it comes to a contradiction"),
        (lambda lines: lines.clear(), "before it comes to a contradiction"),
        (lambda lines: lines.remove(first(lines, "sum")), ""),
        (lambda lines: lines.remove(first(lines, "rule")), ""),
        (multiply, "the sum still has"),
        (negate, "a factor is not positive"),
        (shorten, "the sum"),
        (loosen, ""),
        (strengthen, ""),
        (look_ahead, "there is no step"),
        (lambda lines: first(lines, "follows").__setitem__(2, []), "no step leads to a contradiction"),
        (lambda lines: first(lines, "rule").__setitem__(2, 99), "none in place 99"),
        (lambda lines: first(lines, "rule").__setitem__(2, -1), "none in place -1"),
        (lambda lines: first(lines, "rule").__setitem__(1, ["the moon", 1]), "no rule is called"),
        (lambda lines: first(lines, "sum").__setitem__(1, [77]), ""),
        (lambda lines: first(lines, "sum").__setitem__(2, [1.5, 1.5]), "whole numbers"),
        (lambda lines: lines.insert(0, ["believe", []]), "no such kind of step"),
        (lambda lines: lines.insert(0, []), "no such kind of step"),
        (lambda lines: lines.insert(0, ["sum", [], []]), "no contradiction"),
        (lambda lines: lines.insert(0, ["follows", [], [0]]), "there is no step 0"),
        (lambda lines: lines.insert(0, ["literal", [], -1]), "decided"),
        (lambda lines: lines.insert(1, lines[0]), "not new"),
    ],
)
def test_a_proof_that_was_tampered_with_is_refused(change: Callable[[Lines], object], reason: str) -> None:
    with pytest.raises(WrongStep, match=reason or None):
        verify(changed(change), asked())


def test_no_line_of_the_proof_is_there_for_nothing() -> None:
    """Without any one of its clauses, or with one literal of it less, nothing is proven."""
    for number, line in enumerate(proof().lines):
        if line[0] != "literal":
            with pytest.raises(WrongStep):
                verify(changed(lambda lines, n=number: lines.pop(n)), asked())  # type: ignore[misc]
