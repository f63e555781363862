"""The options of a solve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twill.schedule.document import Strategy
from twill.schedule.key import KeyOptions, units_of

SolverName = Literal["z3", "yices", "cvc5", "portfolio"]


@dataclass(frozen=True)
class SolveOptions:
    """normalize: the U of `--normalize U` (None: exact cycles). budget: seconds for everything
    (None: no limit). resource_limit: z3's counter per check (0: none). blocks: only cooperations
    with this many row blocks. ii: ask about this initiation interval only. pins: see `twill.smt.pins`.
    fuse: whether neighbouring program instances may be fused. columns: row blocks have shares of the products that join
    them (`twill.graph.by_columns`).
    strategy: see `twill.solve.strategies`; any but joint follows neither pins nor ii nor resource_limit nor solver.
    solver: who answers the joint solve's questions; "portfolio": z3 and another one that is installed.
    margin: whether room for late products comes before L and registers (docs/model.md)."""

    normalize: int | None = None
    budget: float | None = None
    resource_limit: int = 0
    seed: int = 0
    pins: tuple[str, ...] = ()
    blocks: int | None = None
    ii: int | None = None
    strategy: Strategy = "joint"
    fuse: bool = True
    solver: SolverName = "z3"
    margin: bool = True
    columns: bool = False

    @property
    def units(self) -> int | None:
        """The U that costs are normalized with; None: exact cycles."""
        return units_of(self.strategy, self.normalize)

    @property
    def asked(self) -> KeyOptions:
        """The options that can change the result, which the key hashes."""
        return KeyOptions.of(self, self.units)
