"""Memory use of a schedule: ring bytes, live registers, budgets (docs/model.md), and moves that shorten lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from twill.graph.costed import CostedGraph, CostedValue
from twill.machine.description import Machine
from twill.zlp.bound import ceil_div, resident_bytes
from twill.zlp.slots import Slot


@dataclass
class MemoryUse:
    """Memory and registers of schedules of one graph whose warp groups are chosen."""

    graph: CostedGraph
    machine: Machine
    slots: tuple[Slot, ...]
    groups: tuple[int, ...]
    resident: dict[int, int] = field(default_factory=dict)  # used slot -> registers taken all the time
    room: dict[str, int] = field(default_factory=dict)  # space -> bytes left for rings

    def __post_init__(self) -> None:
        graph, groups = self.graph, self.groups
        self.free = [v for v in graph.values if v.storage is None]
        self._lives = {value.id: _life(graph, value) for value in self.free}
        self.made: dict[int, list[CostedValue]] = {slot: [] for slot in groups}
        self.resident = dict.fromkeys(groups, 0)
        for value in self.free:
            if value.space != "register":
                continue
            home = groups[value.producer]
            self.made[home].append(value)
            for slot in {groups[read.reader] for read in value.reads} - {home}:
                self.resident[slot] += value.registers
        for storage in graph.storages:
            if storage.space == "register":
                for slot in {groups[v.producer] for v in graph.values if v.storage == storage.id}:
                    self.resident[slot] += storage.registers
        for invariant in graph.invariants:
            if invariant.space == "register":
                for slot in {groups[reader] for reader in invariant.readers}:
                    self.resident[slot] += invariant.registers
        for space in ("shared", "tmem"):
            self.room[space] = self.machine.capacity(space) - resident_bytes(graph, space)

    def possible(self) -> bool:
        """Whether what is resident all the time, with one copy of each ring, fits at all."""
        for space, room in self.room.items():
            if sum(v.bytes for v in self.free if v.space == space) > room:
                return False
        return self._within([self.budget(slot, need) for slot, need in self.resident.items()])

    def holds_operands(self) -> bool:
        """Whether every warp group has registers for what each of its instructions reads of the group's own values.
        Those that are born when it may start are alive together when it does, in any schedule."""
        waits = {(edge.src, edge.dst, edge.distance): edge.delay for edge in self.graph.edges}
        most = dict(self.resident)
        for slot, values in self.made.items():
            read: dict[int, int] = {}
            for value in values:
                producer, born, _, ends = self._lives[value.id]
                readers = {
                    reader for reader, distance, last in ends
                    if last > 0 and waits.get((producer, reader, distance), born - 1) >= born
                }  # fmt: skip
                for reader in readers:
                    read[reader] = read.get(reader, 0) + value.registers
            most[slot] += max(read.values(), default=0)
        return self._within([self.budget(slot, need) for slot, need in most.items()])

    def life(self, value: CostedValue, start: Sequence[int], ii: int) -> tuple[int, int]:
        """[birth, death) of the value of iteration 0, if it has no storage."""
        producer, born, least, ends = self._lives[value.id]
        birth = start[producer] + born
        death = birth + least
        for reader, distance, last in ends:
            end = start[reader] + distance * ii + last
            if end > death:
                death = end
        return birth, death

    @cached_property
    def touching(self) -> list[list[CostedValue]]:
        """By instruction: the values without a storage that it makes or reads."""
        found: list[list[CostedValue]] = [[] for _ in self.graph.instructions]
        for value in self.free:
            for v in dict.fromkeys((value.producer, *(read.reader for read in value.reads))):
                found[v].append(value)
        return found

    @cached_property
    def weights(self) -> dict[int, float]:
        """By value without a storage: its `weight`."""
        return {value.id: self.weight(value) for value in self.free}

    def need(self, slot: int, start: Sequence[int], ii: int) -> int:
        """Most registers per thread of a warp group at any instant, without overhead."""
        lives = [(v.registers, *self.life(v, start, ii)) for v in self.made[slot]]
        most = 0
        for _, instant, _ in lives:
            alive = sum(n * ((instant - birth) // ii - (instant - death) // ii) for n, birth, death in lives)
            most = max(most, alive)
        return self.resident[slot] + most

    def budget(self, slot: int, need: int) -> int | None:
        """The least legal budget for `need` registers; None if the context's limit is below it."""
        asked = self.asked(slot, need)
        return asked if asked <= self.slots[slot].context.max_registers else None

    def asked(self, slot: int, need: int) -> int:
        """The budget that `need` registers ask for, whatever the context's limit."""
        context, granule = self.slots[slot].context, self.machine.register_file.granule
        wanted = max(need + context.overhead.value if need else 0, context.min_registers)
        return -int(-wanted // granule) * granule

    def budgets(self, start: Sequence[int], ii: int) -> dict[int, int] | None:
        """A register budget for each used slot if rings and registers all fit, else None."""
        for space, room in self.room.items():
            taken = 0
            for value in self.free:
                if value.space == space:
                    birth, death = self.life(value, start, ii)
                    taken += value.bytes * max(1, ceil_div(death - birth, ii))
            if taken > room:
                return None
        found = {slot: self.budget(slot, self.need(slot, start, ii)) for slot in self.resident}
        if not self._within(list(found.values())):
            return None
        return {slot: budget for slot, budget in found.items() if budget is not None}

    def weight(self, value: CostedValue) -> float:
        """Importance of a cycle of the value's life: the share of its memory that a copy takes."""
        if value.storage is not None:
            return 0.0
        if value.space == "register":
            context = self.slots[self.groups[value.producer]].context
            return value.registers / context.max_registers
        return value.bytes / max(1, self.machine.capacity(value.space))

    def _within(self, budgets: list[int | None]) -> bool:
        total = 0
        for slot, budget in zip(self.resident, budgets, strict=True):
            if budget is None:
                return False
            total += self.slots[slot].context.threads * budget
        return total <= int(self.machine.register_file.registers.value)


Life = tuple[int, int, int, tuple[tuple[int, int, int], ...]]
"""(producer, cycles from its start to the birth, cycles from the birth to the death at least, (reader, distance, cycles
from its start to its last read) of each read)."""


def _life(graph: CostedGraph, value: CostedValue) -> Life:
    """What the life of a value depends on beside starts."""
    producer = graph.instructions[value.producer]
    register = value.space == "register"
    born = producer.hold if register and not producer.asynchronous else 0
    least = 0 if value.reads or register else producer.latency
    readers = [(graph.instructions[read.reader], read.distance) for read in value.reads]
    ends = tuple((one.id, distance, one.latency if one.asynchronous else one.hold) for one, distance in readers)
    return producer.id, born, least, ends
