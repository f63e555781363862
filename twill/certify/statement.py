"""A question as clauses over linear inequalities, written from docs/model.md and from nothing of the solver.

A clause is named by its rule, what the rule is about, and its place: ("dependence", 3), 0. Every schedule that answers
the question with yes gives values to the unknowns so that all clauses hold; so if some of them contradict one
another, the answer is no. Whoever searches picks the clauses it needs; whoever checks makes only those named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from twill.certify.linear import Clause, at_least, at_most, either, negated
from twill.certify.memory_rules import MEMORY_RULES
from twill.certify.symmetry import exchangeable
from twill.certify.terms import Terms, yes

Key = tuple[str | int, ...]
Rule = Callable[..., Iterator[Clause]]


class Statement(Terms):
    """The clauses of one question about one loop on one machine."""

    def clauses(self, key: Key) -> tuple[Clause, ...]:
        """The clauses of this name. Raises KeyError if no rule has it."""
        try:
            if any(isinstance(part, int) and part < 0 for part in key):
                raise KeyError(key)
            return tuple(RULES[str(key[0])](self, *key[1:]))
        except (IndexError, TypeError) as error:
            raise KeyError(key) from error

    def always(self) -> Iterator[Key]:
        """Names of the clauses that every search needs; the definitions of unknowns are `defining`."""
        graph = self.graph
        yield from (("dependence", n) for n in range(len(graph.edges)))
        units = {use.unit for i in graph.instructions for use in i.uses}
        yield from (("capacity", unit) for unit in sorted(units))
        held = [i.id for i in graph.instructions if i.hold]
        yield from (("hold", v) for v in held)
        yield from (("concurrency", u, v) for u, v in combinations(held, 2))
        yield from (("variable latency", u, v) for u, v in combinations(range(len(graph.instructions)), 2))
        yield from (("issue time", slot) for slot in range(len(self.contexts)))
        yield from (("memory", memory.name) for memory in self.machine.memories)
        yield from (("register file",), ("length",), ("crossing",), ("registers",))
        yield from (("takes", slot) for slot in range(len(self.contexts)))
        yield from (("group order", slot) for slot in range(1, len(self.contexts)))
        blocks = sorted({i.block for i in graph.instructions if i.block >= 0})
        yield from (("block order", a, b) for a, b in zip(blocks, blocks[1:], strict=False))
        yield ("turn",)

    def defining(self, unknown: str) -> tuple[Key, ...]:
        """Names of the clauses that give an unknown its meaning."""
        kind, *numbers = unknown.split(".")
        about = tuple(int(n) for n in numbers)
        if kind == "in":
            return (("group", about[0]), ("used", about[1]))
        if kind in ("row", "stage"):
            return (("start", *about),)
        return ((kind, *about),)


# -- starts -----------------------------------------------------------------------------------------


def interval(s: Terms) -> Iterator[Clause]:
    """I lies in the question's range."""
    yield from either(at_least({"I": 1}, s.question.ii))
    yield from either(at_most({"I": 1}, s.question.ii_to))


def start(s: Terms, v: int) -> Iterator[Clause]:
    """0 <= row.v < I and 0 <= stage.v ("uniqueness")."""
    yield from either(at_least({f"row.{v}": 1}, 0))
    yield from either(s.within({f"row.{v}": 1}, -1, 1))
    yield from either(at_least({f"stage.{v}": 1}, 0))


def turn(s: Terms) -> Iterator[Clause]:
    """Without a limit on the length, all starts may be moved together: the first instruction is in row 0."""
    if s.question.length is None:
        yield from either(at_most({f"row.{s.graph.instructions[0].id}": 1}, 0))


def dependence(s: Terms, number: int) -> Iterator[Clause]:
    """Edge u to v: t_v + δ·I >= t_u + delay, and + crossing unless they share a warp group."""
    edge = s.graph.edges[number]
    yield from s.gap(edge.dst, edge.src, edge.delay, edge.distance)
    if edge.crossing:
        yield from s.gap(edge.dst, edge.src, edge.delay + edge.crossing, edge.distance, s.same(edge.src, edge.dst))


def capacity(s: Terms, unit: str) -> Iterator[Clause]:
    """Busy intervals of a unit are disjoint modulo I; their sum is at most I, of an interleaved unit only that."""
    uses = [(i.id, use) for i in s.graph.instructions for use in i.uses if use.unit == unit]
    yield from either(s.within({}, -sum(use.cycles for _, use in uses), 1))
    if unit in s.graph.interleaved:
        return
    for (u, a), (v, b) in combinations(uses, 2):
        yield from s.apart(u, (a.start, a.cycles), v, (b.start, b.cycles))


def length(s: Terms) -> Iterator[Clause]:
    """Every instruction completes by the question's length ("completion")."""
    if s.question.length is None:
        return
    for i in s.graph.instructions:
        stages, row = divmod(s.question.length - i.latency, s.question.ii)
        yield from either(at_most({f"stage.{i.id}": 1}, stages))
        yield from either(at_most({f"stage.{i.id}": 1}, stages - 1), at_most({f"row.{i.id}": 1}, row))


# -- warp groups --------------------------------------------------------------------------------------


def group(s: Terms, v: int) -> Iterator[Clause]:
    """An instruction is in exactly one slot ("warp uniqueness", "single issuer")."""
    members = [s.member(v, slot) for slot in s.able(v)]
    yield from either(*members)
    for a, b in combinations(members, 2):
        yield from either(negated(a), negated(b))
    for slot in s.able(v):
        yield from yes_or_no(s, f"in.{v}.{slot}")


def same(s: Terms, u: int, v: int) -> Iterator[Clause]:
    """same.u.v is 1 just if u and v are in one slot."""
    yield from yes_or_no(s, f"same.{u}.{v}")
    for slot in sorted({*s.able(u), *s.able(v)}):
        a, b = s.member(u, slot), s.member(v, slot)
        yield from either(negated(a), negated(b), s.same(u, v))
        yield from either(negated(a), b, negated(s.same(u, v)))
        yield from either(a, negated(b), negated(s.same(u, v)))


def used(s: Terms, slot: int) -> Iterator[Clause]:
    """used.slot is 1 if any instruction is in it."""
    yield from yes_or_no(s, f"used.{slot}")
    for v in dict.fromkeys(s.owner.values()):
        yield from either(negated(s.member(v, slot)), yes(f"used.{slot}"))


def group_order(s: Terms, slot: int) -> Iterator[Clause]:
    """Slots of one context differ by name only, so one gets its first instruction after the one before it."""
    if slot == 0 or s.contexts[slot] != s.contexts[slot - 1]:
        return
    before: list[int] = []
    for v in dict.fromkeys(s.owner.values()):
        yield from either(negated(s.member(v, slot)), *(s.member(u, slot - 1) for u in before))
        before.append(v)


def block_order(s: Terms, one: int, other: int) -> Iterator[Clause]:
    """Row blocks that can be exchanged are named in the order in which their first instructions start."""
    blocks = sorted({i.block for i in s.graph.instructions if i.block >= 0})
    pairs = list(zip(blocks, blocks[1:], strict=False))
    if (one, other) not in pairs or not all(exchangeable(s.graph, a, b) for a, b in pairs):
        return
    first = {block: next(i.id for i in s.graph.instructions if i.block == block) for block in (one, other)}
    yield from s.gap(first[other], first[one], 0, 0)


def variable_latency(s: Terms, u: int, v: int) -> Iterator[Clause]:
    """A warp group with an instruction of variable latency has no other kind."""
    if s.instruction(u).variable_latency != s.instruction(v).variable_latency:
        yield from either(negated(s.same(u, v)))


def hold(s: Terms, v: int) -> Iterator[Clause]:
    """An instruction holds its warp group for I cycles at most ("concurrency")."""
    yield from either(s.within({}, -s.instruction(v).hold, 1))


def concurrency(s: Terms, u: int, v: int) -> Iterator[Clause]:
    """In one warp group the intervals [t, t + hold) are disjoint modulo I."""
    a, b = s.instruction(u).hold, s.instruction(v).hold
    if u != v:
        yield from s.apart(u, (0, a), v, (0, b), negated(s.same(u, v)))


def crosses(s: Terms, x: int) -> Iterator[Clause]:
    """crosses.x is 1 if a reader of value x is outside its producer's warp group."""
    yield from yes_or_no(s, f"crosses.{x}")
    value = s.graph.values[x]
    for read in value.reads:
        yield from either(s.same(value.producer, read.reader), yes(f"crosses.{x}"))


def away(s: Terms, x: int, slot: int) -> Iterator[Clause]:
    """away.x.slot is 1 if value x crosses and its producer is in the slot."""
    yield from yes_or_no(s, f"away.{x}.{slot}")
    member = s.member(s.graph.values[x].producer, slot)
    yield from either(negated(member), negated(yes(f"crosses.{x}")), yes(f"away.{x}.{slot}"))


def spill_hold(s: Terms, x: int, v: int) -> Iterator[Clause]:
    """While a value that crosses is spilled, its producer's warp group is held by no instruction."""
    window = spill_window(s, x)
    apart = (negated(yes(f"crosses.{x}")), negated(s.same(s.graph.values[x].producer, v)))
    yield from s.apart(s.graph.values[x].producer, window, v, (0, s.instruction(v).hold), *apart)


def spill_spill(s: Terms, x: int, y: int) -> Iterator[Clause]:
    """Spills of one warp group do not overlap, and none takes more than I."""
    a, b = s.graph.values[x], s.graph.values[y]
    crossing = (negated(yes(f"crosses.{x}")), negated(yes(f"crosses.{y}")))
    if x == y:
        yield from either(crossing[0], s.within({}, -a.spill, 1))
        return
    share = negated(s.same(a.producer, b.producer))
    yield from s.apart(a.producer, spill_window(s, x), b.producer, spill_window(s, y), *crossing, share)


def spill_window(s: Terms, x: int) -> tuple[int, int]:
    """When the spill of x begins after its producer's start, and its cycles."""
    value = s.graph.values[x]
    return s.instruction(value.producer).latency, value.spill


def issue_time(s: Terms, slot: int) -> Iterator[Clause]:
    """What is disjoint modulo I takes I at most together: holds and spills of one warp group."""
    total = {f"in.{s.owner[i.id]}.{slot}": 0 for i in s.graph.instructions if i.hold and slot in s.able(i.id)}
    for i in s.graph.instructions:
        if i.hold and slot in s.able(i.id):
            total[f"in.{s.owner[i.id]}.{slot}"] += i.hold
    for x, value in enumerate(s.graph.values):
        leaves = any(s.same(value.producer, read.reader) is not True for read in value.reads)
        if value.spill and leaves and slot in s.able(value.producer):
            total[f"away.{x}.{slot}"] = value.spill
    yield from either(s.within(total, 0, 1))


def crossing(s: Terms) -> Iterator[Clause]:
    """Value edges between warp groups cost at most the question's crossing."""
    if s.question.crossing is None:
        return
    total: dict[str, int] = {}
    most = s.question.crossing
    for edge in s.graph.edges:
        together = s.same(edge.src, edge.dst)
        if edge.kind != "value" or together is True:
            continue
        most -= edge.crossing
        if not isinstance(together, bool):
            name = together.terms[0][0]
            total[name] = total.get(name, 0) - edge.crossing
    yield from either(at_most(total, most))


def yes_or_no(s: Terms, name: str) -> Iterator[Clause]:
    """The unknown is 0 or 1."""
    yield from either(at_least({name: 1}, 0))
    yield from either(at_most({name: 1}, 1))


RULES: dict[str, Rule] = {
    "I": interval,
    "start": start,
    "turn": turn,
    "dependence": dependence,
    "capacity": capacity,
    "length": length,
    "group": group,
    "same": same,
    "used": used,
    "group order": group_order,
    "block order": block_order,
    "variable latency": variable_latency,
    "hold": hold,
    "concurrency": concurrency,
    "crosses": crosses,
    "away": away,
    "spill and hold": spill_hold,
    "spill and spill": spill_spill,
    "issue time": issue_time,
    "crossing": crossing,
    **MEMORY_RULES,
}
