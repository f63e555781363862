"""A second solver's opinion is asked where there is no proof, and recorded as what it is."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.certify.test_verify import asked
from tests.conftest import GOLDEN
from tests.smt.test_external import Z3_AS_PROGRAM
from twill.certify.certify import certify
from twill.certify.second import second_solver
from twill.exc import SolverMissing
from twill.machine.file import load_machine
from twill.schedule.file import load_schedule
from twill.smt.external import Program


def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, only: str) -> None:
    """A program of our own that goes by the name of a solver; no other one is installed."""
    script = tmp_path / "solver.py"
    script.write_text(dedent(Z3_AS_PROGRAM))

    def program(name: str) -> Program:
        if name != only:
            raise SolverMissing(name)
        return Program(name, (sys.executable, str(script)))

    monkeypatch.setattr("twill.certify.second.program", program)


def test_a_second_solver_says_no_only_to_what_is_impossible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "cvc5")
    assert second_solver(asked()) == "cvc5"
    assert second_solver(asked(7, 7)) is None


def test_without_a_second_solver_nobody_agrees(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "")
    assert second_solver(asked()) is None


def test_what_has_no_proof_is_agreed_or_only_claimed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    schedule = load_schedule(GOLDEN / "schedules" / "gemm_bf16.json")
    machine = load_machine("h100")
    install(monkeypatch, tmp_path, "yices")
    agreed = certify(schedule, machine, effort=1).document
    assert (len(agreed.proven), len(agreed.agreed), len(agreed.claimed)) == (1, 3, 0)  # one takes no search
    assert agreed.agreed[0].solvers == ("z3 5.4.0", "yices")
    assert agreed.agreed[0].reason == "z3 did not decide the question within its limit"
    install(monkeypatch, tmp_path, "")
    claimed = certify(schedule, machine, effort=1).document
    assert (len(claimed.proven), len(claimed.agreed), len(claimed.claimed)) == (1, 0, 3)
