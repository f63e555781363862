"""The key of a schedule: a hash of everything that can change the answer.

Budgets are not part of it: an answer that a budget could have changed is not stored.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from twill.document import Document
from twill.graph.accumulator import one_sums
from twill.graph.by_columns import may_share
from twill.graph.canonical import canonical_shape
from twill.graph.dependence import DependenceGraph
from twill.schedule.document import Strategy

EMITTER_VERSION = "5"
PAPER_UNITS = 300  # the U of the paper's evaluation (arXiv 2512.18134), whose encoding grows with the cycles


Natural = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive = Annotated[int, Field(ge=1, le=2**31 - 1)]


class AnswerOptions(Document):
    """The options of a solve that can change its answer (docs/commands.md). seed: of the solver; pins: see
    `twill.smt.pins`; blocks: only cooperations with this many row blocks; ii: ask about this initiation interval
    only. fuse: whether neighbouring program instances may be fused. margin: whether room for late MMAs comes before L
    and registers (docs/model.md). whole_exponentials: none is split (`twill.graph.exponentials`). cluster: CTAs that
    multiply together, where the machine has pairs (`twill.graph.pairs`). strategy: see `twill.solve.strategies`; any
    but joint follows neither pins nor ii."""

    strategy: Strategy = "joint"
    seed: Natural = 0
    pins: tuple[str, ...] = ()
    blocks: Positive | None = None
    ii: Positive | None = None
    fuse: bool = True
    margin: bool = True
    whole_exponentials: bool = False
    cluster: Literal[1, 2] = 1

    @model_validator(mode="before")
    @classmethod
    def _without_columns(cls, given: Any, info: ValidationInfo) -> Any:
        """Documents of earlier versions, in stores and from clients, have `columns`, which is no option any more."""
        if info.mode != "json" or not isinstance(given, dict):
            return given
        lists = ((name, tuple(value) if isinstance(value, list) else value) for name, value in given.items())
        return {name: value for name, value in lists if name != "columns"}


class KeyOptions(AnswerOptions):
    """What the key depends on. units: the U that costs are normalized with (None: exact)."""

    units: int | None = None

    @classmethod
    def of(cls, options: AnswerOptions, units: int | None) -> Self:
        """Of the options of a solve."""
        return cls(units=units, **{name: getattr(options, name) for name in AnswerOptions.model_fields})


def units_of(strategy: Strategy, normalize: int | None) -> int | None:
    """The U by which a strategy's costs are normalized (None: exact cycles): the user's, or the strategy's own."""
    return PAPER_UNITS if normalize is None and strategy == "paper" else normalize


def schedule_key(graph: DependenceGraph, machine_digest: str, asked: KeyOptions | None = None) -> str:
    """SHA-256, as hexadecimal text, over the canonical graph, the machine, what was asked and the emitter's version,
    with what later versions changed for some graphs alone.

    Two spellings of one kernel (names, lines) have one key.
    """
    a = asked or KeyOptions()
    unusual = (
        *(() if a.fuse else ("unfused",)),
        *(() if a.margin else ("no margin",)),
        *(("whole exponentials",) if a.whole_exponentials else ()),
        *(("pairs",) if a.cluster > 1 else ()),
    )
    options = repr((a.strategy, a.units, a.seed, a.pins, a.blocks, a.ii, *unusual))
    changed = (
        *(("sums by life",) if any(map(one_sums, graph.regions)) else ()),
        *(("shares of what joins row blocks",) if may_share(graph) else ()),
    )
    parts = (canonical_shape(graph), machine_digest, options, " ".join((EMITTER_VERSION, *changed)))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
