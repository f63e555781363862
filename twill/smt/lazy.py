"""The register limit and the cross-warp spill, asserted only where a model breaks them.

Most models respect both rules by chance, and stating them for every pair of values costs more
than all other rules together. So a model is inspected, and what it breaks is asserted for good,
for every row block alike. An unsatisfiable relaxation is an unsatisfiable problem.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph, CostedValue
from twill.smt.assignment import Assignment
from twill.smt.blocks import blocks_alike, ids_by_block
from twill.smt.encoding import Encoding, Point, RuleOrigin, implies, negated, read_end
from twill.zlp.slots import Slot


@dataclass
class LazyRules:
    """What has been asserted so far in one encoding."""

    encoding: Encoding
    _crowds: dict[int, set[int]] = field(default_factory=dict)  # value -> values counted at its birth
    _counts: dict[tuple[int, int], str] = field(default_factory=dict)
    _resident: set[int] = field(default_factory=set)
    _spills: set[tuple[int, str, int]] = field(default_factory=set)

    def refine(self, a: Assignment, budgets: dict[int, int]) -> bool:
        """Assert what `a` breaks, with `budgets` registers per thread by slot; False if nothing."""
        broken = False
        for slot in a.used:
            pressure, at = a.pressure(slot.id)
            if pressure > budgets[slot.id]:
                self._registers(a, slot, at)
                broken = True
        for value in a.graph.values:
            for kind, other in _overlapped_spills(a, value):
                self._spill(value, kind, other)
                broken = True
        if broken:
            self.encoding.flush()
        return broken

    def recall(self, other: LazyRules) -> None:
        """Assert at once what `other` came to assert, in an encoding of the same graph."""
        for value, crowd in other._crowds.items():
            self.assert_residents()
            self._assert_crowd(self.encoding.value(value), [self.encoding.value(x) for x in sorted(crowd)])
        for value, kind, against in sorted(other._spills):
            self._spill(self.encoding.value(value), kind, against)

    def assert_residents(self) -> None:
        """Assert at once what each warp group keeps in registers all the time."""
        for slot in self.encoding.slots:
            self._assert_resident(slot)

    # -- register limit -----------------------------------------------------------------------

    def _registers(self, a: Assignment, slot: Slot, at: CostedValue | None) -> None:
        for s in self.encoding.slots:
            self._assert_resident(s)
        if at is None:
            return
        alive = [
            x
            for x in a.graph.values
            if _in_registers(x) and a.slot[x.producer] == slot.id and a.live(x, a.birth(at)) > 0
        ]
        for u, crowd in _alike(a.graph, at, alive):
            self._assert_crowd(u, crowd)

    def _assert_resident(self, slot: Slot) -> None:
        if slot.id in self._resident:
            return
        self._resident.add(slot.id)
        e, graph = self.encoding, self.encoding.graph
        e.session.declare(f"resident{slot.id}", "Int")
        touching = [x.producer for x in graph.values if x.space == "register"]
        touching += [r.reader for x in graph.values if x.space == "register" for r in x.reads]
        touching += [r for i in graph.invariants if i.space == "register" for r in i.readers]
        busy = self._members(touching, slot)
        overhead = int(slot.context.overhead.value)
        terms = [f"(ite (or {' '.join(busy)}) {overhead} 0)" if busy else "0"]
        for storage in graph.storages:
            makers = self._members([x.producer for x in graph.values if x.storage == storage.id], slot)
            if storage.registers and makers:
                terms.append(f"(ite (or {' '.join(makers)}) {storage.registers} 0)")
        for invariant in graph.invariants:
            readers = self._members(invariant.readers, slot)
            if invariant.registers and readers:
                terms.append(f"(ite (or {' '.join(readers)}) {invariant.registers} 0)")
        for x in graph.values:
            readers = self._members([r.reader for r in x.reads], slot)
            if not _in_registers(x) or not readers:
                continue
            inside = self._members([x.producer], slot)
            outside = f"(not {inside[0]})" if inside else "true"
            terms.append(f"(ite (and {outside} (or {' '.join(readers)})) {x.registers} 0)")
        total = f"(+ {' '.join(terms)})" if len(terms) > 1 else terms[0]
        origin = RuleOrigin("register limit", ())
        e.add(f"(= resident{slot.id} {total})")
        granule = e.machine.register_file.granule
        e.add(f"(=> used{slot.id} (<= resident{slot.id} (* {granule} b{slot.id})))", origin)

    def _members(self, instructions: tuple[int, ...] | list[int], slot: Slot) -> list[str]:
        e = self.encoding
        return sorted({e.member(v, slot) for v in instructions if slot in e.slots_of(v)})

    def _assert_crowd(self, u: CostedValue, crowd: list[CostedValue]) -> None:
        e = self.encoding
        known = self._crowds.setdefault(u.id, set())
        wanted = {x.id for x in crowd} | {u.id}
        if wanted <= known:
            return
        known |= wanted
        granule = e.machine.register_file.granule
        values = [e.value(x) for x in sorted(known)]
        terms = [f"(* {x.registers} {self._count(x, u)})" for x in values]
        origin = RuleOrigin("register limit", tuple(x.producer for x in values))
        for slot in e.slots_of(u.producer):
            total = f"(+ resident{slot.id} {' '.join(terms)})"
            e.add(f"(=> {e.member(u.producer, slot)} (<= {total} (* {granule} b{slot.id})))", origin)

    def _count(self, x: CostedValue, u: CostedValue) -> str:
        """An unknown >= the iterations of x alive at the birth of u, if both are made in one group."""
        known = self._counts.get((x.id, u.id))
        if known is not None:
            return known
        e = self.encoding
        count = self._counts[x.id, u.id] = f"live{x.id}_{u.id}"
        e.session.declare(count, "Int")
        e.add(f"(<= 0 {count})")
        same = e.same(u.producer, x.producer)
        instant, born = self._birth(u), self._birth(x)
        wrapped = e.before(instant, born)
        for read in x.reads:
            end = e.point(read.reader, read_end(e.instruction(read.reader)))
            alive = e.before(instant, end)
            whole = f"(- (+ {end.stage} {read.distance}) {born.stage})"
            for w, w_term in ((1, wrapped), (0, negated(wrapped))):
                for late, late_term in ((1, alive), (0, negated(alive))):
                    bound = late - w
                    amount = f"(+ {whole} {bound})" if bound >= 0 else f"(- {whole} {-bound})"
                    term = implies([same, w_term, late_term], f"(>= {count} {amount})")
                    if term is not None:
                        e.add(term)
        return count

    def _birth(self, value: CostedValue) -> Point:
        producer = self.encoding.instruction(value.producer)
        return self.encoding.point(producer.id, 0 if producer.asynchronous else producer.hold)

    # -- cross-warp spill ---------------------------------------------------------------------

    def _spill(self, value: CostedValue, kind: str, other: int) -> None:
        e = self.encoding
        for x, ys in _alike_spills(e.graph, value, kind, other):
            for y in ys:
                if (x.id, kind, y) in self._spills:
                    continue
                self._spills.add((x.id, kind, y))
                self._assert_spill(x, kind, y)

    def _assert_spill(self, x: CostedValue, kind: str, other: int) -> None:
        e = self.encoding
        moved = e.point(x.producer, e.instruction(x.producer).latency)
        crosses = self._crosses(x)
        if kind == "self":
            term = implies([crosses], f"(<= {x.spill} {e.interval})")
            owner = x.producer
        elif kind == "hold":
            owner = other
            held = e.instruction(other)
            apart = e.disjoint(moved, x.spill, e.start(other), held.hold)
            term = implies([crosses, e.same(x.producer, other)], apart)
        else:
            y = e.value(other)
            owner = y.producer
            theirs = e.point(y.producer, e.instruction(y.producer).latency)
            apart = e.disjoint(moved, x.spill, theirs, y.spill)
            term = implies([crosses, self._crosses(y), e.same(x.producer, y.producer)], apart)
        if term is not None:
            e.add(term, RuleOrigin("cross-warp spill", (x.producer, owner)))

    def _crosses(self, x: CostedValue) -> str:
        """The term "some reader of x is in another warp group"."""
        same = [self.encoding.same(x.producer, r.reader) for r in x.reads]
        if "false" in same:
            return "true"
        literals = sorted({s for s in same if s != "true"})
        return f"(not (and {' '.join(literals)}))" if literals else "false"


def _in_registers(x: CostedValue) -> bool:
    return x.space == "register" and x.storage is None


def _crosses(a: Assignment, x: CostedValue) -> bool:
    return any(a.slot[r.reader] != a.slot[x.producer] for r in x.reads)


def _meet(a: int, a_cycles: int, b: int, b_cycles: int, ii: int) -> bool:
    """Whether [a, a + a_cycles) and [b, b + b_cycles) meet modulo ii."""
    return (b - a) % ii < a_cycles or (a - b) % ii < b_cycles


def _overlapped_spills(a: Assignment, x: CostedValue) -> list[tuple[str, int]]:
    """What the spill of x collides with: ("hold", instruction), ("spill", value), ("self", x)."""
    if not x.spill or not _crosses(a, x):
        return []
    producer = a.graph.instructions[x.producer]
    moved = a.start[producer.id] + producer.latency
    found: list[tuple[str, int]] = [("self", x.id)] if x.spill > a.ii else []
    for i in a.graph.instructions:
        mine = a.slot[i.id] == a.slot[producer.id]
        if mine and i.hold and _meet(moved, x.spill, a.start[i.id], i.hold, a.ii):
            found.append(("hold", i.id))
    for y in a.graph.values:
        if y.id <= x.id or not y.spill or a.slot[y.producer] != a.slot[producer.id] or not _crosses(a, y):
            continue
        theirs = a.start[y.producer] + a.graph.instructions[y.producer].latency
        if _meet(moved, x.spill, theirs, y.spill, a.ii):
            found.append(("spill", y.id))
    return found


def _twins(graph: CostedGraph, block: int) -> dict[int, dict[int, int]]:
    """For every other row block: instruction of `block` -> its twin there, by position."""
    if not blocks_alike(graph):
        return {}
    rows = ids_by_block(graph)
    mine = rows.get(block, [])
    return {
        b: dict(zip(mine, theirs, strict=True)) for b, theirs in rows.items() if b != block and len(theirs) == len(mine)
    }


def _alike(
    graph: CostedGraph, at: CostedValue, crowd: list[CostedValue]
) -> list[tuple[CostedValue, list[CostedValue]]]:
    """(at, crowd) and its twins in the other row blocks, when the crowd is of one row block."""
    found = [(at, crowd)]
    if any(x.block != at.block for x in crowd) or at.block < 0:
        return found
    by_producer: dict[int, list[CostedValue]] = {}
    for x in graph.values:
        by_producer.setdefault(x.producer, []).append(x)
    for twins in _twins(graph, at.block).values():

        def twin(x: CostedValue, twins: dict[int, int] = twins) -> CostedValue:
            position = by_producer[x.producer].index(x)
            return by_producer[twins[x.producer]][position]

        found.append((twin(at), [twin(x) for x in crowd]))
    return found


def _alike_spills(graph: CostedGraph, x: CostedValue, kind: str, other: int) -> list[tuple[CostedValue, list[int]]]:
    """A spill collision and, for a value against its own row block, everything it could meet there.

    Asserting a value's spill against all instructions of its block at once saves rounds.
    """
    if kind != "hold" or x.block < 0:
        return [(x, [other])]
    blocks = {i.block for i in graph.instructions if i.block >= 0}
    twins = _twins(graph, x.block)
    found: list[tuple[CostedValue, list[int]]] = []
    for b in sorted(blocks):
        if b != x.block and b not in twins:
            continue
        producer = x.producer if b == x.block else twins[b][x.producer]
        values = [y for y in graph.values if y.producer == producer and y.spill]
        held = [i.id for i in graph.instructions if i.hold and i.block == b]
        found.extend((y, held) for y in values[:1])
    return [*found, (x, [other])]
