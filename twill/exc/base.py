"""The base of all errors."""

from __future__ import annotations

from collections.abc import Sequence

LISTED = 5  # faults of one message


def listed(said: Sequence[str]) -> str:
    """The first few of several faults, a line each."""
    more = f"\n  and {len(said) - LISTED} more" if len(said) > LISTED else ""
    return "".join(f"\n  {one}" for one in said[:LISTED]) + more


class TwillError(Exception):
    """Base of every error that a user can cause. exit_code as documented for the command."""

    exit_code = 2

    def __init__(self, message: str, *, file: str = "", line: int = 0, hint: str = "") -> None:
        self.message = message
        self.file = file
        self.line = line
        self.hint = hint
        super().__init__(self.describe())

    def describe(self) -> str:
        """The whole text: `file:line: message`, then the hint on a line of its own."""
        where = f"{self.file}:{self.line}: " if self.line else (f"{self.file}: " if self.file else "")
        return f"{where}{self.message}" + (f"\n  instead: {self.hint}" if self.hint else "")
