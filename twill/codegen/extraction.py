"""Kernel file -> what is solved and lowered: read, rewritten, with its dependence graph.

Nothing of lowering is imported here: a solve may begin while the rest of the emitter is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twill.codegen.emittable import refuse_unemittable
from twill.codegen.targets.programs import program_on
from twill.graph.build import Wired, wire
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import Specialization, resolve
from twill.kernel.ttir import generic
from twill.machine.description import Machine
from twill.tile.access.resolve import resolve_accesses
from twill.tile.access.scalar_indices import index_by_scalars
from twill.tile.odd_sizes import Known, tile_program
from twill.tile.program import TileProgram
from twill.tile.rewrite.conditional_rescale import RescaleReport, rescaling
from twill.tile.rewrite.pipeline import EVERYTHING, EXTRACTED, Allowed, in_parts, rewrite
from twill.tile.translate.translate import from_mlir

if TYPE_CHECKING:
    from twill.codegen.lower.dynamic_scheduler import Order


@dataclass(frozen=True)
class Extracted:
    """A kernel as far as no machine matters. wired: its program behind the last rewrite, with the dependence graph that
    is solved, scheduled and lowered. behind: the program as it was written ("extracted") and behind each rewrite,
    by name. order: in which its program instances are to be worked on. allowed: what the rewrites were allowed."""

    specialization: Specialization
    wired: Wired
    behind: Mapping[str, TileProgram]
    order: Order = "chosen"
    allowed: Allowed = EVERYTHING

    @property
    def program(self) -> TileProgram:
        """The tile program that is lowered."""
        return self.wired.program

    @property
    def graph(self) -> DependenceGraph:
        """Its dependence graph."""
        return self.wired.graph

    @property
    def rescale_report(self) -> RescaleReport:
        """What conditional rescaling made of the running maxima of the kernel."""
        before, after = self.behind["vector-sides"], self.behind["conditional-rescale"]
        return RescaleReport(before) if after is before else rescaling(before)

    def on(self, machine: Machine, integers: bool = True) -> Extracted:
        """The kernel as the machine's target takes it (`twill.codegen.targets.programs`). integers: whether what is
        printed has products of int8."""
        made = program_on(self.program, machine, integers)
        return self if made is self.program else replace(self, wired=wire(made))

    def as_written(self) -> Extracted | None:
        """The kernel with its products as it has them; None if none was transposed."""
        if self.behind["computed-operands"] is self.behind["mma-precision"]:
            return None
        allowed = replace(self.allowed, transposed=False)
        return replace(_extracted(self.specialization, self.behind[EXTRACTED], allowed), order=self.order)


def extract(
    target: str,
    spec: str | None = None,
    sig: Sequence[str] = (),
    const: Sequence[str] = (),
    allowed: Allowed = EVERYTHING,
    order: Order = "chosen",
    strict: bool = False,
    fp_fusion: bool = True,
    split: int | None = None,
    known: Known | None = None,
    processes: int = 1,
) -> Extracted:
    """`FILE[::KERNEL]` and its specialization, as for `twill.graph.extract`, with all that emission needs.

    allowed: rewrites of the tile program. order: see `twill.codegen.lower.dynamic_scheduler`. strict: whether every
    number is rounded where and as the kernel says (`twill.codegen.numerics`). fp_fusion: false turns it off whatever
    the specialization says. split: into how many parts K is split (None: as the specialization says).
    known: programs that were read before (`twill.tile.odd_sizes`). processes: that may work at it.
    """
    specialization = resolve(target, spec=spec, sig=sig, const=const, strict=strict)
    specialization = replace(specialization, fp_fusion=specialization.fp_fusion and fp_fusion)
    program = resolve_accesses(tile_program(specialization, known, processes))
    return replace(_extracted(specialization, program, in_parts(allowed, specialization, split)), order=order)


def extract_module(module: str, specialization: Specialization, allowed: Allowed = EVERYTHING) -> Extracted:
    """The same, from Triton's module of the specialization, as Triton keeps it with a compiled kernel."""
    program = resolve_accesses(from_mlir(generic(module), specialization))
    return _extracted(specialization, program, allowed)


def _extracted(specialization: Specialization, program: TileProgram, allowed: Allowed) -> Extracted:
    program = index_by_scalars(program)
    refuse_unemittable(program)
    behind: dict[str, TileProgram] = {}
    return Extracted(specialization, wire(rewrite(program, allowed, behind.__setitem__)), behind, allowed=allowed)
