"""Scales of blocks in tensor memory, which multiplies of kinds mxf8f6f4, mxf4 and mxf4nvf4 read with their operands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from twill.codegen.verify.ptx.accesses import noted
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.tcgen05_memory import Cells, TensorMemory
from twill.codegen.verify.ptx.threads import Array, Cta, Gang
from twill.codegen.verify.ptx.units.block_scales import COUNTS, factors, places, scaled
from twill.codegen.verify.ptx.units.tcgen05_descriptors import SCALED, InstructionDescriptor
from twill.ptx.program import InstructionPlace, PtxInstruction
from twill.ptx.registers import unsupported

_SIZES = {"block16": 16, "block32": 32}
_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
Scaling = Callable[[Array, Array], tuple[Array, Array]]


@dataclass(frozen=True)
class TensorIssuer:
    """Who issues a multiply or a copy into tensor memory. agent, epoch: of its multiplies, among the clocks."""

    gang: Gang
    warp: int
    agent: int
    epoch: int
    place: InstructionPlace

    def reads(self, memory: TensorMemory, cells: Cells) -> None:
        """Cells are read, until the agent's epoch is over."""
        noted(self.gang, memory.order.read(cells, memory.order.known(self.warp, self.agent)), self.place)
        memory.order.was_read(cells, self.agent, self.epoch)

    def writes(self, memory: TensorMemory, cells: Cells) -> None:
        """Cells are overwritten by the agent's epoch."""
        noted(self.gang, memory.order.overwrite(cells, memory.order.known(self.warp, self.agent)), self.place)
        memory.order.wrote(cells, self.agent, self.epoch)


def scales_of_a_row(instruction: PtxInstruction, kind: str) -> int:
    """How many a row of an operand has in one product; 0: a product without. Errors: UnsupportedPtx."""
    modifiers = instruction.modifiers
    if (kind in SCALED) != ("block_scale" in modifiers):
        raise unsupported(instruction)
    if kind not in SCALED:
        return 0
    found = [COUNTS.get((kind, _SIZES[m]), 0) for m in modifiers if m in _SIZES]
    found += [_VECTORS[m] for m in modifiers if m in _VECTORS]
    count = found[0] if found else 1 if kind == "mxf8f6f4" else 2 if kind == "mxf4" else 0
    if count not in {have for (one, _), have in COUNTS.items() if one == kind}:
        raise unsupported(instruction)
    return count


def scaling(
    cta: Cta, by: TensorIssuer, does: InstructionDescriptor, addresses: tuple[int, ...], count: int, m: int
) -> Scaling:
    """What applies the scales in one CTA's tensor memory to its m rows of A, and to all rows of B. Stopped: bounds."""
    if not count:
        return lambda a, b: (a, b)
    if does.scale == "ue4m3" and count != max(COUNTS.values()):
        raise Stopped("form", f"{count} scales of type ue4m3 of a row")
    memory = cta.tensor
    assert memory is not None
    reading = []
    for address, rows, first in zip(addresses, (m, does.n), does.scale_ids, strict=True):
        lanes, columns = places(rows)
        lane, wanted = memory.place(address, columns)
        if lane:
            raise Stopped("form", f"scales from lane {lane} of tensor memory on")
        by.reads(memory, Cells.of(lanes, wanted))
        reading.append((lanes, wanted, first))

    def apply(a: Array, b: Array) -> tuple[Array, Array]:
        made = []
        for operand, (lanes, columns, first) in zip((a, b), reading, strict=True):
            try:
                values = factors(memory.cells[lanes, columns], does.scale, first, count)
            except ValueError as error:
                by.gang.cta.world.findings.add("form", str(error), by.place)
                values = np.full((len(operand), count), np.nan)
            made.append(scaled(operand, values))
        return made[0], made[1]

    return apply
