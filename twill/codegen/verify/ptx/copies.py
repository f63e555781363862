"""Asynchronous copies by the TMA: loads and stores. They do their work as late as somebody's wait allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, into_space, noted, shared_place
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.memory import FIRST, PARAMETERS, SHARED
from twill.codegen.verify.ptx.threads import WARP, Array, Cta, Gang, World
from twill.codegen.verify.ptx.units import tensor_map
from twill.codegen.verify.ptx.units.tensor_map import TensorMapModel
from twill.ptx.program import AddressOperand, Immediate, InstructionPlace, PtxInstruction
from twill.ptx.registers import Fetch, Operands, unsupported

if TYPE_CHECKING:
    from twill.codegen.verify.ptx.barriers import MBarrier
    from twill.codegen.verify.ptx.code import Step

_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


@dataclass
class Load:
    """A copy into shared memory that completes on an mbarrier. write: puts the bytes there. through: address of
    the tensor map, if it is one that the kernel makes. foreign: the mbarrier is of another CTA than who began it."""

    barrier: MBarrier
    size: int
    write: Callable[[], None]
    place: InstructionPlace
    through: int = 0
    foreign: bool = False


@dataclass
class Store:
    """A copy out of shared memory. read: takes the bytes, and returns what puts them into global memory. through: as of
    a load."""

    read: Callable[[], Callable[[], None]]
    at: slice
    cta: Cta
    place: InstructionPlace
    through: int = 0
    write: Callable[[], None] | None = None


@dataclass
class Thread:
    """Copies of one thread in groups. open: since its last commit."""

    open: list[Any] = field(default_factory=list)
    groups: list[list[Any]] = field(default_factory=list)


@dataclass
class Copies:
    """Those of one CTA. loads: in flight, in order. stores, small: groups of bulk stores, of `cp.async`, by thread."""

    loads: list[Load] = field(default_factory=list)
    stores: dict[int, Thread] = field(default_factory=dict)
    small: dict[int, Thread] = field(default_factory=dict)

    def land(self, load: Load, world: World) -> None:
        """A load is over."""
        self.loads.remove(load)
        load.write()
        if load.foreign:
            load.barrier.arrives_from_afar()
        load.barrier.land(load.size, world.clocks)
        world.progress += 1

    def read_stores(self, thread: int, warp: int, left: int) -> None:
        """All but the last `left` groups of a thread have read shared memory."""
        groups = self.stores[thread].groups if thread in self.stores else []
        for group in groups[: len(groups) - left if left else None]:
            for store in group:
                _take(store, warp)

    def finish_stores(self, thread: int, warp: int, left: int) -> None:
        """All but the last `left` groups of a thread are over."""
        groups = self.stores[thread].groups if thread in self.stores else []
        while len(groups) > left:
            for store in groups.pop(0):
                _take(store, warp)
                store.write()

    def through(self) -> set[int]:
        """Tensor maps that kernels make, through which copies are on their way."""
        stores = (store for mine in self.stores.values() for group in (*mine.groups, mine.open) for store in group)
        return {copy.through for copy in (*self.loads, *stores) if copy.through}

    def leave(self, g: Gang, lanes: Array) -> None:
        """Threads end: what is in flight completes."""
        for thread in (g.first + np.flatnonzero(lanes)).tolist():
            mine = self.stores.get(thread)
            if mine is None:
                continue
            mine.groups.append(mine.open)
            mine.open = []
            for group in mine.groups:
                for store in group:
                    if store.write is None:
                        message = "a thread ends before its bulk stores are known to have read shared memory"
                        g.cta.world.findings.add("bulk-wait", message, store.place, f"thread {thread}")
            self.finish_stores(thread, int(g.warps[thread - g.first]), 0)


def _take(store: Store, warp: int) -> None:
    if store.write is None:
        store.write = store.read()
        store.cta.shadow.end(store.at, [warp])


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of a copy, of its commit, or of a wait for one (which never has to wait here); None if it is none."""
    if instruction.name != "cp":
        return None
    bulk = "bulk" in instruction.modifiers or instruction.modifiers[:1] == ("reduce",)
    return _copy(operands, instruction) if bulk else None


def _copy(operands: Operands, instruction: PtxInstruction) -> Step:
    modifiers = instruction.modifiers
    if modifiers[:1] == ("reduce",):
        if "tensor" not in modifiers:
            raise unsupported(instruction)
        return _tensor_store(operands, instruction, next(m for m in modifiers if m in _REDUCTIONS))
    if "commit_group" in modifiers:
        return lambda g: commit(g, g.cta.copies.stores)
    if "wait_group" in modifiers:
        return _wait_stores(instruction)
    if "prefetch" in modifiers:
        return lambda g: None
    if "im2col" in modifiers or any("im2col" in m for m in modifiers):
        raise unsupported(instruction)
    loads = any(m.startswith("mbarrier") for m in modifiers)
    if "tensor" in modifiers:
        return _tensor_load(operands, instruction) if loads else _tensor_store(operands, instruction, "")
    return _bulk_load(operands, instruction) if loads else _bulk_store(operands, instruction)


def commit(g: Gang, threads: dict[int, Thread]) -> None:
    """What each thread has begun since its last commit becomes a group."""
    for thread in (g.first + g.lanes()).tolist():
        mine = threads.setdefault(thread, Thread())
        mine.groups.append(mine.open)
        mine.open = []


def _wait_stores(instruction: PtxInstruction) -> Step:
    (count,) = instruction.operands
    if not isinstance(count, Immediate):
        raise unsupported(instruction)
    reads, left = "read" in instruction.modifiers, count.value

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            wait = g.cta.copies.read_stores if reads else g.cta.copies.finish_stores
            wait(g.first + lane, int(g.warps[lane]), left)
        g.cta.world.progress += 1

    return step


# ---------------------------------------------------------------- tensor maps


def _map_and_coordinates(
    operands: Operands, instruction: PtxInstruction, operand: Any
) -> Callable[[Gang, int], tuple[TensorMapModel, tuple[int, ...], int]]:
    """Reads the map that an operand means, the coordinates, and where the map is, if the kernel makes it (else 0)."""
    if not isinstance(operand, AddressOperand):
        raise unsupported(instruction)
    fetch = address_of(operands, instruction, operand)
    coordinates = [operands.fetch(instruction, one, "s32") for one in operand.coordinates]

    def read(g: Gang, lane: int) -> tuple[TensorMapModel, tuple[int, ...], int]:
        address, through = _of(fetch, g, lane), 0
        offset = address - PARAMETERS if address >= PARAMETERS else address
        found = g.cta.world.maps.get(offset)
        own = g.cta.world.made_maps
        if found is None and own is not None and FIRST <= address < SHARED:
            found, through = own.seen(g, lane, address), address
        if found is None:
            raise Stopped("form", f"no tensor map lies at {address:#x}")
        at = tuple(_of(one, g, lane) for one in coordinates)
        if at[0] * found.bits % 128:
            raise Stopped("alignment", f"the innermost index {at[0]} of a tensor map is no multiple of 16 bytes")
        if found.dtype == tensor_map.UNPACKED and at[0] % tensor_map.UNPACKED_BOX:
            raise Stopped("alignment", f"the innermost index {at[0]} of a map of {found.dtype}, no multiple of a box")
        return found, at, through

    return read


def _of(fetch: Fetch, g: Gang, lane: int) -> int:
    value = fetch(g)
    return int(value[0] if len(value) == 1 else value[lane])


def shared_of(g: Gang, address: int) -> tuple[Cta, int]:
    """CTA and offset of one address in shared memory."""
    given = np.array([address], np.uint64)
    if address >= SHARED:
        _, given = into_space(given)
    cta, offsets = shared_place(g, given, 1)
    return cta, int(offsets[0])


def _tensor_load(operands: Operands, instruction: PtxInstruction) -> Step:
    target, source, barrier, *rest = instruction.operands
    to, at = (address_of(operands, instruction, operand) for operand in (target, barrier))
    described = _map_and_coordinates(operands, instruction, source)
    several = operands.fetch(instruction, rest[0], "u16") if "multicast::cluster" in instruction.modifiers else None
    place, group = instruction.place, 2 if "cta_group::2" in instruction.modifiers else 1

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            tensor, coordinates, through = described(g, lane)
            cta, address = shared_of(g, _of(to, g, lane))
            home, signal = shared_of(g, _of(at, g, lane))
            targets = [cta] if several is None else _in_mask(g, _of(several, g, lane))
            for one in targets:
                told = home if several is None else one if group == 1 else _of_pair(one, home)
                write = _loading(one, tensor, coordinates, address)
                begin_load(g, lane, one, address, told, signal, tensor.extent, tensor.bytes, place, write, through)

    return step


def _of_pair(cta: Cta, like: Cta) -> Cta:
    """That CTA of the pair of `cta` which is first or second as `like` is."""
    return cta.world.ctas[cta.rank & ~1 | like.rank & 1]


def _loading(cta: Cta, tensor: TensorMapModel, coordinates: tuple[int, ...], address: int) -> Callable[[], None]:
    if address % 128:
        raise Stopped("alignment", f"a tensor copy to shared address {address:#x}, no multiple of 128")

    def write() -> None:
        offsets, rows = tensor_map.load(tensor, coordinates, address, cta.world.memory.read_rows)
        cta.shared[(offsets + address)[:, None] + np.arange(rows.shape[1])] = rows

    return write


def _in_mask(g: Gang, mask: int) -> list[Cta]:
    return [cta for cta in g.cta.world.ctas if mask >> cta.rank & 1]


def begin_load(
    g: Gang,
    lane: int,
    cta: Cta,
    address: int,
    told: Cta,
    signal: int,
    extent: int,
    size: int,
    place: InstructionPlace,
    write: Callable[[], None],
    through: int = 0,
) -> None:
    """A load of `extent` bytes of shared memory is on its way, and counts `size` bytes on an mbarrier of `told`."""
    warp = int(g.warps[lane])
    if address + extent > len(cta.shared):
        raise Stopped(
            "bounds", f"a copy to shared addresses {address:#x} to {address + extent:#x} of {len(cta.shared):#x}"
        )
    barrier = told.barriers.at(signal, warp)
    at = slice(address, address + extent)
    noted(g, cta.shadow.copied_to(at, warp, lane % WARP, barrier.agent, barrier.phase + 1), place)
    for other in cta.barriers.objects:
        if address - 8 < other < address + extent:
            raise Stopped("mbarrier", f"a copy to the mbarrier at {other:#x}")
    cta.copies.loads.append(Load(barrier, size, write, place, through, told is not g.cta))


def _tensor_store(operands: Operands, instruction: PtxInstruction, reduction: str) -> Step:
    target, source, *_ = instruction.operands
    described = _map_and_coordinates(operands, instruction, target)
    come = address_of(operands, instruction, source)
    place = instruction.place

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            tensor, coordinates, through = described(g, lane)
            cta, address = shared_of(g, _of(come, g, lane))
            if address % 128:
                raise Stopped("alignment", f"a tensor copy from shared address {address:#x}, no multiple of 128")
            write = _storing(cta, tensor, coordinates, address, reduction)
            _begin(g, lane, cta, address, tensor.extent, place, write, through)

    return step


def _storing(
    cta: Cta, tensor: TensorMapModel, coordinates: tuple[int, ...], address: int, reduction: str
) -> Callable[[], Callable[[], None]]:
    memory = cta.world.memory

    def read() -> Callable[[], None]:
        seen = cta.shared[: address + tensor.extent].copy()
        if reduction:
            return lambda: tensor_map.reduce(
                tensor, reduction, coordinates, seen, address, memory.read_rows, memory.write_rows
            )
        return lambda: tensor_map.store(tensor, coordinates, seen, address, memory.write_rows)

    return read


def _begin(
    g: Gang,
    lane: int,
    cta: Cta,
    address: int,
    extent: int,
    place: InstructionPlace,
    read: Callable[[], Callable[[], None]],
    through: int = 0,
) -> None:
    """A store of `extent` bytes of shared memory is on its way."""
    if address + extent > len(cta.shared):
        raise Stopped(
            "bounds", f"a copy of shared addresses {address:#x} to {address + extent:#x} of {len(cta.shared):#x}"
        )
    at = slice(address, address + extent)
    noted(g, cta.shadow.begin_alone(at, int(g.warps[lane]), lane % WARP), place)
    g.cta.copies.stores.setdefault(g.first + lane, Thread()).open.append(Store(read, at, cta, place, through))


# ---------------------------------------------------------------- plain bytes


def _bulk_load(operands: Operands, instruction: PtxInstruction) -> Step:
    target, source, count, barrier = instruction.operands[:4]
    if "global" not in instruction.modifiers or "multicast::cluster" in instruction.modifiers:
        raise unsupported(instruction)
    to, come, at = (address_of(operands, instruction, operand) for operand in (target, source, barrier))
    size = operands.fetch(instruction, count, "u32")
    place = instruction.place

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            cta, address = shared_of(g, _of(to, g, lane))
            told, signal = shared_of(g, _of(at, g, lane))
            start, bytes = _of(come, g, lane), _of(size, g, lane)
            _aligned(address, start, bytes)
            begin_load(g, lane, cta, address, told, signal, bytes, bytes, place, _copying(cta, address, start, bytes))

    return step


def _copying(cta: Cta, address: int, start: int, size: int) -> Callable[[], None]:
    def write() -> None:
        cta.shared[address : address + size] = cta.world.memory.read_rows(np.array([start]), size)[0]

    return write


def _bulk_store(operands: Operands, instruction: PtxInstruction) -> Step:
    target, source, count = instruction.operands[:3]
    to, come = (address_of(operands, instruction, operand) for operand in (target, source))
    size = operands.fetch(instruction, count, "u32")
    place = instruction.place

    def step(g: Gang) -> None:
        for lane in g.lanes().tolist():
            cta, address = shared_of(g, _of(come, g, lane))
            start, bytes = _of(to, g, lane), _of(size, g, lane)
            _aligned(address, start, bytes)

            def read(
                cta: Cta = cta, address: int = address, start: int = start, bytes: int = bytes
            ) -> Callable[[], None]:
                seen = cta.shared[address : address + bytes].copy()
                return lambda: cta.world.memory.write_rows(np.array([start]), seen[None])

            _begin(g, lane, cta, address, bytes, place, read)

    return step


def _aligned(*numbers: int) -> None:
    for number in numbers:
        if number % 16:
            raise Stopped("alignment", f"a bulk copy with {number:#x}, no multiple of 16")
