"""The options of a solve, each written once: `AnswerOptions` are those that can change its answer, and so its key."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field

from twill.schedule.key import AnswerOptions, KeyOptions, Natural, Positive, units_of

SolverName = Literal["z3", "yices", "cvc5"]


class SentOptions(AnswerOptions):
    """Those that a service takes as well. normalize: the U of `--normalize U` (None: exact cycles). budget: seconds for
    everything (None: no limit). resource_limit: z3's counter per check (0: none), which only joint solves follow."""

    normalize: Positive | None = None
    budget: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] | None = None
    resource_limit: Natural = 0

    @property
    def units(self) -> int | None:
        """The U that costs are normalized with; None: exact cycles."""
        return units_of(self.strategy, self.normalize)

    @property
    def asked(self) -> KeyOptions:
        """The options that can change the result, which the key hashes."""
        return KeyOptions.of(self, self.units)


class SolveOptions(SentOptions):
    """All of them. solver: who answers the joint solve's questions."""

    solver: SolverName = "z3"

    def unfused(self) -> Self:
        """The same without fused program instances, which are not emitted."""
        return self.model_copy(update={"fuse": False})
