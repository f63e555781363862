"""The constraints of the paper's Boolean encoding, one function each, named as in the paper.

Each says the same as its rule in docs/model.md. Where that is not the paper's formula as printed,
the function says what differs.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise

from twill.graph.costed import Value
from twill.smt.boolean_window import Window, negated
from twill.smt.encoding import read_end
from twill.smt.rules import resident_bytes
from twill.zlp.slots import Slot


def uniqueness(w: Window) -> None:
    """Every instruction is issued at exactly one cycle."""
    for i in w.graph.instructions:
        ops = [w.declare(w.op(i.id, t)) for t in range(w.latest(i.id) + 1)]
        w.clause(*ops)
        w.at_most_one(ops)
        for t in range(w.latest(i.id)):
            before, now = w.by(i.id, t - 1), w.declare(w.by(i.id, t))
            w.clause(negated(before), now)
            w.clause(negated(w.op(i.id, t)), now)
            w.clause(negated(now), before, w.op(i.id, t))


def consistency(w: Window) -> None:
    """Iteration i issues v at t + i·I exactly if iteration 0 issues it at t.

    Nothing to assert: only iteration 0 has literals, and op(v, i, t) is written op(v, t - i·I).
    """


def completion(w: Window) -> None:
    """Every instruction completes within L: those that cannot have no literal at all (`Window.latest`)."""
    if any(w.latest(i.id) < 0 for i in w.graph.instructions):
        w.clause()


def warp_uniqueness(w: Window) -> None:
    """Every instruction is in exactly one warp group, of a context that may issue it.

    Instructions with one single-issuer tag share their literals.
    """
    for i in w.graph.instructions:
        if w.owner(i.id) == i.id:
            members = [w.declare(w.member(i.id, slot)) for slot in w.slots_of(i.id)]
            w.clause(*members)
            w.at_most_one(members)


def dependence(w: Window) -> None:
    """t_v + δ·I >= t_u + delay, and + crossing if u and v are in different warp groups."""
    for edge in w.graph.edges:
        same = w.same(edge.src, edge.dst)
        for condition, delay in ((same, edge.delay + edge.crossing), ("false", edge.delay)):
            wait = delay - edge.distance * w.ii
            if edge.src == edge.dst:
                if wait > 0:
                    w.clause(condition)
                continue
            for t in range(w.latest(edge.src) + 1):
                w.clause(condition, negated(w.op(edge.src, t)), negated(w.by(edge.dst, t + wait - 1)))


def capacity(w: Window) -> None:
    """Each row of the reservation table has room for one user of a unit; of an interleaved unit, the sum counts."""
    for unit in w.graph.interleaved:
        if sum(use.cycles for i in w.graph.instructions for use in i.uses if use.unit == unit) > w.ii:
            w.clause()
    users: dict[str, list[tuple[str, ...]]] = {}
    for i in w.graph.instructions:
        for number, use in enumerate(i.uses):
            if use.unit in w.graph.interleaved:
                continue
            rows = w.busy(f"use{i.id}_{number}", i.id, use.start, use.cycles)
            users.setdefault(use.unit, []).append(rows)
    for uses in users.values():
        for row in range(w.ii):
            w.at_most_one([rows[row] for rows in uses])


def variable_latency(w: Window) -> None:
    """An instruction of variable latency shares its warp group only with its like."""
    for a, b in combinations(w.graph.instructions, 2):
        if a.variable_latency != b.variable_latency:
            w.clause(negated(w.same(a.id, b.id)))


def memory_capacity(w: Window) -> None:
    """Rings, storages and invariants of each memory fit it; depth >= k is a literal for each k >= 2.

    The paper adds up what is alive at each cycle; a ring keeps all of its slots all the time.
    """
    for memory in w.machine.memories:
        terms = [(resident_bytes(w.graph, memory.name), "true")]
        for x in w.graph.values:
            if x.space == memory.name and x.storage is None:
                terms += [(x.bytes, "true"), *((x.bytes, deeper) for deeper in _deeper(w, x))]
        w.at_most(terms, int(memory.bytes.value))


def _deeper(w: Window, x: Value) -> list[str]:
    """For k = 2, 3, ...: a literal that is true if the ring of x needs k slots."""
    reads = [(r.reader, r.distance * w.ii + read_end(w.graph.instructions[r.reader])) for r in x.reads]
    if not reads:
        reads = [(x.producer, w.graph.instructions[x.producer].latency)]
    longest = max(end + (w.latest(v) if v != x.producer else 0) for v, end in reads)
    literals = []
    for k in range(2, -(-longest // w.ii) + 1):
        deeper = w.declare(f"depth{x.id}_{k}")
        for v, end in reads:
            if v == x.producer:
                w.clause(deeper if end > (k - 1) * w.ii else "true")
                continue
            for t in range(w.latest(x.producer) + 1):
                over = w.by(v, t + (k - 1) * w.ii - end)  # dead within k - 1 intervals of a birth at t
                w.clause(negated(w.op(x.producer, t)), over, deeper)
        literals.append(deeper)
    return literals


def concurrency(w: Window) -> None:
    """One warp group does one thing at a time: it issues in order, or spills a value to another group.

    As printed in the paper, the formula blocks a warp group while its asynchronous instructions
    are in flight and lets synchronous ones overlap; here an instruction blocks for its hold. The
    spill formula as printed forbids one instant; here the group is blocked for all of
    [t + latency, t + latency + spill), and so is any other spill of it.
    """
    held = [(i.id, w.busy(f"hold{i.id}", i.id, 0, i.hold)) for i in w.graph.instructions if i.hold]
    spilled = []
    for x in w.graph.values:
        if x.spill and x.reads:
            ready = w.graph.instructions[x.producer].latency
            spilled.append((x.producer, w.busy(f"spill{x.id}", x.producer, ready, x.spill, crosses(w, x))))
    for (u, mine), (v, theirs) in combinations(held + spilled, 2):
        apart = negated(w.same(u, v))
        for a, b in zip(mine, theirs, strict=True):
            w.clause(apart, negated(a), negated(b))


def crosses(w: Window, x: Value) -> str:
    """A literal that is true if some reader of x is in another warp group (cross-warp spill)."""
    same = [w.same(x.producer, read.reader) for read in x.reads]
    if "false" in same:
        return "true"
    if all(literal == "true" for literal in same):
        return "false"
    crossing = w.declare(f"crosses{x.id}")
    for literal in same:
        w.clause(literal, crossing)
    return crossing


def liveness(w: Window, x: Value) -> list[list[str]]:
    """By row modulo I: the literals "x, made at some iteration, is alive there", one for each iteration.

    The paper leaves `live` open. Here a register value lives from its birth (its issue if the producer
    is asynchronous, else the end of its hold) to the end of its last reader.
    """
    producer = w.graph.instructions[x.producer]
    birth = 0 if producer.asynchronous else producer.hold
    ends = [(r.reader, r.distance * w.ii + read_end(w.graph.instructions[r.reader])) for r in x.reads]
    rows: list[list[str]] = [[] for _ in range(w.ii)]
    for t in range(birth, max([birth, *(w.latest(v) + end for v, end in ends)])):
        alive = w.declare(f"live{x.id}_{t}")
        for v, end in ends:
            w.clause(negated(w.by(x.producer, t - birth)), w.by(v, t - end), alive)
        rows[t % w.ii].append(alive)
    return rows


def register_limit(w: Window) -> None:
    """In every row, what a warp group keeps in registers fits its budget; all budgets fit the register file.

    A budget is its least legal value and one granule for each true literal of `_granules`.
    """
    values = [x for x in w.graph.values if x.space == "register" and x.storage is None and x.registers]
    alive = {x.id: liveness(w, x) for x in values}
    granule = w.machine.register_file.granule
    total: list[tuple[int, str]] = []
    for slot in w.slots:
        least = -(-slot.context.min_registers // granule) * granule
        granules = _granules(w, slot, (slot.context.max_registers - least) // granule)
        used = w.declare(f"used{slot.id}")
        for i in w.graph.instructions:
            w.clause(negated(w.member(i.id, slot)), used)
        total += [(slot.context.threads * least, used), *((slot.context.threads * granule, g) for g in granules)]
        if slot.context.max_registers < least:
            w.clause(negated(used))

        made = {x.id: _made(w, x, slot, alive[x.id]) for x in values if w.member(x.producer, slot) != "false"}
        resident = _resident(w, slot)
        overhead = math.ceil(slot.context.overhead.value)
        everything = [literal for _, literal in resident] + [m for rows in made.values() for row in rows for m in row]
        charged = "true" if overhead <= least else _any(w, f"charged{slot.id}", everything)
        for row in range(w.ii):
            living = [(x.registers, m) for x in values if x.id in made for m in made[x.id][row]]
            spare = [(granule, negated(g)) for g in granules]
            w.at_most([(overhead, charged), *resident, *living, *spare], least + granule * len(granules))
    w.at_most(total, int(w.machine.register_file.registers.value))


def _granules(w: Window, slot: Slot, count: int) -> list[str]:
    """One literal for each granule above the least budget; the n-th needs the one before it."""
    granules = [w.declare(f"budget{slot.id}_{n}") for n in range(count)]
    for fewer, more in pairwise(granules):
        w.clause(negated(more), fewer)
    return granules


def _resident(w: Window, slot: Slot) -> list[tuple[int, str]]:
    """Registers that `slot` keeps all the time: storages, invariants, landing places."""
    terms = []
    for storage in w.graph.storages:
        makers = [w.member(x.producer, slot) for x in w.graph.values if x.storage == storage.id]
        terms.append((storage.registers, _any(w, f"storage{storage.id}_{slot.id}", makers)))
    for invariant in w.graph.invariants:
        readers = [w.member(v, slot) for v in invariant.readers]
        terms.append((invariant.registers, _any(w, f"invariant{invariant.id}_{slot.id}", readers)))
    for x in w.graph.values:
        if x.space != "register" or x.storage is not None:
            continue
        lands = w.declare(f"lands{x.id}_{slot.id}")
        for read in x.reads:
            w.clause(negated(w.member(read.reader, slot)), w.member(x.producer, slot), lands)
        terms.append((x.registers, lands))
    return terms


def _made(w: Window, x: Value, slot: Slot, alive: list[list[str]]) -> list[list[str]]:
    """By row: the literals of `alive`, true only if x is made in `slot`."""
    if len(w.slots_of(x.producer)) == 1:
        return alive
    rows = []
    for row in alive:
        mine = [w.declare(f"{literal}_{slot.id}") for literal in row]
        for literal, both in zip(row, mine, strict=True):
            w.clause(negated(literal), negated(w.member(x.producer, slot)), both)
        rows.append(mine)
    return rows


def _any(w: Window, name: str, literals: list[str]) -> str:
    """A literal that is true if one of `literals` is."""
    some = w.declare(name)
    for literal in literals:
        w.clause(negated(literal), some)
    return some
