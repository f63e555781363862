"""Rules of `twill.certify.statement` on what is alive: rings, registers, budgets ("Liveness", "Depth", "Registers")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

from twill.certify.linear import Clause, Literal, at_least, at_most, either, negated
from twill.certify.terms import Terms, read_end, yes
from twill.graph.costed import CostedValue


def memory(s: Terms, space: str) -> Iterator[Clause]:
    """Rings, storages and invariants of a memory fit it."""
    if space == "register":
        return
    fixed = sum(held.bytes for held in s.graph.storages if held.space == space)
    fixed += sum(held.bytes for held in s.graph.invariants if held.space == space)
    rings = {f"depth.{x}": value.bytes for x, value in enumerate(s.graph.values) if in_ring(value, space)}
    yield from either(at_most(rings, s.machine.capacity(space) - fixed))


def depth(s: Terms, x: int) -> Iterator[Clause]:
    """depth.x >= ⌈(death - birth) / I⌉, and at least 1.

    For every whole number c: rows make up for c - 1 intervals at most, or c more slots are needed than stages apart.
    """
    value = s.graph.values[x]
    if value.space == "register":
        return
    yield from either(at_least({f"depth.{x}": 1}, 1))
    ends = [(r.reader, r.distance, read_end(s.instruction(r.reader))) for r in value.reads]
    for reader, distance, end in ends or [(value.producer, 0, s.instruction(value.producer).latency)]:
        for c in s.turns(end):
            short = s.rows(value.producer, reader, end, 1 - c)
            yield from either(short, slots_of(f"depth.{x}", reader, value.producer, distance + c))


def slots_of(unknown: str, later: int, earlier: int, least: int) -> Literal:
    """unknown >= stage.later - stage.earlier + least."""
    stages = {} if later == earlier else {f"stage.{later}": -1, f"stage.{earlier}": 1}
    return at_least({unknown: 1, **stages}, least)


def register_file(s: Terms) -> Iterator[Clause]:
    """Threads times budgets of all used warp groups fit the register file."""
    granule = s.machine.register_file.granule
    total = {f"budget.{slot}": context.threads * granule for slot, context in enumerate(s.contexts)}
    yield from either(at_most(total, int(s.machine.register_file.registers.value)))


def budget(s: Terms, slot: int) -> Iterator[Clause]:
    """budget.slot, in granules, is in its context's range if the slot is used."""
    granule, context = s.machine.register_file.granule, s.contexts[slot]
    yield from either(at_least({f"budget.{slot}": 1}, 0))
    yield from either(at_most({f"budget.{slot}": granule}, context.max_registers))
    yield from either(negated(yes(f"used.{slot}")), at_least({f"budget.{slot}": granule}, context.min_registers))


def registers(s: Terms) -> Iterator[Clause]:
    """Budgets sum to at most the question's registers."""
    if s.question.registers is None:
        return
    granule = s.machine.register_file.granule
    yield from either(at_most({f"budget.{slot}": granule for slot in range(len(s.contexts))}, s.question.registers))


def takes(s: Terms, slot: int) -> Iterator[Clause]:
    """takes.slot: registers that a warp group keeps all the time, at most its budget."""
    always = {f"takes.{slot}": -1, f"touches.{slot}": ceil(s.contexts[slot].overhead.value)}
    for k, storage in enumerate(s.graph.storages):
        if storage.space == "register" and storage.registers:
            always[f"stores.{k}.{slot}"] = storage.registers
    for k, invariant in enumerate(s.graph.invariants):
        if invariant.space == "register" and invariant.registers:
            always[f"keeps.{k}.{slot}"] = invariant.registers
    for x, value in enumerate(s.graph.values):
        if in_registers(value) and any(slot in s.able(read.reader) for read in value.reads):
            always[f"lands.{x}.{slot}"] = value.registers
    yield from either(at_most(always, 0))
    yield from either(at_most({f"takes.{slot}": 1, f"budget.{slot}": -s.machine.register_file.granule}, 0))


def stores(s: Terms, k: int, slot: int) -> Iterator[Clause]:
    """stores.k.slot is 1 if the slot makes a value of storage k."""
    storage = s.graph.storages[k]
    makers = [x.producer for x in s.graph.values if x.storage == storage.id and x.space == "register"]
    if storage.space == "register" and storage.registers:
        yield from charged(f"stores.{k}.{slot}", slot, [s.member(v, slot) for v in makers])


def keeps(s: Terms, k: int, slot: int) -> Iterator[Clause]:
    """keeps.k.slot is 1 if the slot reads invariant k."""
    invariant = s.graph.invariants[k]
    if invariant.space == "register" and invariant.registers:
        yield from charged(f"keeps.{k}.{slot}", slot, [s.member(v, slot) for v in invariant.readers])


def lands(s: Terms, x: int, slot: int) -> Iterator[Clause]:
    """lands.x.slot is 1 if value x is made outside the slot and read in it."""
    value = s.graph.values[x]
    if in_registers(value):
        readers = [s.member(read.reader, slot) for read in value.reads]
        yield from charged(f"lands.{x}.{slot}", slot, readers, s.member(value.producer, slot))


def charged(name: str, slot: int, causes: list[Literal], *unless: Literal) -> Iterator[Clause]:
    """Any cause, unless something else holds, makes the unknown 1, and then the slot touches registers."""
    yield from either(at_least({name: 1}, 0))
    for cause in causes:
        yield from either(*unless, negated(cause), yes(name))
    yield from either(negated(yes(name)), yes(f"touches.{slot}"))


def touches(s: Terms, slot: int) -> Iterator[Clause]:
    """touches.slot is 1 if the slot handles tile values in registers: then it has the context's overhead."""
    yield from either(at_least({f"touches.{slot}": 1}, 0))


def crowd(s: Terms, u: int, slot: int) -> Iterator[Clause]:
    """At its birth, the warp group of value u has registers for what it keeps and what is alive."""
    if not in_registers(s.graph.values[u]):
        return
    made = negated(s.member(s.graph.values[u].producer, slot))
    total = {f"takes.{slot}": 1, f"budget.{slot}": -s.machine.register_file.granule}
    for x, value in enumerate(s.graph.values):
        if in_registers(value) and slot in s.able(value.producer):
            total[f"alive.{x}.{u}"] = value.registers
    yield from either(made, at_most(total, 0))
    yield from either(made, at_most({f"alive.{u}.{u}": 1}, 0), yes(f"touches.{slot}"))


def alive(s: Terms, x: int, u: int) -> Iterator[Clause]:
    """alive.x.u: at least the copies of x alive at the birth of u, if one warp group makes both.

    For a read that ends at D, of a value born at B, and the instant τ these are ⌊(τ - B) / I⌋ - ⌊(τ - D) / I⌋. For
    whole numbers a, b: rows give the first less than a, or the second more than b, or a - b copies more than stages
    apart.
    """
    yield from either(at_least({f"alive.{x}.{u}": 1}, 0))
    value, instant = s.graph.values[x], s.graph.values[u]
    made, at = value.producer, instant.producer
    outside = negated(s.same(made, at))
    for read in value.reads:
        end = read_end(s.instruction(read.reader))
        since_birth = birth(s, instant) - birth(s, value)
        since_death = birth(s, instant) - end
        for a in s.turns(since_birth):
            fewer = negated(s.rows(at, made, -since_birth, a))
            if fewer is True:
                continue
            for b in s.turns(since_death):
                more = s.rows(at, read.reader, -since_death, b + 1)
                if more is True or negated(s.rows(at, read.reader, -since_death, b)) is True:
                    continue
                copies = slots_of(f"alive.{x}.{u}", read.reader, made, read.distance + a - b)
                yield from either(outside, fewer, more, copies)


def birth(s: Terms, value: CostedValue) -> int:
    """Cycles from its producer's start until a register value is born."""
    producer = s.instruction(value.producer)
    return 0 if producer.asynchronous else producer.hold


def in_registers(value: CostedValue) -> bool:
    """Whether the value counts in registers by itself."""
    return value.space == "register" and value.storage is None and value.registers > 0


def in_ring(value: CostedValue, space: str) -> bool:
    """Whether the value has a ring in this memory."""
    return value.space == space and value.storage is None and value.bytes > 0


MEMORY_RULES: dict[str, Callable[..., Iterator[Clause]]] = {
    "memory": memory,
    "depth": depth,
    "register file": register_file,
    "budget": budget,
    "registers": registers,
    "takes": takes,
    "stores": stores,
    "keeps": keeps,
    "lands": lands,
    "touches": touches,
    "crowd": crowd,
    "alive": alive,
}
