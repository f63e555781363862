"""The memory bounds: values live at least as long as the dependences say, and memories are finite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from twill.graph.costed import CostedGraph, CostedValue, Instruction
from twill.machine.description import Machine
from twill.zlp.bound import NO_BOUND, LowerBound, by_id, ceil_div, resident_bytes
from twill.zlp.recurrence import Arc, certain_arcs


@dataclass(frozen=True)
class LeastLifetime:
    """A value lives at least `iterations`·I + `cycles` in every schedule with initiation interval I."""

    iterations: int
    cycles: int

    def depth(self, ii: int, least_ii: int) -> int:
        """⌈life / I⌉, or less; it does not grow with I ≥ least_ii.

        Negative cycles over I grow with I, so they are taken over least_ii: that is no more.
        """
        return self.iterations + ceil_div(self.cycles, ii if self.cycles >= 0 else least_ii)

    def share(self, ii: int, least_ii: int) -> float:
        """The ratio life / I, or less; it does not grow with I ≥ least_ii."""
        return self.iterations + self.cycles / (ii if self.cycles >= 0 else least_ii)


@dataclass(frozen=True)
class Demand:
    """A value with what one copy occupies (bytes, or registers of all threads) and its lives."""

    value: CostedValue
    size: int
    lives: tuple[LeastLifetime, ...]

    def copies(self, ii: int, least_ii: int) -> int:
        """Slots of its ring, at least."""
        return max([1, *(life.depth(ii, least_ii) for life in self.lives)])

    def average(self, ii: int, least_ii: int) -> float:
        """Copies alive on average over I cycles, at least."""
        return max([0.0, *(life.share(ii, least_ii) for life in self.lives)])


def memory_bound(graph: CostedGraph, machine: Machine, least_ii: int) -> LowerBound:
    """The best of the bounds of shared memory, tensor memory and the register file.

    `least_ii`: a lower bound on I that is known already. Returns the smallest I ≥ least_ii at which
    the memories could hold what lives at least; if none could at any I, no bound (the graph does not fit).

    Proof. A value that instruction v reads δ iterations later dies no earlier than v ends, and a path
    from its producer p to v with delays A and distances D gives t(v) ≥ t(p) + A − D·I; so its life is
    at least (δ − D)·I + A + tail, its ring has at least ⌈life / I⌉ slots, and on average life / I
    copies are alive. Slots times bytes, and average copies times registers, cannot exceed what the
    storages and invariants leave; both sides' demands never grow with I ≥ least_ii, so the smallest I
    that meets them is found by bisection.
    """
    arcs = certain_arcs(graph)
    bounds = [ring_bound(graph, machine, arcs, space, least_ii) for space in ("shared", "tmem")]
    bounds.append(register_bound(graph, machine, arcs, least_ii))
    return max(bounds, key=lambda bound: bound.value)


def ring_bound(graph: CostedGraph, machine: Machine, arcs: Sequence[Arc], space: str, least_ii: int) -> LowerBound:
    """Σ bytes · depth over values without a storage, in one space."""
    room = machine.capacity(space) - resident_bytes(graph, space)
    instruction = by_id(graph)
    demands = [
        Demand(value, value.bytes, lives(value, instruction, arcs))
        for value in graph.values
        if value.space == space and value.storage is None
    ]

    def need(ii: int) -> float:
        return sum(demand.size * demand.copies(ii, least_ii) for demand in demands)

    def words(ii: int) -> str:
        slots = [(demand, demand.copies(ii, least_ii)) for demand in demands]
        needs = [(one.value, f"{count} x {one.size} bytes", count * one.size) for one, count in slots]
        return f"the rings need {need(ii):.0f} of {room} bytes of {space} memory: {largest(needs)}"

    return _bound(need, room, least_ii, demands, words)


def register_bound(graph: CostedGraph, machine: Machine, arcs: Sequence[Arc], least_ii: int) -> LowerBound:
    """Σ registers · life / I over register values, against the register file.

    Values of a warp group occupy registers(x) · n(x, τ) in each of its threads, and n averages to
    life / I over a period; budgets of used groups fit the file, and each is at most its context's limit.
    """
    threads = {context.name: context.threads for context in machine.contexts}
    limits = sum(c.max_groups * c.threads * c.max_registers for c in machine.contexts)
    instruction = by_id(graph)
    made: dict[int, list[int]] = {}  # storage -> its producers

    def fewest_threads(producer: int) -> int:
        return min((threads[name] for name in instruction[producer].contexts if name in threads), default=0)

    for value in graph.values:
        if value.storage is not None:
            made.setdefault(value.storage, []).append(value.producer)
    resident = sum(
        s.registers * min(fewest_threads(producer) for producer in made[s.id])
        for s in graph.storages
        if s.space == "register" and s.id in made
    ) + sum(
        i.registers * min(fewest_threads(reader) for reader in i.readers)
        for i in graph.invariants
        if i.space == "register" and i.readers
    )
    room = min(int(machine.register_file.registers.value), limits) - resident
    demands = [
        Demand(value, value.registers * fewest_threads(value.producer), lives(value, instruction, arcs))
        for value in graph.values
        if value.space == "register" and value.storage is None
    ]

    def need(ii: int) -> float:
        return sum(demand.size * demand.average(ii, least_ii) for demand in demands) - 1e-6  # rounding of the shares

    def words(ii: int) -> str:
        cycles = [(demand, demand.average(ii, least_ii) * ii) for demand in demands]
        needs = [(one.value, f"{one.size} registers for {count:.0f} cycles", one.size * count) for one, count in cycles]
        return f"the values need {need(ii):.0f} of {room} free registers on average: {largest(needs)}"

    return _bound(need, room, least_ii, demands, words)


def _bound(
    need: Callable[[int], float], room: int, least_ii: int, demands: Sequence[Demand], words: Callable[[int], str]
) -> LowerBound:
    ii = smallest(need, room, least_ii, demands)
    return NO_BOUND if ii is None or ii <= least_ii else LowerBound(ii, f"with I = {ii - 1} {words(ii - 1)}")


def largest(needs: Iterable[tuple[CostedValue, str, float]]) -> str:
    """The four largest of (value, its need in words, weight), equal ones of several row blocks as one."""
    weights: dict[str, float] = {}
    times: dict[str, int] = {}
    for value, words, weight in needs:
        if weight > 0:
            text = f"{value.name} (line {value.line}) {words}"
            weights[text] = weights.get(text, 0.0) + weight
            times[text] = times.get(text, 0) + 1
    order = sorted(weights, key=lambda text: -weights[text])[:4]
    return ", ".join(text if times[text] == 1 else f"{text} ({times[text]} times)" for text in order)


def smallest(need: Callable[[int], float], room: int, least_ii: int, demands: Sequence[Demand]) -> int | None:
    """The smallest I ≥ least_ii with need(I) ≤ room, for a need that never grows; None if there is none."""
    low = max(1, least_ii)
    high = max([low, *(life.cycles for demand in demands for life in demand.lives)])
    # The registers' need still falls beyond the longest life: double until it fits or has settled.
    while need(high) > room and need(high) > need(2 * high) + 1e-3:
        high *= 2
    if need(high) > room:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if need(middle) <= room else (middle + 1, high)
    return low


def lives(value: CostedValue, instruction: Mapping[int, Instruction], arcs: Sequence[Arc]) -> tuple[LeastLifetime, ...]:
    """Lower bounds on death − birth, as in docs/model.md, one for each read and path distance up to the read's."""
    producer = instruction[value.producer]
    early = producer.asynchronous or value.space != "register"
    begin = 0 if early else producer.hold
    found = []
    if not value.reads and value.space != "register":
        found.append(LeastLifetime(0, producer.latency))
    most = max((read.distance for read in value.reads), default=0)
    reach = longest(value.producer, instruction, arcs, most)
    for read in value.reads:
        reader = instruction[read.reader]
        tail = reader.latency if reader.asynchronous else reader.hold
        for distance in range(read.distance + 1):
            delay = reach[distance].get(read.reader)
            if delay is not None:
                found.append(LeastLifetime(read.distance - distance, delay + tail - begin))
    return tuple(found)


def longest(source: int, nodes: Mapping[int, Instruction], arcs: Sequence[Arc], most: int) -> list[dict[int, int]]:
    """For D = 0 ... most: the largest Σ delay over walks from `source` with Σ distance = D, by their end."""
    reach: list[dict[int, int]] = [{} for _ in range(most + 1)]
    reach[0][source] = 0
    for distance in range(most + 1):
        layer = reach[distance]
        within = [arc for arc in arcs if arc.distance == 0]
        for _ in nodes:  # distance-0 edges have no cycle of positive delay, so walks of |nodes| edges suffice
            before = dict(layer)
            for arc in within:
                if arc.src in layer:
                    delay = layer[arc.src] + arc.delay
                    layer[arc.dst] = max(layer.get(arc.dst, delay), delay)
            if layer == before:
                break
        for arc in arcs:
            target = distance + arc.distance
            if arc.distance > 0 and target <= most and arc.src in layer:
                delay = layer[arc.src] + arc.delay
                reach[target][arc.dst] = max(reach[target].get(arc.dst, delay), delay)
    return reach
