"""Liveness of registers and ring slots over one initiation interval of the steady state (docs/model.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twill.graph.costed import CostedValue
from twill.schedule.document import ScheduledBuffer, ScheduledWarpGroup
from twill.show.view import LoopView, ShownOp
from twill.show.words import label

Steps = tuple[tuple[int, int], ...]  # (row, level from that row on), the first at row 0


@dataclass(frozen=True)
class Layer:
    """A tile value and how much of something it takes over the rows [0, I)."""

    name: str
    line: int
    steps: Steps

    @property
    def peak(self) -> int:
        """The most it takes."""
        return max(level for _, level in self.steps)


def lifetime(view: LoopView, value: CostedValue) -> tuple[int, int]:
    """[birth, death) of iteration 0's copy."""
    items = {item.op.id: item for item in view.items}
    producer = items[value.producer]
    early = producer.instruction.asynchronous or value.space != "register"
    birth = producer.op.start if early else producer.op.start + producer.op.hold
    ends = [read_end(items[read.reader], read.distance * view.ii) for read in value.reads]
    unread = birth if value.space == "register" else producer.op.start + producer.op.cycles
    return birth, max([birth, *ends] if ends else [birth, unread])


def read_end(reader: ShownOp, later: int) -> int:
    """When a reader, `later` cycles after its own iteration 0, has read its operand."""
    return reader.op.start + later + (reader.op.cycles if reader.instruction.asynchronous else reader.op.hold)


def copies_alive(birth: int, death: int, ii: int) -> Steps:
    """How many iterations' copies are alive from which row on."""
    whole, part = divmod(death - birth, ii)
    if part == 0:
        return ((0, whole),)
    first, last = birth % ii, (birth + part) % ii
    changes = sorted({0, first, last})
    return tuple((row, whole + ((row - first) % ii < part)) for row in changes)


def scaled(steps: Steps, amount: int) -> Steps:
    """Levels times `amount`."""
    return tuple((row, level * amount) for row, level in steps)


def register_layers(view: LoopView, group: ScheduledWarpGroup) -> tuple[Layer, ...]:
    """Registers per thread that tile values take in a warp group, residents first.

    The context's overhead (addresses, counters) is not among them: the schedule document does not
    carry it.
    """
    items = {item.op.id: item for item in view.items}
    members = {number for number, item in items.items() if item.op.warp_group == group.id}
    layers = [*resident_layers(view, members)]
    for value in view.loop.graph.values:
        if value.space != "register" or value.storage is not None or not value.registers:
            continue
        name = items[value.producer].label
        if value.producer in members:
            alive = copies_alive(*lifetime(view, value), view.ii)
            layers.append(Layer(name, value.line, scaled(alive, value.registers)))
        elif any(read.reader in members for read in value.reads):
            layers.append(Layer(f"{name} (landing)", value.line, ((0, value.registers),)))
    return tuple(layer for layer in layers if layer.peak)


def resident_layers(view: LoopView, members: set[int]) -> Iterator[Layer]:
    """Accumulators and loop invariants held by a warp group in registers."""
    graph = view.loop.graph
    charged = {value.storage for value in graph.values if value.producer in members}
    for storage in graph.storages:
        if storage.space == "register" and storage.id in charged:
            yield Layer(f"{label(storage.name, storage.block)} (in place)", storage.line, ((0, storage.registers),))
    for fixed in graph.invariants:
        if fixed.space == "register" and members.intersection(fixed.readers):
            yield Layer(f"{label(fixed.name, fixed.block)} (invariant)", fixed.line, ((0, fixed.registers),))


def total(layers: Iterable[Layer]) -> Steps:
    """The sum of all layers."""
    layers = tuple(layers)
    rows = sorted({0, *(row for layer in layers for row, _ in layer.steps)})
    return tuple((row, sum(level_at(layer.steps, row) for layer in layers)) for row in rows)


def level_at(steps: Steps, row: int) -> int:
    """The level in force at a row."""
    return next(level for start, level in reversed(steps) if start <= row)


@dataclass(frozen=True)
class RingUse:
    """A buffer of a loop, and how many of its slots are taken over [0, I)."""

    buffer: ScheduledBuffer
    steps: Steps
    resident: bool


def rings(view: LoopView, buffers: Iterable[ScheduledBuffer]) -> tuple[RingUse, ...]:
    """The loop's buffers in shared memory and TMEM, with their use. Buffers of one
    name, row block and size are told apart by their order."""
    graph = view.loop.graph
    waiting = [value for value in graph.values if value.space != "register" and value.storage is None]
    found = []
    for buffer in buffers:
        if buffer.loop != view.loop.loop:
            continue
        value = next((v for v in waiting if is_of(buffer, v)), None)
        if value is None:
            found.append(RingUse(buffer, ((0, buffer.depth),), resident=True))
            continue
        waiting.remove(value)
        found.append(RingUse(buffer, copies_alive(*lifetime(view, value), view.ii), resident=False))
    return tuple(found)


def is_of(buffer: ScheduledBuffer, value: CostedValue) -> bool:
    """Whether a buffer can be a value's."""
    its = (value.name, value.block, value.space, value.bytes)
    return (buffer.name, buffer.block, buffer.space, buffer.bytes) == its
