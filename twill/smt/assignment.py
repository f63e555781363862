"""An assignment: I, start times and slots read from a model, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.graph.costed import CostedGraph, CostedValue
from twill.machine.description import Machine
from twill.schedule.document import Objective
from twill.smt.encoding import Encoding, read_end
from twill.zlp.memory_use import MemoryUse
from twill.zlp.slots import Slot


@dataclass(frozen=True)
class Assignment:
    """start[v] in cycles (the earliest is 0), slot[v] a slot id, by instruction id."""

    graph: CostedGraph
    machine: Machine
    slots: tuple[Slot, ...]
    ii: int
    start: tuple[int, ...]
    slot: tuple[int, ...]

    @property
    def length(self) -> int:
        """L: from the earliest start to the last completion."""
        return max(t + i.latency for t, i in zip(self.start, self.graph.instructions, strict=True))

    @property
    def copies(self) -> int:
        """Iterations in flight."""
        return max(1, -(-self.length // self.ii))

    @property
    def crossing(self) -> int:
        """Summed crossing cycles of the value edges between warp groups."""
        return sum(e.crossing for e in self.graph.edges if e.kind == "value" and self.slot[e.src] != self.slot[e.dst])

    @property
    def used(self) -> tuple[Slot, ...]:
        """Slots that hold an instruction."""
        return tuple(s for s in self.slots if s.id in self.slot)

    def birth(self, value: CostedValue) -> int:
        """Cycle of its producer's iteration at which the value begins to occupy its memory."""
        producer = self.graph.instructions[value.producer]
        early = producer.asynchronous or value.space != "register"
        return self.start[producer.id] + (0 if early else producer.hold)

    def death(self, value: CostedValue) -> int:
        """End of its last reader, in cycles of the producer's iteration."""
        ends = [
            self.start[r.reader] + r.distance * self.ii + read_end(self.graph.instructions[r.reader])
            for r in value.reads
        ]
        if not ends and value.space != "register":
            producer = self.graph.instructions[value.producer]
            ends = [self.start[producer.id] + producer.latency]
        return max([*ends, self.birth(value)])

    def depth(self, value: CostedValue) -> int:
        """Slots of the value's ring."""
        return max(1, -(-(self.death(value) - self.birth(value)) // self.ii))

    def resident_registers(self, slot: int) -> int:
        """Registers per thread that are taken all the time: overhead, storages, invariants, landing places."""
        total = int(self.slots[slot].context.overhead.value)
        for storage in self.graph.storages:
            makers = {self.slot[x.producer] for x in self.graph.values if x.storage == storage.id}
            total += storage.registers if slot in makers else 0
        for invariant in self.graph.invariants:
            total += invariant.registers if any(self.slot[r] == slot for r in invariant.readers) else 0
        for x in self.graph.values:
            if x.space == "register" and x.storage is None and self.slot[x.producer] != slot:
                total += x.registers if any(self.slot[r.reader] == slot for r in x.reads) else 0
        return total

    def live(self, value: CostedValue, instant: int) -> int:
        """Iterations of `value` alive at `instant` of the steady state."""
        return (instant - self.birth(value)) // self.ii - (instant - self.death(value)) // self.ii

    def pressure(self, slot: int) -> tuple[int, CostedValue | None]:
        """Largest number of registers per thread of a slot, and the value whose birth reaches it.

        A warp group that handles no register value needs none, not even the overhead.
        """
        mine = [
            x
            for x in self.graph.values
            if x.space == "register" and x.storage is None and self.slot[x.producer] == slot
        ]
        resident = self.resident_registers(slot)
        if not mine and resident == int(self.slots[slot].context.overhead.value):
            return 0, None
        worst, at = resident, None
        for u in mine:
            total = resident + sum(x.registers * self.live(x, self.birth(u)) for x in mine)
            if total > worst:
                worst, at = total, u
        return worst, at

    def budget(self, slot: int) -> int:
        """Smallest legal register budget per thread of a slot (may exceed the context's maximum)."""
        granule = self.machine.register_file.granule
        context = self.slots[slot].context
        return max(context.min_registers, -(-self.pressure(slot)[0] // granule) * granule)

    def budgets(self, floors: Mapping[int, int]) -> dict[int, int]:
        """Budgets of the used slots, and of those that have at least `floors` anyway."""
        mine = {s.id: self.budget(s.id) for s in self.used}
        return mine | {slot: max(floor, mine.get(slot, 0)) for slot, floor in floors.items()}

    def fits(self, floors: Mapping[int, int]) -> bool:
        """Whether the register file has room for these."""
        threads = sum(self.slots[slot].context.threads * budget for slot, budget in self.budgets(floors).items())
        return threads <= self.machine.register_file.registers.value

    @property
    def registers(self) -> int:
        """Summed budgets of the used slots."""
        return sum(self.budget(s.id) for s in self.used)

    def objective(self, proven: Sequence[str]) -> Objective:
        """Its objectives, of which `proven` are known to be minimal."""
        return Objective(
            ii=self.ii,
            copies=self.copies,
            crossing=self.crossing,
            length=self.length,
            registers=self.registers,
            proven=tuple(proven),
        )


def read_assignment(e: Encoding, values: dict[str, int]) -> Assignment:
    """The assignment of a model; unconstrained unknowns count as 0. Starts are shifted to begin at 0."""
    ii = e.ii[0] if e.interval != "I" else values["I"]
    starts = [values.get(f"s{i.id}", 0) * ii + values.get(f"r{i.id}", 0) for i in e.graph.instructions]
    origin = min(starts)
    slots = []
    for i in e.graph.instructions:
        able = e.slots_of(i.id)
        slots.append(next((s.id for s in able if values.get(e.member(i.id, s))), able[0].id))
    return Assignment(e.graph, e.machine, e.slots, ii, tuple(t - origin for t in starts), tuple(slots))


def repeated(a: Assignment, graph: CostedGraph, times: int) -> Assignment | None:
    """The schedule of `graph`, the loop of `a` unrolled, that repeats `a`; None if memories do not hold it."""
    start = tuple(t + k * a.ii for k in range(times) for t in a.start)
    again = Assignment(graph, a.machine, a.slots, a.ii * times, start, a.slot * times)
    memory_use = MemoryUse(graph, a.machine, a.slots, again.slot)
    return again if memory_use.possible() and memory_use.budgets(start, again.ii) is not None else None
