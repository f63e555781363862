"""Asynchronous copies by threads, of 4 to 16 bytes: PTX ISA, "cp.async". They do their work when it is waited for."""

from __future__ import annotations

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, noted, shared_place
from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.copies import Thread, commit
from twill.codegen.verify.ptx.threads import WARP, Gang
from twill.ptx.program import Immediate, PtxInstruction
from twill.ptx.registers import Operands, unsupported


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of a copy by threads, of its commit, or of a wait for one; None if it is none."""
    by_threads = instruction.name == "cp" and "bulk" not in instruction.modifiers
    return _small(operands, instruction) if by_threads and instruction.modifiers[:1] != ("reduce",) else None


def _small(operands: Operands, instruction: PtxInstruction) -> Step:
    modifiers = instruction.modifiers
    if "commit_group" in modifiers:
        return lambda g: commit(g, g.cta.copies.small)
    if "wait_group" in modifiers or "wait_all" in modifiers:
        count = instruction.operands[0] if instruction.operands else Immediate(0)
        if not isinstance(count, Immediate):
            raise unsupported(instruction)
        every, left = "wait_all" in modifiers, count.value
        return lambda g: _wait_small(g, left, every)
    if "mbarrier" in modifiers:
        raise unsupported(instruction)
    target, source, count, *rest = instruction.operands
    if not isinstance(count, Immediate):
        raise unsupported(instruction)
    to, come = (address_of(operands, instruction, operand) for operand in (target, source))
    given = operands.fetch(instruction, rest[0], "u32") if rest and "L2::cache_hint" not in modifiers else None
    size, place = count.value, instruction.place

    def step(g: Gang) -> None:
        lanes = g.lanes()
        cta, offsets = shared_place(g, g.of_lanes(to(g), lanes), size)
        noted(g, cta.shadow.write(offsets[:, None] + np.arange(size), g.warps[lanes], lanes % WARP), place)
        sources = g.of_lanes(come(g), lanes)
        present = g.of_lanes(given(g), lanes) if given is not None else np.full(len(lanes), size)
        for lane, offset, start, bytes in zip(
            lanes.tolist(), offsets.tolist(), sources.tolist(), present.tolist(), strict=True
        ):
            mine = g.cta.copies.small.setdefault(g.first + lane, Thread())
            mine.open.append((cta, offset, start, min(bytes, size), size))

    return step


def _wait_small(g: Gang, left: int, every: bool) -> None:
    for thread in (g.first + g.lanes()).tolist():
        mine = g.cta.copies.small.get(thread)
        if mine is None:
            continue
        if every:
            mine.groups.append(mine.open)
            mine.open = []
        while len(mine.groups) > (0 if every else left):
            for cta, offset, start, bytes, size in mine.groups.pop(0):
                cta.shared[offset : offset + size] = 0
                if bytes:
                    cta.shared[offset : offset + bytes] = g.cta.world.memory.read_rows(np.array([start]), bytes)[0]
