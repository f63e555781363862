"""The solvers that can be asked for, by name."""

from __future__ import annotations

from collections.abc import Callable

from twill.schedule.options import SolverName
from twill.smt.backend import Session, Z3Session
from twill.smt.external import ExternalSession, program


def opener(name: SolverName, seed: int) -> Callable[[], Session]:
    """Opens a session with the solver `name`. Raises SolverMissing at once if it is not installed."""
    if name == "z3":
        return lambda: Z3Session(seed)
    alone = program(name)
    return lambda: ExternalSession(alone)
