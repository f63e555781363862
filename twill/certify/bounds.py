"""Bounds on I computed again from their witness, in whole numbers, by the rules of docs/model.md alone.

`closed(graph, machine, witness)` says which I a witness excludes. It takes nothing from `twill.zlp`, which found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from twill.document import Document
from twill.graph.costed import CostedGraph, Instruction
from twill.machine.description import Machine

Kind = Literal["resource", "recurrence", "issue", "memory"]


class LifetimePath(Document):
    """Value number `value` is alive at least as long as the path of edges from its producer to its read number `read`.

    read = -1: it has no reader; it is alive while it is made.
    """

    value: int
    read: int
    edges: tuple[int, ...]


class Witness(Document):
    """Why no I in [ii, ii_to] works.

    resource: `place` is the unit. recurrence: `edges` is a cycle of the graph's edges, by position. issue: `contexts`
    whose warp groups have too much to issue. memory: `place` is "shared", "tmem" or "register", `lives` what fills it.
    """

    kind: Kind
    ii: int
    ii_to: int
    place: str = ""
    edges: tuple[int, ...] = ()
    contexts: tuple[str, ...] = ()
    lives: tuple[LifetimePath, ...] = ()


class NotExcluded(Exception):
    """The witness does not exclude what it says: the reason."""


def exclude(graph: CostedGraph, machine: Machine, witness: Witness) -> None:
    """Raise NotExcluded unless the witness excludes every I of its range."""
    try:
        if not 1 <= witness.ii <= witness.ii_to:
            raise NotExcluded("it speaks of no I")
        if witness.kind == "memory":
            memory(graph, machine, witness)
            return
        least = LEAST[witness.kind](graph, machine, witness)
    except (IndexError, ZeroDivisionError) as error:
        raise NotExcluded(f"it names something that the graph has not ({error})") from None
    if least <= witness.ii_to:
        raise NotExcluded(f"it is about I <= {witness.ii_to}, but computed again it excludes only I < {least}")


def resource(graph: CostedGraph, _: Machine, witness: Witness) -> int:
    """Busy intervals of a unit are disjoint modulo I, or only their sum counts: the sum is at most I."""
    return sum(use.cycles for i in graph.instructions for use in i.uses if use.unit == witness.place)


def recurrence(graph: CostedGraph, _: Machine, witness: Witness) -> int:
    """Along a cycle the starts cancel: I · Σ distance >= Σ delay, with the crossings that cannot be avoided."""
    edges = [graph.edges[at(n)] for n in witness.edges]
    ends = [edge.dst for edge in edges]
    if not edges or [edge.src for edge in edges] != [ends[-1], *ends[:-1]]:
        raise NotExcluded("its edges are no cycle")
    delay, distance = sum(least_delay(graph, n) for n in witness.edges), sum(edge.distance for edge in edges)
    if distance == 0 and delay > 0:
        return witness.ii_to + 1
    return -(-delay // distance)


def issue(graph: CostedGraph, machine: Machine, witness: Witness) -> int:
    """What only these contexts can issue is shared out among their warp groups, each of which has I cycles.

    Some warp group has at least the average; and of the k · groups + 1 longest, some group has k + 1, which are at
    least as long as the shortest k + 1. Instructions of variable latency have warp groups of their own.
    """
    groups = sum(c.max_groups for c in machine.contexts if c.name in witness.contexts)
    tags: dict[str, list[Instruction]] = {}
    for i in graph.instructions:
        tags.setdefault(i.single_issuer or f"{i.id} alone", []).append(i)
    holds: dict[bool, list[int]] = {True: [], False: []}
    for members in tags.values():
        able = set.intersection(*(set(i.contexts) for i in members)) & {c.name for c in machine.contexts}
        if able <= set(witness.contexts):
            holds[any(i.variable_latency for i in members)].append(sum(i.hold for i in members))
    if holds[True] and holds[False] and groups > 1:
        return min(max(longest(holds[True], n), longest(holds[False], groups - n)) for n in range(1, groups))
    return longest(holds[True] + holds[False], groups)


def longest(holds: Sequence[int], groups: int) -> int:
    """Cycles that some of `groups` warp groups is held, however the holds are shared out."""
    if not holds:
        return 0
    order = sorted(holds, reverse=True)
    crowded = [sum(order[k * groups - k : k * groups + 1]) for k in range((len(order) - 1) // groups + 1)]
    return max(-(-sum(order) // groups), *crowded)


def memory(graph: CostedGraph, machine: Machine, witness: Witness) -> None:
    """For every I of the range: rings, or the registers alive on average, need more than there is."""
    need, room = (registers if witness.place == "register" else rings)(graph, machine, witness)
    for ii in range(witness.ii, witness.ii_to + 1):
        if need(ii) <= room * (ii if witness.place == "register" else 1):
            raise NotExcluded(f"at I = {ii} it needs no more {witness.place} memory than there is")


def rings(graph: CostedGraph, machine: Machine, witness: Witness) -> tuple[Callable[[int], int], int]:
    """Bytes that the rings of a memory take at an I, and the bytes for them."""
    retained = sum(x.bytes for x in graph.storages if x.space == witness.place)
    retained += sum(x.bytes for x in graph.invariants if x.space == witness.place)
    lives = lives_of(graph, witness)
    sizes = {n: x.bytes for n, x in enumerate(graph.values) if x.space == witness.place and x.storage is None}

    def need(ii: int) -> int:
        slots = {n: max([1, *(times + -(-cycles // ii) for times, cycles in lives.get(n, ()))]) for n in sizes}
        return sum(sizes[n] * slots[n] for n in sizes)

    return need, machine.capacity(witness.place) - retained


def registers(graph: CostedGraph, machine: Machine, witness: Witness) -> tuple[Callable[[int], int], int]:
    """Registers of all threads times cycles that values are alive in I cycles, and the registers for them."""
    threads = {c.name: c.threads for c in machine.contexts}

    def fewest(v: int) -> int:
        return min((threads[name] for name in graph.instructions[v].contexts if name in threads), default=0)

    most = sum(c.max_groups * c.threads * c.max_registers for c in machine.contexts)
    retained = sum(
        x.registers * min(map(fewest, x.readers)) for x in graph.invariants if x.space == "register" and x.readers
    )
    for storage in graph.storages:
        makers = [x.producer for x in graph.values if x.storage == storage.id and x.space == "register"]
        if storage.space == "register" and makers:
            retained += storage.registers * min(map(fewest, makers))
    lives = lives_of(graph, witness)
    sizes = {
        n: x.registers * fewest(x.producer)
        for n, x in enumerate(graph.values)
        if x.space == "register" and x.storage is None
    }

    def need(ii: int) -> int:
        alive = {n: max([0, *(times * ii + cycles for times, cycles in lives.get(n, ()))]) for n in sizes}
        return sum(sizes[n] * alive[n] for n in sizes)

    return need, min(int(machine.register_file.registers.value), most) - retained


def lives_of(graph: CostedGraph, witness: Witness) -> dict[int, list[tuple[int, int]]]:
    """For each value, intervals and cycles that it lives at least by each path: "Liveness"."""
    found: dict[int, list[tuple[int, int]]] = {}
    for life in witness.lives:
        value = graph.values[at(life.value)]
        producer = graph.instructions[value.producer]
        register = value.space == "register"
        begin = 0 if producer.asynchronous or not register else producer.hold
        if life.read == -1 and not value.reads and not register:
            found.setdefault(life.value, []).append((0, producer.latency))
            continue
        read = value.reads[at(life.read)]
        place, cycles, distance = value.producer, -begin, 0
        for n in life.edges:
            edge = graph.edges[at(n)]
            if edge.src != place:
                raise NotExcluded("a path has a gap")
            place, cycles, distance = edge.dst, cycles + least_delay(graph, n), distance + edge.distance
        if place != read.reader:
            raise NotExcluded("a path ends at no reader")
        reader = graph.instructions[read.reader]
        cycles += reader.latency if reader.asynchronous else reader.hold
        found.setdefault(life.value, []).append((read.distance - distance, cycles))
    return found


def least_delay(graph: CostedGraph, number: int) -> int:
    """The delay of an edge, with its crossing if no warp group can hold both its ends."""
    edge = graph.edges[number]
    one, other = graph.instructions[edge.src], graph.instructions[edge.dst]
    if one.id == other.id or (one.single_issuer and one.single_issuer == other.single_issuer):
        return edge.delay
    apart = not set(one.contexts) & set(other.contexts) or one.variable_latency != other.variable_latency
    return edge.delay + (edge.crossing if apart else 0)


def at(number: int) -> int:
    """A position, which is not counted from the end."""
    if number < 0:
        raise IndexError(number)
    return number


LEAST: dict[Kind, Callable[[CostedGraph, Machine, Witness], int]] = {
    "resource": resource,
    "recurrence": recurrence,
    "issue": issue,
}
