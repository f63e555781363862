"""The key of a schedule: a hash of everything that can change the answer.

Budgets are not part of it: an answer that a budget could have changed is not stored.
"""

from __future__ import annotations

import hashlib
from typing import Self

from twill.document import Document
from twill.graph.canonical import canonical_shape
from twill.graph.dependence import DependenceGraph
from twill.schedule.document import Strategy

EMITTER_VERSION = "5"
PAPER_UNITS = 300  # the U of the paper's evaluation (arXiv 2512.18134), whose encoding grows with the cycles


class KeyOptions(Document):
    """The options of a solve that can change its answer; units: the U that costs are normalized with (None: exact)."""

    strategy: Strategy = "joint"
    units: int | None = None
    seed: int = 0
    pins: tuple[str, ...] = ()
    blocks: int | None = None
    ii: int | None = None
    fuse: bool = True
    margin: bool = True
    columns: bool = False

    @classmethod
    def of(cls, options: object, units: int | None) -> Self:
        """Of the options of a solve, which have these fields under the same names, but for the units."""
        return cls(units=units, **{name: getattr(options, name) for name in cls.model_fields if name != "units"})


def units_of(strategy: Strategy, normalize: int | None) -> int | None:
    """The U by which a strategy's costs are normalized (None: exact cycles): the user's, or the strategy's own."""
    return PAPER_UNITS if normalize is None and strategy == "paper" else normalize


def schedule_key(graph: DependenceGraph, machine_digest: str, asked: KeyOptions | None = None) -> str:
    """SHA-256, as hexadecimal text, over the canonical graph, the machine, what was asked and the emitter's version.

    Two spellings of one kernel (names, lines) have one key.
    """
    a = asked or KeyOptions()
    unusual = (
        *(() if a.fuse else ("unfused",)),
        *(() if a.margin else ("no margin",)),
        *(("columns",) if a.columns else ()),
    )
    options = repr((a.strategy, a.units, a.seed, a.pins, a.blocks, a.ii, *unusual))
    parts = (canonical_shape(graph), machine_digest, options, EMITTER_VERSION)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
