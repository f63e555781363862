"""Tensor maps that a kernel makes in global memory: PTX ISA, "tensormap.replace", "fence" (.proxy.tensormap).

The TMA sees a map as it was when the thread that issues the copy acquired it, and what a thread wrote is there to be
acquired once it has released it. A map must not be written while copies through it are on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, noted, shared_place, written
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.units.tensor_map import TensorMapModel
from twill.codegen.verify.ptx.units.tensor_map_bytes import SIZE, decoded, replace
from twill.ptx.program import Immediate, InstructionPlace, PtxInstruction
from twill.ptx.registers import Operands, unsupported

if TYPE_CHECKING:
    from twill.codegen.verify.ptx.code import Step
    from twill.codegen.verify.ptx.threads import Gang

Array = Any  # np.ndarray


@dataclass
class AcquiredMaps:
    """Those of the CTAs that run. written: (first byte, end) that a thread wrote to global memory and has not released,
    by thread. acquired: what the map at an address was when a thread acquired it, by thread and address."""

    written: dict[tuple[int, int], list[tuple[int, int]]] = field(default_factory=dict)
    acquired: dict[tuple[int, int, int], Array] = field(default_factory=dict)

    def store(self, g: Gang, addresses: Array, size: int, lanes: Array, place: InstructionPlace) -> None:
        """Threads write to global memory."""
        through = set().union(*(cta.copies.through() for cta in g.cta.world.ctas))
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            self.written.setdefault(_thread(g, lane), []).append((address, address + size))
            for used in through:
                if used < address + size and address < used + SIZE:
                    noted(g, f"tensor-map:the tensor map at {used:#x} is written while a copy through it may be on "
                             "its way", place)  # fmt: skip

    def release(self, g: Gang) -> None:
        """What threads wrote so far can be acquired."""
        for lane in g.lanes().tolist():
            self.written.pop(_thread(g, lane), None)

    def acquire(self, g: Gang, addresses: Array, place: InstructionPlace) -> None:
        """The copies that these threads issue see the maps as they are now."""
        for lane, address in zip(g.lanes().tolist(), addresses.tolist(), strict=True):
            for spans in self.written.values():
                if any(first < address + SIZE and address < end for first, end in spans):
                    noted(g, f"tensor-map:the tensor map at {address:#x} is acquired, and what was written of it is "
                             "not released", place)  # fmt: skip
            self.acquired[(*_thread(g, lane), address)] = self.now(g, address).copy()

    def now(self, g: Gang, address: int) -> Array:
        """The bytes of a map."""
        bytes_now: Array = g.cta.world.memory.read_rows(np.array([address], np.uint64), SIZE)[0]
        return bytes_now

    def seen(self, g: Gang, lane: int, address: int) -> TensorMapModel:
        """The map that a copy goes through. Stopped: it was not acquired as it is."""
        known = self.acquired.get((*_thread(g, lane), address))
        if known is None or not np.array_equal(known, self.now(g, address)):
            raise Stopped("tensor-map", f"the tensor map at {address:#x} was not acquired since it was written")
        return decoded(known)


def _thread(g: Gang, lane: int) -> tuple[int, int]:
    return g.cta.rank, g.first + lane


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of a replacement of a field in shared memory, or of a fence; None if it is neither."""
    if instruction.name == "fence" and "tensormap::generic" in instruction.modifiers:
        return _fence(operands, instruction)
    if instruction.name != "tensormap":
        return None
    if instruction.modifiers[:1] != ("replace",) or "shared::cta" not in instruction.modifiers:
        raise unsupported(instruction)
    return _replace(operands, instruction)


def _fence(operands: Operands, instruction: PtxInstruction) -> Step:
    if "release" in instruction.modifiers:
        return lambda g: _own(g).release(g)
    address, size = instruction.operands
    if not isinstance(size, Immediate) or size.value != SIZE:
        raise unsupported(instruction)
    fetch, place = address_of(operands, instruction, address), instruction.place
    return lambda g: _own(g).acquire(g, g.of_lanes(fetch(g), g.lanes()), place)


def _own(g: Gang) -> AcquiredMaps:
    if g.cta.world.made_maps is None:  # a map that somebody else made
        g.cta.world.made_maps = AcquiredMaps()
    return g.cta.world.made_maps


def _replace(operands: Operands, instruction: PtxInstruction) -> Step:
    at, *ordinals, value = instruction.operands
    ordinal, name, place = 0, instruction.modifiers[2], instruction.place
    if ordinals:
        if not isinstance(ordinals[0], Immediate):
            raise unsupported(instruction)
        ordinal = ordinals[0].value
    address = address_of(operands, instruction, at)
    fetch: Callable[[Gang], Array] = operands.fetch(instruction, value, instruction.modifiers[-1])

    def step(g: Gang) -> None:
        lanes = g.lanes()
        given, values = g.of_lanes(address(g), lanes), g.of_lanes(fetch(g), lanes)
        for number, lane in enumerate(lanes.tolist()):
            cta, offsets = shared_place(g, given[number : number + 1], SIZE)
            whole = offsets[:, None] + np.arange(SIZE)
            written(g, cta, whole, np.array([lane]), place)
            start = int(offsets[0])
            replace(cta.shared[start : start + SIZE], name, ordinal, int(values[number]))
        g.cta.world.progress += 1

    return step
