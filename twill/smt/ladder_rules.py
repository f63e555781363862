"""The joint problem in Booleans, with ladders: for each rule of docs/model.md one function, named as in the paper.

Dependences, rows and lifetimes are stated with "issued by cycle t", which takes as many clauses as there are cycles;
the paper's own form (`twill.smt.grid_rules`) takes pairs of cycles.
"""

from __future__ import annotations

from itertools import combinations

from twill.graph.costed import CostedValue
from twill.smt.boolean_encoding import negated
from twill.smt.boolean_groups import register_budgets, register_values
from twill.smt.encoding import read_end
from twill.smt.ladders import Ladders
from twill.zlp.bound import resident_bytes


def uniqueness(w: Ladders) -> None:
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


def consistency(w: Ladders) -> None:
    """Iteration i issues v at t + i·I exactly if iteration 0 issues it at t.

    Nothing to assert: only iteration 0 has literals, and op(v, i, t) is written op(v, t - i·I).
    """


def completion(w: Ladders) -> None:
    """Every instruction completes within L: those that cannot have no literal at all (`Ladders.latest`)."""
    if any(w.latest(i.id) < 0 for i in w.graph.instructions):
        w.clause()


def dependence(w: Ladders) -> None:
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


def capacity(w: Ladders) -> None:
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


def memory_capacity(w: Ladders) -> None:
    """Rings, storages and invariants of each memory fit it; depth >= k is a literal for each k >= 2.

    The paper adds up what is alive at each cycle; a ring keeps all of its slots all the time.
    """
    for memory in w.machine.memories:
        terms = [(resident_bytes(w.graph, memory.name), "true")]
        for x in w.graph.values:
            if x.space == memory.name and x.storage is None:
                terms += [(x.bytes, "true"), *((x.bytes, deeper) for deeper in _deeper(w, x))]
        w.at_most(terms, int(memory.bytes.value))


def _deeper(w: Ladders, x: CostedValue) -> list[str]:
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


def concurrency(w: Ladders) -> None:
    """One warp group does one thing at a time: it issues in order, or spills a value to another group.

    An instruction blocks for its hold; a spill for all of [t + latency, t + latency + spill).
    """
    held = [(i.id, w.busy(f"hold{i.id}", i.id, 0, i.hold)) for i in w.graph.instructions if i.hold]
    spilled = []
    for x in w.graph.values:
        if x.spill and x.reads:
            ready = w.graph.instructions[x.producer].latency
            spilled.append((x.producer, w.busy(f"spill{x.id}", x.producer, ready, x.spill, w.crosses(x))))
    for (u, mine), (v, theirs) in combinations(held + spilled, 2):
        apart = negated(w.same(u, v))
        for a, b in zip(mine, theirs, strict=True):
            w.clause(apart, negated(a), negated(b))


def liveness(w: Ladders, x: CostedValue) -> list[list[str]]:
    """By row modulo I: the literals "x, made at some iteration, is alive there", one for each iteration.

    A register value lives from its birth (its issue if the producer is asynchronous, else the end of its hold) to the
    end of its last reader.
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


def register_limit(w: Ladders) -> None:
    """In every row, what a warp group keeps in registers fits its budget; all budgets fit the register file."""
    register_budgets(w, {x.id: liveness(w, x) for x in register_values(w)}, w.ii)
