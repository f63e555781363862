"""The progress reports of a search, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from twill.schedule.document import Certificate, Objective
from twill.smt.assignment import Assignment


@dataclass(frozen=True)
class Progress:
    """What the search knows now: the phase's objective lies in [lower, upper] (upper None: open)."""

    phase: str
    lower: int
    upper: int | None
    seconds: float


@dataclass(frozen=True)
class Outcome:
    """The best assignment found (None if none was), its objective and the certificate.

    infeasible: proven that no I works at all. Otherwise `certificate.optimal` tells whether every
    objective was proven.
    """

    assignment: Assignment | None
    objective: Objective | None
    certificate: Certificate
    infeasible: bool
