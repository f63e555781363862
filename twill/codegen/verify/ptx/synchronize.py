"""Steps that others may wait for: mbarrier operations, fences, and instructions that do nothing here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, into_space, noted, shared_place, space_of
from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.order import Snapshot
from twill.codegen.verify.ptx.threads import WARP, Array, Cta, Gang
from twill.ptx.arrays import every, some
from twill.ptx.program import AddressOperand, Immediate, Nothing, PtxInstruction
from twill.ptx.registers import Fetch, Operands, constant, unsupported

ONE = np.zeros(1, np.int64)
NOTHING = {"prefetch", "prefetchu", "applypriority", "discard", "griddepcontrol", "membar", "pmevent", "nanosleep"}
"""Hints, and what only times or orders single accesses."""


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one of these; None if it is none."""
    if instruction.name in NOTHING:
        return lambda g: None
    if instruction.name == "fence":
        return _fence(instruction)
    if instruction.name == "createpolicy":
        put = operands.put(instruction, instruction.operands[0], "b64")
        return lambda g: put(g, constant(0, np.uint64))
    if instruction.name == "mbarrier":
        return _mbarrier(operands, instruction)
    return None


def _fence(instruction: PtxInstruction) -> Step:
    modifiers = instruction.modifiers
    asynchronous = any(m.startswith("async") for m in modifiers) and "proxy" in modifiers
    over_shared = not any(m in ("global", "async::generic") for m in modifiers)
    if not (asynchronous and over_shared):
        return lambda g: None

    def step(g: Gang) -> None:
        running = g.running()
        for warp in g.warps_of(running):
            g.cta.world.clocks.fence(warp, g.lanes_of(warp, running))

    return step


def barriers_of(g: Gang, operand: Array, lanes: Array, space: str) -> list[tuple[Cta, int]]:
    """The CTA and offset of each lane's address of an mbarrier."""
    given = g.of_lanes(operand, lanes)
    _, given = ("shared", given) if space else into_space(given)
    if len(operand) == 1 or every(given == given[0]):
        cta, offsets = shared_place(g, given[:1], 8)
        return [(cta, int(offsets[0]))] * len(lanes)
    found = []
    for i in range(len(lanes)):
        cta, offsets = shared_place(g, given[i : i + 1], 8)
        found.append((cta, int(offsets[0])))
    return found


def first_of_each(g: Gang, lanes: Array, *values: Array) -> tuple[Array, Array]:
    """The first lane of each warp, or where these values differ, the first one with each combination of them; and of
    every lane, which of those has its warp and values."""
    if len(lanes) == 1:
        return lanes, ONE
    varying = (g.of_lanes(value, lanes) for value in values if len(value) > 1)
    differing = [value for value in varying if some(value != value[0])]
    warps = g.warps[lanes]
    if not differing:
        first = np.ones(len(lanes), bool)
        np.not_equal(warps[1:], warps[:-1], out=first[1:])
        return lanes[first], first.cumsum() - 1
    every = [*zip(warps.tolist(), *(value.tolist() for value in differing), strict=True)]
    distinct = {key: number for number, key in enumerate(dict.fromkeys(every))}
    like = np.array([distinct[key] for key in every])
    return lanes[np.unique(like, return_index=True)[1]], like


def _mbarrier(operands: Operands, instruction: PtxInstruction) -> Step:
    kind = instruction.modifiers[0]
    maker = _KINDS.get(kind)
    if maker is None:
        raise unsupported(instruction)
    return maker(operands, instruction)


def _init(operands: Operands, instruction: PtxInstruction) -> Step:
    address = address_of(operands, instruction, instruction.operands[0])
    count = operands.fetch(instruction, instruction.operands[1], "u32")
    place, space = instruction.place, space_of(instruction)

    def step(g: Gang) -> None:
        lanes = g.lanes()
        counts = g.of_lanes(count(g), lanes)
        for lane, number, (cta, offset) in zip(
            lanes.tolist(), counts.tolist(), barriers_of(g, address(g), lanes, space), strict=True
        ):
            at = np.arange(offset, offset + 8)[None]
            noted(g, cta.shadow.write(at, g.warps[lane : lane + 1], np.array([lane % WARP])), place)
            cta.shadow.clocks.unfenced[g.warps[lane], lane % WARP] = False  # no operand of an asynchronous read
            cta.barriers.init(offset, number, int(g.warps[lane]))
        g.cta.world.progress += 1

    return step


def _invalidate(operands: Operands, instruction: PtxInstruction) -> Step:
    address, space = address_of(operands, instruction, instruction.operands[0]), space_of(instruction)

    def step(g: Gang) -> None:
        for cta, offset in barriers_of(g, address(g), g.lanes(), space):
            cta.barriers.invalidate(offset)

    return step


def _arrive(operands: Operands, instruction: PtxInstruction) -> Step:
    """With `.expect_tx` the last operand is bytes, and the arrival is one."""
    modifiers = instruction.modifiers
    if "noComplete" in modifiers or instruction.modifiers[0] == "arrive_drop":
        raise unsupported(instruction)
    given = instruction.operands
    state = None if isinstance(given[0], AddressOperand) else given[0]
    at, *rest = given if state is None else given[1:]
    address, space = address_of(operands, instruction, at), space_of(instruction)
    expects = "expect_tx" in modifiers
    number: Fetch = operands.fetch(instruction, rest[0] if rest else Immediate(1), "u32")
    put = operands.put(instruction, state or Nothing(), "b64")

    def step(g: Gang) -> None:
        lanes = g.lanes()
        numbers = g.of_lanes(number(g), lanes).tolist()
        clocks = g.cta.world.clocks
        running = g.running()
        snapshots = {warp: clocks.release(warp, g.lanes_of(warp, running)) for warp in g.warps_of(running)}
        phases = np.zeros(g.size, np.uint64)
        where = barriers_of(g, address(g), lanes, space)
        if not expects and len(set(numbers)) == 1 and _arrive_at_once(g, lanes, numbers, where, snapshots, phases):
            put(g, phases)
            g.cta.world.progress += 1
            return
        for lane, value, (cta, offset) in zip(lanes.tolist(), numbers, where, strict=True):
            warp = int(g.warps[lane])
            barrier = cta.barriers.at(offset, warp)
            phases[lane] = barrier.phase
            if expects:
                barrier.expect(value)
            barrier.arrive(1 if expects else value, snapshots[warp])
        put(g, phases)
        g.cta.world.progress += 1

    return step


def _arrive_at_once(
    g: Gang, lanes: Array, numbers: list[int], where: list[tuple[Cta, int]], snapshots: dict[int, Snapshot],
    phases: Array,
) -> bool:  # fmt: skip
    """Warp by warp at one barrier, whose phase the last lane completes at the earliest; False if it is not so."""
    cta, offset = where[0]
    known = cta.barriers.objects.get(offset)
    if any(one is not where[0] for one in where) or known is None or known.pending < sum(numbers):
        return False
    warps, counts = np.unique(g.warps[lanes], return_counts=True)
    barriers = [cta.barriers.at(offset, warp) for warp in warps.tolist()]
    phases[lanes] = known.phase
    for warp, count, barrier in zip(warps.tolist(), counts.tolist(), barriers, strict=True):
        barrier.arrive(count * numbers[0], snapshots[warp])
    return True


def _bytes(operands: Operands, instruction: PtxInstruction) -> Step:
    """`expect_tx` and `complete_tx` without an arrival."""
    address, space = address_of(operands, instruction, instruction.operands[0]), space_of(instruction)
    number = operands.fetch(instruction, instruction.operands[1], "u32")
    expects = instruction.modifiers[0] == "expect_tx"

    def step(g: Gang) -> None:
        lanes = g.lanes()
        numbers = g.of_lanes(number(g), lanes).tolist()
        for lane, value, (cta, offset) in zip(
            lanes.tolist(), numbers, barriers_of(g, address(g), lanes, space), strict=True
        ):
            barrier = cta.barriers.at(offset, int(g.warps[lane]))
            if expects:
                barrier.expect(value)
            else:
                barrier.land(value, g.cta.world.clocks)
        g.cta.world.progress += 1

    return step


_KINDS: dict[str, Callable[[Operands, PtxInstruction], Step]] = {
    "init": _init, "inval": _invalidate, "arrive": _arrive, "expect_tx": _bytes, "complete_tx": _bytes,
}  # fmt: skip
