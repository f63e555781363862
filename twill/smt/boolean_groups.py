"""The rules of the paper's own form that are about warp groups and not about time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations, pairwise

from twill.graph.costed import CostedValue
from twill.smt.encoding import negated
from twill.smt.grid import Grid
from twill.zlp.slots import Slot

Alive = Mapping[int, list[list[str]]]  # value -> by instant: a literal for each iteration of it that is alive then


def warp_uniqueness(w: Grid) -> None:
    """Every instruction is in exactly one warp group, of a context that may issue it.

    Instructions with one single-issuer tag share their literals.
    """
    for i in w.graph.instructions:
        if w.owner(i.id) == i.id:
            members = [w.declare(w.member(i.id, slot)) for slot in w.slots_of(i.id)]
            w.clause(*members)
            w.at_most_one(members)


def variable_latency(w: Grid) -> None:
    """An instruction of variable latency shares its warp group only with its like."""
    for a, b in combinations(w.graph.instructions, 2):
        if a.variable_latency != b.variable_latency:
            w.clause(negated(w.same(a.id, b.id)))


def register_values(w: Grid) -> list[CostedValue]:
    """Values that count against registers for as long as they live."""
    return [x for x in w.graph.values if x.space == "register" and x.storage is None and x.registers]


def register_budgets(w: Grid, alive: Alive, instants: int) -> None:
    """At every instant what a warp group keeps in registers fits its budget; all budgets fit the register file.

    alive: of the `register_values`. A budget is its least legal value and one granule for each true literal of
    `_granules`.
    """
    values = register_values(w)
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
        everything = [literal for _, literal in resident] + [
            m for times in made.values() for time in times for m in time
        ]
        charged = "true" if overhead <= least else _any(w, f"charged{slot.id}", everything)
        for instant in range(instants):
            living = [(x.registers, m) for x in values if x.id in made for m in made[x.id][instant]]
            spare = [(granule, negated(g)) for g in granules]
            w.at_most([(overhead, charged), *resident, *living, *spare], least + granule * len(granules))
    w.at_most(total, int(w.machine.register_file.registers.value))


def _granules(w: Grid, slot: Slot, count: int) -> list[str]:
    """One literal for each granule above the least budget; the n-th needs the one before it."""
    granules = [w.declare(f"budget{slot.id}_{n}") for n in range(count)]
    for fewer, more in pairwise(granules):
        w.clause(negated(more), fewer)
    return granules


def _resident(w: Grid, slot: Slot) -> list[tuple[int, str]]:
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


def _made(w: Grid, x: CostedValue, slot: Slot, alive: list[list[str]]) -> list[list[str]]:
    """By instant: the literals of `alive`, true only if x is made in `slot`."""
    if len(w.slots_of(x.producer)) == 1:
        return alive
    rows = []
    for row in alive:
        mine = [w.declare(f"{literal}_{slot.id}") for literal in row]
        for literal, both in zip(row, mine, strict=True):
            w.clause(negated(literal), negated(w.member(x.producer, slot)), both)
        rows.append(mine)
    return rows


def _any(w: Grid, name: str, literals: list[str]) -> str:
    """A literal that is true if one of `literals` is."""
    some = w.declare(name)
    for literal in literals:
        w.clause(negated(literal), some)
    return some
