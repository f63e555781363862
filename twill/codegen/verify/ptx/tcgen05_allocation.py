"""`tcgen05.alloc`, `.dealloc` and `.relinquish_alloc_permit`, by whole warps; fences; what is left at the end."""

from __future__ import annotations

import numpy as np

from twill.codegen.verify.ptx import tcgen05_copies, tcgen05_multiplies, tcgen05_registers
from twill.codegen.verify.ptx.accesses import (
    address_of,
    into_space,
    noted,
    other_cta,
    shared_place,
    space_of,
)
from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.findings import PtxFindings, Stopped
from twill.codegen.verify.ptx.tcgen05_multiplies import PAIR, group_of
from twill.codegen.verify.ptx.tcgen05_registers import memory_of
from twill.codegen.verify.ptx.threads import WARP, Array, Gang, World
from twill.ptx.arrays import some
from twill.ptx.program import PtxInstruction
from twill.ptx.registers import Operands

ALIGNED = ("alloc", "dealloc", "relinquish_alloc_permit", "ld", "st", "wait::ld", "wait::st")
"""What whole warps execute."""


def is_aligned(instruction: PtxInstruction) -> bool:
    """Whether a warp's lanes execute a `tcgen05` instruction together."""
    return instruction.modifiers[0] in ALIGNED


def build_aligned(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one that warps execute together."""
    kind = instruction.modifiers[0]
    if kind == "alloc":
        return _allocate(operands, instruction)
    if kind == "dealloc":
        return _free(operands, instruction)
    if kind == "relinquish_alloc_permit":
        group_of(instruction)
        return _relinquish
    return tcgen05_registers.build(operands, instruction)


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one that threads execute on their own; None if it is no `tcgen05`."""
    if instruction.name != "tcgen05":
        return None
    if instruction.modifiers[0].startswith("fence::"):
        return _fence(instruction)
    if instruction.modifiers[0] == "cp":
        return tcgen05_copies.build(operands, instruction)
    return tcgen05_multiplies.build(operands, instruction)


def _fence(instruction: PtxInstruction) -> Step:
    before = instruction.modifiers[0] == "fence::before_thread_sync"

    def step(g: Gang) -> None:
        clocks = g.cta.world.clocks
        for warp in g.warps_of(g.running()):
            (clocks.before_thread_sync if before else clocks.after_thread_sync)(warp)

    return step


def _relinquish(g: Gang) -> None:
    memory_of(g).permit = False


def _allocate(operands: Operands, instruction: PtxInstruction) -> Step:
    at, count = instruction.operands
    address, space = address_of(operands, instruction, at), space_of(instruction)
    columns = operands.fetch(instruction, count, "u32")
    group, place = group_of(instruction), instruction.place

    def step(g: Gang) -> None:
        warp = _alone(g)
        if group == PAIR:
            _check_started(g, warp)
        given = g.of_lanes(address(g), g.lanes())[:1].astype(np.uint64)
        cta, offsets = shared_place(g, given if space else into_space(given)[1], 4)
        made = memory_of(g).allocate(int(g.of_lanes(columns(g), g.lanes())[0]))
        offset = int(offsets[0])
        noted(g, cta.shadow.write(np.arange(offset, offset + 4)[None], np.array([warp]), np.array([0])), place)
        cta.shared[offset : offset + 4] = np.array([made], np.uint32).view(np.uint8)
        g.cta.world.progress += 1

    return step


def _check_started(g: Gang, warp: int) -> None:
    """An allocation by a pair needs both: Stopped: the warp does not know that the other CTA has started."""
    other = other_cta(g, g.cta.rank ^ 1)
    warps = slice(other.warp, other.warp + -(-other.threads // WARP))
    if not some(g.cta.world.clocks.known[warp, warps]):
        raise Stopped("tensor-memory", f"a pair allocates, and nothing says that CTA {other.index[0]} has started")


def _free(operands: Operands, instruction: PtxInstruction) -> Step:
    address = operands.fetch(instruction, instruction.operands[0], "u32")
    columns = operands.fetch(instruction, instruction.operands[1], "u32")
    group_of(instruction)
    place = instruction.place

    def step(g: Gang) -> None:
        warp = _alone(g)
        memory = memory_of(g)
        values: tuple[Array, Array] = (address(g), columns(g))
        start, count = (int(g.of_lanes(value, g.lanes())[0]) for value in values)
        cells = memory.free(start, count)
        said = memory.order.overwrite(cells, memory.order.known(warp))
        noted(g, "" if said.startswith("tcgen05-fence") else said, place)  # no asynchronous operation follows

    return step


def _alone(g: Gang) -> int:
    """The one warp that runs. Stopped: several."""
    warps = g.warps_of(g.running())
    if len(warps) != 1:
        raise Stopped("tensor-memory", f"{len(warps)} warps execute what one does for the CTA")
    return warps[0]


def check_end(world: World, findings: PtxFindings) -> None:
    """What should have happened before the CTAs ended."""
    for place in tcgen05_multiplies.leftovers(world):
        findings.add("leftover", "nobody waits for a multiply", place)
    for cta in world.ctas:
        if cta.tensor is not None and cta.tensor.allocated:
            last = cta.gangs[0].code.function.instructions[-1].place
            findings.add(
                "tensor-memory", f"CTA {cta.index[0]} ends with columns {cta.tensor.allocated} allocated", last
            )
