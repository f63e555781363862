"""A question: whether one loop has a schedule within given limits."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from twill.document import Document


class Question(Document):
    """Is there a valid schedule of the loop with I in [ii, ii_to] and ... ?

    length, crossing, registers: at most so much of the objective (None: any); only with ii = ii_to.
    """

    ii: int
    ii_to: int
    length: int | None = None
    crossing: int | None = None
    registers: int | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if not 1 <= self.ii <= self.ii_to:
            raise ValueError("a question is about some I, of which the least is 1")
        if self.ii != self.ii_to and not self.length is self.crossing is self.registers is None:
            raise ValueError("a question about several I has no limits")
        return self

    def words(self) -> str:
        """`I in [1032, 1044]`, `I = 2048, length <= 4096`."""
        interval = f"I = {self.ii}" if self.ii == self.ii_to else f"I in [{self.ii}, {self.ii_to}]"
        limits = {"length": self.length, "crossing": self.crossing, "registers": self.registers}
        return ", ".join([interval, *(f"{name} <= {most}" for name, most in limits.items() if most is not None)])
