"""The constraints of docs/model.md that are asserted from the start, one function each.

The two rules that are costly and rarely bind, the register limit and the cross-warp spill, are
added when a model breaks them: see `twill.smt.lazy`.
"""

from __future__ import annotations

from itertools import combinations

from twill.graph.costed import CostedGraph, Instruction
from twill.smt.blocks import blocks_alike, first_of_neighbours
from twill.smt.encoding import Encoding, Point, RuleOrigin, implies, negated, read_end, users
from twill.zlp.bound import resident_bytes


def assert_rules(e: Encoding) -> None:
    """Assert every rule of this file."""
    warp_uniqueness(e)
    interchangeable_slots(e)
    dependence(e)
    capacity(e)
    concurrency(e)
    issue_time(e)
    variable_latency(e)
    memory_capacity(e)
    register_file(e)
    interchangeable_blocks(e)


def warp_uniqueness(e: Encoding) -> None:
    """Each instruction is in exactly one slot whose context may issue it."""
    declared: set[str] = set()
    for i in e.graph.instructions:
        members = [e.member(i.id, s) for s in e.slots_of(i.id)]
        if members[0] in declared:
            continue
        declared.update(members)
        for m in members:
            e.session.declare(m, "Bool")
        e.add(f"(or {' '.join(members)})", RuleOrigin("warp uniqueness", (i.id,)))
        for a, b in combinations(members, 2):
            e.add(f"(or (not {a}) (not {b}))")


def interchangeable_slots(e: Encoding) -> None:
    """Slots of one context differ by name only: the n-th is opened after the one before it."""
    if e.named_slots:
        return
    for slot in e.slots[1:]:
        previous = e.slots[slot.id - 1]
        if previous.context != slot.context:
            continue
        able = [i.id for i in e.graph.instructions if slot in e.slots_of(i.id)]
        for position, v in enumerate(able):
            openers = sorted({e.member(u, previous) for u in able[:position]})
            term = implies([e.member(v, slot)], f"(or {' '.join(openers)})" if openers else "false")
            if term is not None:
                e.add(term)


def dependence(e: Encoding) -> None:
    """t_v + δ·I >= t_u + delay, and + crossing if u and v are in different warp groups."""
    for edge in e.graph.edges:
        origin = RuleOrigin("dependence", (edge.src, edge.dst))
        apart = negated(e.same(edge.src, edge.dst))
        for condition, delay in (("true", edge.delay), (apart, edge.delay + edge.crossing)):
            if edge.src == edge.dst:
                low, high = e.ii
                conclusion = "false" if edge.distance * high < delay else "true"
                if edge.distance * low < delay <= edge.distance * high:
                    conclusion = f"(>= {e.times(edge.distance)} {delay})"
            else:
                conclusion = e.gap(e.start(edge.src), e.start(edge.dst), delay, edge.distance)
            term = implies([condition], conclusion)
            if term is not None:
                e.add(term, origin)


def capacity(e: Encoding) -> None:
    """The busy intervals of each unit are disjoint modulo I; of an interleaved one only the sum counts."""
    for unit, uses in users(e.graph).items():
        if unit in e.graph.interleaved:
            total = sum(use.cycles for _, use in uses)
            if total > e.ii[0]:
                e.add(f"(<= {total} {e.interval})", RuleOrigin("capacity", tuple(v for v, _ in uses)))
            continue
        for v, use in uses:
            if use.cycles > e.ii[0]:
                e.add(f"(<= {use.cycles} {e.interval})", RuleOrigin("capacity", (v,)))
        for (u, a), (v, b) in combinations(uses, 2):
            term = e.disjoint(e.point(u, a.start), a.cycles, e.point(v, b.start), b.cycles)
            e.add(term, RuleOrigin("capacity", (u, v)))


def concurrency(e: Encoding) -> None:
    """In one warp group no two instructions are held at the same time (in-order issue)."""
    held = [i for i in e.graph.instructions if i.hold]
    for i in held:
        if i.hold > e.ii[0]:
            e.add(f"(<= {i.hold} {e.interval})", RuleOrigin("concurrency", (i.id,)))
    for a, b in combinations(held, 2):
        if _exclude_by_unit(e.graph, a, b):
            continue
        term = implies([e.same(a.id, b.id)], e.disjoint(e.start(a.id), a.hold, e.start(b.id), b.hold))
        if term is not None:
            e.add(term, RuleOrigin("concurrency", (a.id, b.id)))


def issue_time(e: Encoding) -> dict[int, str]:
    """In one warp group, holds and spills together take no more than I.

    Implied by concurrency and cross-warp spill; stated because it takes the solver long to find out,
    and because spills are otherwise asserted only when a model breaks them. Returns the literal
    "crosses" by value id.
    """
    if e.explain:
        return {}
    crosses: dict[int, str] = {}
    for x in crossing_terms(e.graph):
        stays = e.is_local(e.value(x))
        if stays == "true":
            continue
        literal = crosses[x] = f"crosses{x}"
        e.session.declare(literal, "Bool")
        e.add(literal if stays == "false" else f"(or {stays} {literal})")
    for slot in e.slots:
        able = [i for i in e.graph.instructions if slot in e.slots_of(i.id)]
        parts = [f"(ite {e.member(i.id, slot)} {i.hold} 0)" for i in able if i.hold]
        made = {i.id for i in able}
        parts += [
            f"(ite (and {literal} {e.member(e.value(x).producer, slot)}) {e.value(x).spill} 0)"
            for x, literal in crosses.items()
            if e.value(x).producer in made
        ]
        if len(parts) > 1:
            e.add(f"(<= (+ {' '.join(parts)}) {e.interval})")
    return crosses


def crossing_terms(graph: CostedGraph) -> tuple[int, ...]:
    """Ids of the values that cost a spill when they leave their warp group."""
    return tuple(x.id for x in graph.values if x.spill and any(r.reader != x.producer for r in x.reads))


def variable_latency(e: Encoding) -> None:
    """An instruction of variable latency shares its warp group only with its like."""
    for a in e.graph.instructions:
        for b in e.graph.instructions:
            if a.variable_latency and not b.variable_latency:
                term = implies([e.same(a.id, b.id)], "false")
                if term is not None:
                    e.add(term, RuleOrigin("variable latency", (a.id, b.id)))


def memory_capacity(e: Encoding) -> None:
    """Rings, storages and invariants of each memory fit it; a ring's depth covers its lifetime."""
    for memory in e.machine.memories:
        space = memory.name
        resident = resident_bytes(e.graph, space)
        rings: list[str] = []
        owners: list[int] = []
        for value in e.graph.values:
            if value.space != space or value.storage is not None:
                continue
            depth = f"depth{value.id}"
            e.session.declare(depth, "Int")
            e.add(f"(<= 1 {depth})")
            born = e.start(value.producer)
            ends = [(read.reader, read.distance, read_end(e.instruction(read.reader))) for read in value.reads]
            for reader, distance, offset in ends or [(value.producer, 0, e.instruction(value.producer).latency)]:
                e.add(_covers(e, depth, born, e.start(reader), offset, distance))
            rings.append(f"(* {value.bytes} {depth})")
            owners.append(value.producer)
        if not rings and not resident:
            continue
        total = f"(+ {resident} {' '.join(rings)})" if rings else str(resident)
        e.add(f"(<= {total} {int(memory.bytes.value)})", RuleOrigin(f"memory capacity ({space})", tuple(owners)))


def register_file(e: Encoding) -> None:
    """Budgets are within their context's range, and all used ones fit the register file."""
    granule = e.machine.register_file.granule
    for slot in e.slots:
        e.session.declare(f"b{slot.id}", "Int")
        e.session.declare(f"used{slot.id}", "Bool")
        members = sorted({e.member(i.id, slot) for i in e.graph.instructions if slot in e.slots_of(i.id)})
        if members:
            e.add(f"(=> (or {' '.join(members)}) used{slot.id})")
        low, high = slot.context.min_registers // granule, slot.context.max_registers // granule
        e.add(f"(and (<= {low} b{slot.id}) (<= b{slot.id} {high}))")
    terms = [f"(ite used{s.id} (* {s.context.threads * granule} b{s.id}) 0)" for s in e.slots]
    total = terms[0] if len(terms) == 1 else f"(+ {' '.join(terms)})"
    e.add(f"(<= {total} {int(e.machine.register_file.registers.value)})", RuleOrigin("register file"))


def interchangeable_blocks(e: Encoding) -> None:
    """Row blocks are alike: the first instruction of each starts no later than the next block's."""
    if e.pinned or not blocks_alike(e.graph):
        return
    for a, b in first_of_neighbours(e.graph):
        e.add(e.gap(e.start(a), e.start(b), 0, 0))


def _exclude_by_unit(graph: CostedGraph, a: Instruction, b: Instruction) -> bool:
    """Whether the capacity of a unit already keeps the two holds apart."""

    def holding(i: Instruction) -> set[str]:
        return {u.unit for u in i.uses if u.start == 0 and u.cycles >= i.hold and u.unit not in graph.interleaved}

    return bool(holding(a) & holding(b))


def _covers(e: Encoding, depth: str, born: Point, reader: Point, offset: int, distance: int) -> str:
    """depth·I >= reader + offset + distance·I - born, as a case split on the row difference."""
    low, high = e.ii
    stages = f"(- (+ {reader.stage} {distance}) {born.stage})"
    least = -(-(offset + 1) // high) - 1  # smallest ceil((row difference + offset) / I)
    most = -(-(offset + low - 1) // low)  # largest
    clauses = [f"(>= (- {depth} {stages}) {least})"]
    for j in range(least + 1, most + 1):
        rows = f"(<= (- {reader.row} {born.row}) (- {e.times(j - 1)} {offset}))"
        clauses.append(f"(or {rows} (>= (- {depth} {stages}) {j}))")
    return f"(and {' '.join(clauses)})"
