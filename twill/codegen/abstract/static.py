"""Rules that need no run."""

from __future__ import annotations

from twill.codegen.abstract.violation import Violation
from twill.codegen.aref import WarpProgram


def static_violations(program: WarpProgram) -> tuple[Violation, ...]:
    """Every broken rule that the program shows as it stands."""
    return ()
