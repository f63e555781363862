"""The unknowns of the compact start-time encoding, and the terms built from them.

Instruction v starts at t_v = stage_v·I + row_v. Warp groups are one-hot over slots, one slot for
each warp group that the machine can host. Rows are compared pairwise, so the size of the problem
depends on the number of instructions and not on cycle counts. I is a constant, or an unknown in
a closed range: every term is linear in it, because it is multiplied by constants only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph, CostedValue, Instruction, Use
from twill.machine.description import Machine
from twill.smt.backend import Session
from twill.smt.limits import OutOfBudget, unlimited
from twill.zlp.bound import ceil_div
from twill.zlp.slots import Slot, slots_of

AT_ONCE = 4096  # terms that are written, or handed over, between two looks at the clock


@dataclass(frozen=True)
class Point:
    """An instant `offset` cycles after an instruction's start, as row and stage terms."""

    row: str
    stage: str


@dataclass(frozen=True)
class RuleOrigin:
    """Where a constraint comes from: the rule of docs/model.md and the instructions it is about."""

    rule: str
    instructions: tuple[int, ...] = ()


@dataclass
class Encoding:
    """Declares unknowns on demand in `session` and asserts terms under their origin.

    With `explain`, every origin gets a literal that `check` can assume, so that an unsatisfiable
    core names origins. left: the seconds left. The terms of a loop of hundreds of instructions take longer to write and
    read than to decide: whatever adds or hands over terms raises OutOfBudget when there is no time left.
    """

    graph: CostedGraph
    machine: Machine
    session: Session
    ii: tuple[int, int]
    explain: bool = False
    pinned: bool = False  # pins name instructions, so row blocks are not interchangeable
    named_slots: bool = False  # pins name warp groups, so slots are not interchangeable
    rotates: bool = True  # no pin names a time, so all starts may be moved together
    dropped: frozenset[RuleOrigin] = frozenset()  # constraints left out, to check an explanation
    slots: tuple[Slot, ...] = ()
    origins: dict[str, RuleOrigin] = field(default_factory=dict)
    asserted: int = 0  # how many terms the solver was given
    left: Callable[[], float | None] = unlimited
    _added: int = 0
    _points: dict[tuple[int, int], Point] = field(default_factory=dict)
    _same: dict[tuple[int, int], str] = field(default_factory=dict)
    _orders: dict[tuple[Point, Point], str] = field(default_factory=dict)
    _pending: list[str] = field(default_factory=list)
    _literals: dict[RuleOrigin, str] = field(default_factory=dict)
    _owner: dict[int, int] = field(default_factory=dict)
    _values: dict[int, CostedValue] = field(default_factory=dict)
    interval: str = ""

    def __post_init__(self) -> None:
        self._values = {x.id: x for x in self.graph.values}
        low, high = self.ii
        self.interval = str(low) if low == high else "I"
        if low != high:
            self.session.declare("I", "Int")
            self.add(f"(<= {low} I {high})")
        self.slots = slots_of(self.machine)
        self._owner = owners(self.graph)

    # -- assertions ---------------------------------------------------------------------------

    def add(self, term: str, origin: RuleOrigin | None = None) -> None:
        """Assert `term`, under its origin's literal when explaining."""
        if origin is not None and origin in self.dropped:
            return
        self._added += 1
        if self._added % AT_ONCE == 0:
            self._in_time()
        if origin is None or not self.explain:
            self._pending.append(term)
            return
        literal = self._literals.get(origin)
        if literal is None:
            literal = self._literals[origin] = f"because{len(self._literals)}"
            self.session.declare(literal, "Bool")
            self.origins[literal] = origin
        self._pending.append(f"(=> {literal} {term})")

    def flush(self) -> None:
        """Hand all pending assertions to the solver."""
        for first in range(0, max(1, len(self._pending)), AT_ONCE):
            if first:
                self._in_time()
            self.session.add(self._pending[first : first + AT_ONCE])
        self.asserted += len(self._pending)
        self._pending.clear()

    def _in_time(self) -> None:
        if self.left() == 0:
            raise OutOfBudget

    # -- time ---------------------------------------------------------------------------------

    def anchored(self) -> list[str]:
        """Row 0 is where the first instruction starts: with no bound on L, time can be rotated freely."""
        return [f"(= {self.start(0).row} 0)"] if self.rotates else []

    def start(self, v: int) -> Point:
        """The start of instruction v."""
        return self.point(v, 0)

    def point(self, v: int, offset: int) -> Point:
        """The instant `offset` >= 0 cycles after the start of v, wrapped into [0, I)."""
        known = self._points.get((v, offset))
        if known is not None:
            return known
        tag = f"{v}" if offset == 0 else f"{v}_{offset}"
        point = self._points[v, offset] = Point(f"r{tag}", f"s{tag}")
        self.session.declare(point.row, "Int")
        self.session.declare(point.stage, "Int")
        self.add(f"(and (<= 0 {point.row}) (< {point.row} {self.interval}))")
        if offset == 0:
            self.add(f"(<= 0 {point.stage})")
            return point
        base = self.start(v)
        low, high = self.ii
        cases = []
        for wraps in range(offset // high, offset // low + 2):
            row = f"(= {point.row} (- (+ {base.row} {offset}) {self.times(wraps)}))"
            cases.append(f"(and {row} (= {point.stage} (+ {base.stage} {wraps})))")
        self.add(f"(or {' '.join(cases)})")
        return point

    def times(self, factor: int) -> str:
        """The term factor·I."""
        if self.interval != "I":
            return number(factor * self.ii[0])
        return f"(* {number(factor)} I)"

    def starts_by(self, v: int, latest: int) -> tuple[str, ...]:
        """Terms that together say that instruction v starts at cycle `latest` or before (fixed I)."""
        p = self.start(v)
        stage, row = divmod(latest, self.ii[0])
        return f"(<= {p.stage} {stage})", f"(or (< {p.stage} {stage}) (<= {p.row} {row}))"

    def gap(self, earlier: Point, later: Point, delay: int, distance: int) -> str:
        """later + distance·I >= earlier + delay, as a case split on the stage difference."""
        low, high = self.ii
        first = min(ceil_div(delay + 1, low), ceil_div(delay + 1, high)) - 1  # q·I + (I - 1) >= delay for some I
        always = max(ceil_div(delay - 1, low), ceil_div(delay - 1, high)) + 1  # q·I - (I - 1) >= delay for every I
        stages = f"(- {later.stage} {earlier.stage})"
        clauses = [f"(>= {stages} {number(first - distance)})"]
        for q in range(first, always):
            rows = f"(>= (- {later.row} {earlier.row}) (- {number(delay)} {self.times(q)}))"
            clauses.append(f"(or (>= {stages} {number(q + 1 - distance)}) {rows})")
        return f"(and {' '.join(clauses)})"

    def before(self, a: Point, b: Point) -> str:
        """A literal that is true exactly if row(a) < row(b)."""
        if a == b:
            return "false"
        literal = self._orders.get((a, b))
        if literal is None:
            literal = self._orders[a, b] = f"lt_{a.row}_{b.row}"
            self.session.declare(literal, "Bool")
            self.add(f"(= {literal} (< {a.row} {b.row}))")
        return literal

    def disjoint(self, a: Point, a_cycles: int, b: Point, b_cycles: int) -> str:
        """[a, a + a_cycles) and [b, b + b_cycles) do not meet modulo I."""
        if a_cycles + b_cycles > self.ii[1]:
            return "false"
        clear_a = f"(and (>= (- {b.row} {a.row}) {a_cycles}) (<= (- {b.row} {a.row}) (- {self.interval} {b_cycles})))"
        clear_b = f"(and (>= (- {a.row} {b.row}) {b_cycles}) (<= (- {a.row} {b.row}) (- {self.interval} {a_cycles})))"
        return f"(or {clear_a} {clear_b})"

    # -- warp groups --------------------------------------------------------------------------

    def slots_of(self, v: int) -> tuple[Slot, ...]:
        """Slots whose context may issue v."""
        contexts = set(self.graph.instructions[v].contexts)
        return tuple(s for s in self.slots if s.context.name in contexts)

    def member(self, v: int, slot: Slot) -> str:
        """The literal "instruction v is in slot"."""
        return f"g{self._owner[v]}_{slot.id}"

    def same(self, u: int, v: int) -> str:
        """The term "u and v are in one warp group": "true", "false" or a literal."""
        u, v = sorted((self._owner[u], self._owner[v]))
        if u == v:
            return "true"
        known = self._same.get((u, v))
        if known is not None:
            return known
        mine, theirs = self.slots_of(u), self.slots_of(v)
        common = [s for s in mine if s in theirs]
        if not common:
            self._same[u, v] = "false"
            return "false"
        if len(mine) == len(theirs) == 1:
            self._same[u, v] = "true"
            return "true"
        literal = self._same[u, v] = f"same{u}_{v}"
        self.session.declare(literal, "Bool")
        for slot in common:
            a, b = self.member(u, slot), self.member(v, slot)
            only_a = f"(or (not {a}) {b} (not {literal}))"
            only_b = f"(or {a} (not {b}) (not {literal}))"
            self.add(f"(and (or (not {a}) (not {b}) {literal}) {only_a} {only_b})")
        for w, slots in ((u, mine), (v, theirs)):
            alone = [self.member(w, s) for s in slots if s not in common]
            if alone:
                self.add(f"(or (not {literal}) (and {' '.join(f'(not {m})' for m in alone)}))")
        return literal

    def is_local(self, x: CostedValue) -> str:
        """The term "every reader of x is in its producer's warp group"."""
        terms = sorted({self.same(x.producer, r.reader) for r in x.reads} - {"true"})
        if "false" in terms:
            return "false"
        return "true" if not terms else terms[0] if len(terms) == 1 else f"(and {' '.join(terms)})"

    # -- reading back -------------------------------------------------------------------------

    def value(self, x: int) -> CostedValue:
        """The value with id x."""
        return self._values[x]

    def instruction(self, v: int) -> Instruction:
        """The instruction with id v (ids are positions)."""
        return self.graph.instructions[v]


def read_end(instruction: Instruction) -> int:
    """Cycles from its start until an instruction has read its operands."""
    return instruction.latency if instruction.asynchronous else instruction.hold


def number(value: int) -> str:
    """An SMT-LIB numeral."""
    return str(value) if value >= 0 else f"(- {-value})"


def implies(conditions: Iterable[str], conclusion: str) -> str | None:
    """conditions ⇒ conclusion, simplified; None if it holds trivially."""
    needed = [c for c in conditions if c != "true"]
    if "false" in needed or conclusion == "true":
        return None
    if not needed:
        return conclusion
    left = needed[0] if len(needed) == 1 else f"(and {' '.join(needed)})"
    return f"(not {left})" if conclusion == "false" else f"(=> {left} {conclusion})"


def users(graph: CostedGraph) -> dict[str, list[tuple[int, Use]]]:
    """Which instructions keep each unit busy, and how."""
    found: dict[str, list[tuple[int, Use]]] = {}
    for i in graph.instructions:
        for use in i.uses:
            if use.cycles:
                found.setdefault(use.unit, []).append((i.id, use))
    return found


def owners(graph: CostedGraph) -> dict[int, int]:
    """For each instruction the first that must be in the same warp group: those of one single issuer."""
    first: dict[str, int] = {}
    return {i.id: first.setdefault(i.single_issuer, i.id) if i.single_issuer else i.id for i in graph.instructions}


def negated(literal: str) -> str:
    """The literal that is true exactly if `literal` is false."""
    return {"true": "false", "false": "true"}.get(literal, f"(not {literal})")
