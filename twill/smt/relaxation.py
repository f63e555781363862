"""A relaxation that bounds I from below: one iteration alone in absolute time, without rows and stages.

Rows and stages make every rule about disjoint intervals a case split over iterations. Here each instruction of one
iteration has a start t_v and nothing else, every term is linear in the starts and in I, and what other iterations do
is told in sums only: what warp groups issue, how deep rings are, how long registers are occupied. Every schedule
satisfies all of it (each function says why), so an I that it excludes is infeasible; and it excludes in moments
what the whole problem is long about, because warp groups, crossings and lifetimes are all in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from twill.graph.costed import CostedValue
from twill.smt.backend import Outcome, Session
from twill.smt.blocks import blocks_alike, first_of_neighbours
from twill.smt.encoding import Encoding, implies, number, read_end, users
from twill.smt.lazy import LazyRules
from twill.smt.limits import unlimited
from twill.smt.problem import Problem
from twill.smt.rules import interchangeable_slots, issue_time, register_file, variable_latency, warp_uniqueness
from twill.zlp.bound import resident_bytes

Left = Callable[[], float | None]  # the seconds left
RELAXED_EFFORT = 3_000_000  # for each question


class OneIteration(Encoding):
    """The unknowns: warp groups as everywhere, and the start t_v of every instruction of one iteration."""

    def starts_by(self, v: int, latest: int) -> tuple[str, ...]:
        """Instruction v starts at 0 or later, and at `latest` or before."""
        return (f"(<= 0 t{v} {latest})",)


@dataclass
class Relaxation:
    """The relaxation for a closed range of I. problem: without pins, which name rows and stages. left: the seconds
    left; raises OutOfBudget where they end before it is written."""

    problem: Problem
    open_session: Callable[[], Session]
    ii: tuple[int, int]
    left: Left = unlimited
    encoding: OneIteration = field(init=False)
    _crosses: dict[int, str] = field(init=False)  # by value id: that it leaves its warp group

    def __post_init__(self) -> None:
        p = self.problem
        self.encoding = e = OneIteration(
            p.graph, p.machine, self.open_session(), self.ii, pinned=p.names_instructions, named_slots=p.names_slots,
            left=self.left,
        )  # fmt: skip
        warp_uniqueness(e)
        interchangeable_slots(e)
        variable_latency(e)
        register_file(e)
        self._crosses = issue_time(e)
        LazyRules(e).assert_residents()
        for v in p.graph.instructions:
            e.session.declare(f"t{v.id}", "Int")
        dependences(e)
        holds(e)
        uses(e)
        rings(e)
        registers(e)
        interchangeable_blocks(e)
        p.demand(e)
        e.flush()

    @property
    def solver(self) -> str:
        """Who answers."""
        return self.encoding.session.name

    def possible(self, top: int, seconds: float | None) -> tuple[Outcome, int]:
        """Whether some I from the range's lower end to `top` passes; if one does, that I."""
        answer = self.encoding.session.check(
            [f"(<= {self.encoding.interval} {top})"], seconds=seconds, effort=RELAXED_EFFORT
        )
        return answer.outcome, answer.values.get("I", self.ii[0])

    def close(self, top: int) -> None:
        """Excludes every I <= `top` from the questions to come."""
        self.encoding.add(f"(< {top} {self.encoding.interval})")

    def sharpen(self) -> None:
        """Ask more: holds and uses of an iteration are disjoint from those of its neighbours, too, and spills from
        holds and from one another."""
        for iterations in (-1, 1):
            holds(self.encoding, iterations)
            uses(self.encoding, iterations)
        for iterations in (-1, 0, 1):
            spills(self.encoding, self._crosses, iterations)
        self.encoding.flush()

    def excluded(self, candidates: Sequence[int], at_most: Callable[[int], str], seconds: Left) -> int:
        """How many of the first of `candidates` (rising) have no model with at_most(candidate)."""
        low, high = 0, len(candidates)
        probe = 0
        while low < high:
            answer = self.encoding.session.check([at_most(candidates[probe])], seconds=seconds(), effort=RELAXED_EFFORT)
            low, high = (probe + 1, high) if answer.outcome == "unsat" else (low, probe)
            probe = (low + high) // 2
        return low

    def keep(self, term: str) -> None:
        """A term for every question still to come."""
        self.encoding.add(term)
        self.encoding.flush()


def least_possible(relaxation: Relaxation, seconds: Left, least: int | None = None) -> int:
    """An I, as large as the effort for each question allows, below which the relaxation has no model.

    At most one more than the range's upper end, which means that there is no model in the range at all.
    least: below which that is known.
    """
    low, high = relaxation.ii
    low = max(low, least or low)
    probe = low
    while low <= high:
        outcome, ii = relaxation.possible(probe, seconds())
        if outcome == "unknown":
            if probe == low:
                return low
            high = probe - 1  # what is above is left alone
        elif outcome == "sat":
            high = ii - 1
        else:
            low = probe + 1
            relaxation.close(probe)
        probe = (low + high) // 2
    return low


def dependences(e: Encoding) -> None:
    """The rule itself: t_v + δ·I >= t_u + delay, and + crossing between warp groups."""
    for d in e.graph.edges:
        if d.src == d.dst:
            continue
        waited = f"(- (+ t{d.dst} {e.times(d.distance)}) t{d.src})"
        e.add(f"(>= {waited} {number(d.delay)})")
        same = e.same(d.src, d.dst)
        if d.crossing and same != "true":
            crossed = f"(>= {waited} {number(d.delay + d.crossing)})"
            e.add(crossed if same == "false" else f"(or {same} {crossed})")


def holds(e: Encoding, iterations: int = 0) -> None:
    """Disjoint modulo I is disjoint for the instructions of one iteration, and of two that are `iterations` apart."""
    held = [i for i in e.graph.instructions if i.hold]
    for a, b in combinations(held, 2):
        later = f"(+ t{b.id} {e.times(iterations)})"
        term = implies([e.same(a.id, b.id)], _apart(f"t{a.id}", a.hold, later, b.hold))
        if term is not None:
            e.add(term)


def uses(e: Encoding, iterations: int = 0) -> None:
    """The same for the busy intervals of each unit, and the sum of an interleaved one."""
    for unit, mine in users(e.graph).items():
        e.add(f"(<= {sum(use.cycles for _, use in mine)} {e.interval})")
        if unit in e.graph.interleaved:
            continue
        for (u, a), (v, b) in combinations(mine, 2):
            if u != v:
                later = f"(+ t{v} {b.start} {e.times(iterations)})"
                e.add(_apart(f"(+ t{u} {a.start})", a.cycles, later, b.cycles))


def spills(e: Encoding, crosses: Mapping[int, str], iterations: int) -> None:
    """The same for the time in which a value leaves its warp group: nothing of that group is held, and nothing else
    leaves it. crosses: the literal that a value leaves, by its id."""
    moved = {x: e.instruction(e.value(x).producer) for x in crosses}
    for x, producer in moved.items():
        spill, leaves = e.value(x).spill, f"(+ t{producer.id} {producer.latency})"
        for other in e.graph.instructions:
            if not other.hold:
                continue
            later = f"(+ t{other.id} {e.times(iterations)})"
            apart = _apart(leaves, spill, later, other.hold)
            term = implies([crosses[x], e.same(producer.id, other.id)], apart)
            if term is not None:
                e.add(term)
        for y, of in moved.items():
            if y <= x:
                continue
            later = f"(+ t{of.id} {of.latency} {e.times(iterations)})"
            apart = _apart(leaves, spill, later, e.value(y).spill)
            term = implies([crosses[x], crosses[y], e.same(producer.id, of.id)], apart)
            if term is not None:
                e.add(term)


def rings(e: Encoding) -> None:
    """A ring of k slots holds a value for at most k·I, and the slots fit the memory."""
    for memory in e.machine.memories:
        space = memory.name
        values = [x for x in e.graph.values if x.space == space and x.storage is None]
        room = int(memory.bytes.value) - resident_bytes(e.graph, space)
        spare = room - sum(x.bytes for x in values)
        if spare < 0:
            e.add("false")
        slots: list[str] = []
        for x in values:
            if not x.bytes or spare < 0:
                continue
            most, depth = spare // x.bytes + 1, f"depth{x.id}"
            e.session.declare(depth, "Int")
            e.add(f"(<= 1 {depth} {most})")
            slots.append(f"(* {x.bytes} {depth})")
            for lived, iterations in _lives(e, x, f"t{x.producer}"):
                for k in range(1, most + 1):
                    e.add(f"(or (< {k} {depth}) (<= {lived} {e.times(k - iterations)}))")
        if slots:
            e.add(f"(<= (+ 0 {' '.join(slots)}) {room})")


def registers(e: Encoding) -> None:
    """What a warp group's values occupy in I cycles; of values so wide that two never fit, one at a time.

    A value is alive at its own birth, beside what is resident. Over I cycles, the registers of a warp group's values
    times the cycles they live are at most what the largest budget leaves, times I. And where two of a set of
    values exceed it together, their lives are disjoint modulo I, and so together no longer than I.
    """
    granule = e.machine.register_file.granule
    retained = [x for x in e.graph.values if x.space == "register" and x.storage is None and x.registers and x.reads]
    for x in retained:
        producer = e.instruction(x.producer)
        e.session.declare(f"life{x.id}", "Int")
        e.add(f"(<= 0 life{x.id})")
        born = f"t{x.producer}" if producer.asynchronous else f"(+ t{x.producer} {producer.hold})"
        for lived, iterations in _lives(e, x, born):
            e.add(f"(<= (+ {lived} {e.times(iterations)}) life{x.id})")
    for slot in e.slots:
        room = slot.context.max_registers - int(slot.context.overhead.value)
        made = [x for x in retained if slot in e.slots_of(x.producer)]
        lives = {x.id: f"life{x.id}_{slot.id}" for x in made}  # the life if it is made here, or any number >= 0
        for x in made:
            member, life = e.member(x.producer, slot), lives[x.id]
            e.session.declare(life, "Int")
            e.add(f"(and (<= 0 {life}) (=> {member} (<= life{x.id} {life})))")
            fits = f"(<= (+ resident{slot.id} {x.registers}) (* {granule} b{slot.id}))"
            e.add(f"(=> (and {member} (< 0 life{x.id})) {fits})")
        wide = [lives[x.id] for x in made if 2 * x.registers > room]
        if wide:
            e.add(f"(<= (+ 0 {' '.join(wide)}) {e.interval})")
        if made:
            e.add(f"(<= (+ 0 {' '.join(f'(* {x.registers} {lives[x.id]})' for x in made)}) {e.times(room)})")


def interchangeable_blocks(e: Encoding) -> None:
    """Row blocks are alike: the first instruction of each starts no later than the next block's."""
    if e.pinned or not blocks_alike(e.graph):
        return
    for a, b in first_of_neighbours(e.graph):
        e.add(f"(<= t{a} t{b})")


def _lives(e: Encoding, x: CostedValue, born: str) -> list[tuple[str, int]]:
    """For each read: cycles and iterations from `born` to its end; a result in memory that nothing reads lasts too."""
    ends = [(f"t{r.reader}", read_end(e.instruction(r.reader)), r.distance) for r in x.reads]
    if not ends and x.space != "register":
        ends = [(f"t{x.producer}", e.instruction(x.producer).latency, 0)]
    return [(f"(- (+ {reader} {offset}) {born})", distance) for reader, offset, distance in ends]


def _apart(a: str, a_cycles: int, b: str, b_cycles: int) -> str:
    return f"(or (>= (- {b} {a}) {a_cycles}) (>= (- {a} {b}) {b_cycles}))"
