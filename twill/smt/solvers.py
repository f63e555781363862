"""The solvers that can be asked for, by name."""

from __future__ import annotations

from collections.abc import Callable

from twill.exc import SolverMissing
from twill.schedule.options import SolverName
from twill.smt.backend import Session, Z3Session
from twill.smt.external import ExternalSession, Program, program
from twill.smt.portfolio import Portfolio


def opener(name: SolverName, seed: int) -> Callable[[], Session]:
    """Opens a session with the solver `name`. Raises SolverMissing at once if it is not installed."""
    if name == "z3":
        return lambda: Z3Session(seed)
    if name == "portfolio":
        beside = _first_installed()
        return lambda: Portfolio(beside, seed)
    alone = program(name)
    return lambda: ExternalSession(alone)


def _first_installed() -> Program:
    try:
        return program("yices")
    except SolverMissing:
        return program("cvc5")
