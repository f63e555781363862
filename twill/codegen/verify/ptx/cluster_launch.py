"""Cluster launch control: a cluster takes over the place of one in the grid that has not started.

PTX ISA, "clusterlaunchcontrol.try_cancel" and "clusterlaunchcontrol.query_cancel". Which cluster is cancelled, and
whether one is, the hardware decides; a launch says what it answers (`PtxLaunch.answers`). The answer arrives as a copy
into shared memory does, of 16 bytes that only `query_cancel` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of
from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.copies import begin_load, shared_of
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.threads import Array, Cta, Gang, Index, World
from twill.ptx.arrays import every
from twill.ptx.program import Nothing, Operand, PtxInstruction, Vector
from twill.ptx.registers import TYPES, Operands, unsupported

SIZE = 16  # bytes of an answer
_DIMENSIONS = {"get_first_ctaid::x": 0, "get_first_ctaid::y": 1, "get_first_ctaid::z": 2}
_CANCELED = 1  # the last word of an answer; the others are the index


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one of these; None if it is none."""
    if instruction.name != "clusterlaunchcontrol":
        return None
    if instruction.modifiers[0] == "try_cancel":
        return _ask(operands, instruction)
    what = instruction.modifiers[1]
    if what == "is_canceled":
        return _is_canceled(operands, instruction)
    return _first_cta(operands, instruction)


def _ask(operands: Operands, instruction: PtxInstruction) -> Step:
    to, at = (address_of(operands, instruction, operand) for operand in instruction.operands)
    everywhere = "multicast::cluster::all" in instruction.modifiers
    place = instruction.place

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            target, signal = (int(given[0] if len(given) == 1 else given[lane]) for given in (to(g), at(g)))
            (cta, address), (told, barrier) = shared_of(g, target), shared_of(g, signal)
            if address % SIZE:
                raise Stopped("alignment", f"an answer at {address:#x}, no multiple of {SIZE}")
            world = g.cta.world
            if world.refused:
                raise Stopped("cluster-launch", "another request behind an answer that no cluster was cancelled")
            ended = [one.rank for one in world.ctas if not any(gang.strands for gang in one.gangs)]
            if everywhere and ended:
                raise Stopped("cluster-launch", f"an answer to all of a cluster of which CTA {ended[0]} has ended")
            answer = _answer(world)
            for one, home in [(other, other) for other in world.ctas] if everywhere else [(cta, told)]:
                begin_load(g, lane, one, address, home, barrier, SIZE, SIZE, place, _landing(one, address, answer))

    return step


def _answer(world: World) -> Index | None:
    """Of the next request: the index of a cluster that now will not start, or None."""
    said = world.answers.pop(0) if world.answers else 0
    return world.pending.pop(said % len(world.pending))[0] if world.pending and said >= 0 else None


def _landing(cta: Cta, address: int, answer: Index | None) -> Callable[[], None]:
    words = (0, 0, 0, 0) if answer is None else (*answer, _CANCELED)

    def write() -> None:
        cta.world.refused |= answer is None
        cta.shared[address : address + SIZE] = np.array(words, np.uint32).view(np.uint8)

    return write


def _words(operands: Operands, instruction: PtxInstruction) -> Callable[[Gang], Array]:
    """An answer in a register as uint32 [lanes, 4]."""
    fetch = operands.fetch(instruction, instruction.operands[1], "b128")
    return lambda g: np.ascontiguousarray(fetch(g)).view(np.uint32).reshape(-1, 4)


def _is_canceled(operands: Operands, instruction: PtxInstruction) -> Step:
    words, put = _words(operands, instruction), operands.put(instruction, instruction.operands[0], "pred")
    return lambda g: put(g, words(g)[:, 3] == _CANCELED)


def _first_cta(operands: Operands, instruction: PtxInstruction) -> Step:
    words, target = _words(operands, instruction), instruction.operands[0]
    what, place = instruction.modifiers[1], instruction.place
    if what in _DIMENSIONS:
        wanted: Sequence[tuple[int, Operand]] = [(_DIMENSIONS[what], target)]
    elif what == "get_first_ctaid" and isinstance(target, Vector):
        wanted = [(number, part) for number, part in enumerate(target.parts) if not isinstance(part, Nothing)]
    else:
        raise unsupported(instruction)
    puts = [(number, operands.put(instruction, part, "b32")) for number, part in wanted]

    def step(g: Gang) -> None:
        given = words(g)
        canceled = given[:, 3] == _CANCELED
        if not every(g.of_lanes(canceled, g.lanes())):
            said = "the index in an answer that no cluster was cancelled is not defined"
            g.cta.world.findings.add("cluster-launch", said, place, g.who())
        for number, put in puts:
            put(g, np.where(canceled, given[:, min(number, 2)], np.uint32(0xFFFFFFFF)).astype(TYPES["b32"]))

    return step
