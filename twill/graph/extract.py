"""Kernel file -> tile program and dependence graph: the entry of this room.

`kernel.py::name` and a specialization -> Triton's IR -> tile program -> tile accesses -> graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from twill.graph.build import dependence_graph
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.odd_sizes import tile_program
from twill.tile.program import TileProgram
from twill.tile.rewrite.pipeline import EVERYTHING, Allowed, in_parts, rewrite


def extract(
    target: str,
    spec: str | None = None,
    sig: Sequence[str] = (),
    const: Sequence[str] = (),
    *,
    allowed: Allowed = EVERYTHING,
    strict: bool = False,
) -> tuple[TileProgram, DependenceGraph]:
    """The tile program (with tile accesses) and the dependence graph of `FILE[::KERNEL]`.

    spec: a specialization of the sidecar. sig, const: ARG=TYPE and NAME=VALUE, over the sidecar's.
    allowed: rewrites of the tile program. strict: see `resolve`.
    Raises the errors of `twill.exc` that name the kernel file. Importing the file is all that is
    done with it; nothing is launched.
    """
    specialization = resolve(target, spec=spec, sig=sig, const=const, strict=strict)
    rewritten = rewrite(resolve_accesses(tile_program(specialization)), in_parts(allowed, specialization))
    return rewritten, dependence_graph(rewritten)
