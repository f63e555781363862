"""The unknowns of the paper's own form: one Boolean for each instruction, iteration and cycle.

The paper (arXiv 2512.18134, section 4) lays ⌈L/I⌉ iterations of a loop over one another, I cycles apart: prologue, one
pass of the steady state and epilogue are a straight-line program of T = (⌈L/I⌉ - 1)·I + L cycles. op(v, i, t) says that
iteration i issues instruction v at cycle t of it, for i in [0, ⌈L/I⌉) and t in [0, T).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph, CostedValue
from twill.machine.description import Machine
from twill.smt.encoding import negated, owners
from twill.zlp.slots import Slot, slots_of


@dataclass
class Grid:
    """A window with a literal for each instruction, iteration and cycle at which it may be issued.

    Literals are SMT-LIB terms: a declared name, its negation, "true" or "false".

    ii: I in cycles. length: L in cycles; no instruction completes later. Declarations and
    assertions collect in `text`, counted in `variables` and `clauses`.
    """

    graph: CostedGraph
    machine: Machine
    ii: int
    length: int
    slots: tuple[Slot, ...] = ()
    text: list[str] = field(default_factory=list)
    variables: int = 0
    clauses: int = 0
    _owner: dict[int, int] = field(default_factory=dict)
    _same: dict[tuple[int, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = slots_of(self.machine)
        self._owner = owners(self.graph)

    # -- assertions ---------------------------------------------------------------------------

    def declare(self, name: str) -> str:
        """A new Boolean unknown."""
        self.variables += 1
        self.text.append(f"(declare-const {name} Bool)")
        return name

    def clause(self, *literals: str) -> None:
        """At least one of `literals` is true."""
        if "true" in literals:
            return
        self.clauses += 1
        left = [x for x in literals if x != "false"]
        self.text.append(f"(assert (or false {' '.join(left)}))")

    def none(self, others: Sequence[str], *conditions: str) -> None:
        """If all of `conditions` are true, none of `others`, which are declared literals, is."""
        if "false" in conditions or not others:
            return
        self.clauses += len(others)
        left = " ".join(f"(not {x})" for x in conditions if x != "true")
        self.text.append(f"(assert (or (not (or false {' '.join(others)})) {left}))")

    def at_most_one(self, literals: Sequence[str]) -> None:
        """No two of `literals` are true."""
        self.at_most([(1, x) for x in literals], 1)

    def at_most(self, terms: Iterable[tuple[int, str]], bound: int) -> None:
        """The weights of the true literals sum up to `bound` or less (weights >= 0)."""
        free = []
        for weight, literal in terms:
            if literal == "true":
                bound -= weight
            elif literal != "false" and weight:
                free.append((weight, literal))
        if bound < 0:
            self.clause()
        elif sum(weight for weight, _ in free) > bound:
            self.clauses += 1
            weights = " ".join(str(weight) for weight, _ in free)
            literals = " ".join(literal for _, literal in free)
            self.text.append(f"(assert ((_ pble {bound} {weights}) {literals}))")

    # -- time ---------------------------------------------------------------------------------

    def latest(self, v: int) -> int:
        """The last cycle at which iteration 0 can issue v and complete by L; negative if there is none."""
        return self.length - self.graph.instructions[v].latency

    # -- warp groups --------------------------------------------------------------------------

    def owner(self, v: int) -> int:
        """The instruction whose warp group v shares by its single-issuer tag (v itself without one)."""
        return self._owner[v]

    def slots_of(self, v: int) -> tuple[Slot, ...]:
        """Slots whose context may issue v and everything that shares its single-issuer tag."""
        tied = [i for i in self.graph.instructions if self._owner[i.id] == self._owner[v]]
        return tuple(s for s in self.slots if all(s.context.name in i.contexts for i in tied))

    def member(self, v: int, slot: Slot) -> str:
        """The literal "v is in slot" (the paper's opw)."""
        return f"opw{self._owner[v]}_{slot.id}" if slot in self.slots_of(v) else "false"

    def same(self, u: int, v: int) -> str:
        """The literal "u and v are in one warp group"."""
        u, v = sorted((self._owner[u], self._owner[v]))
        if u == v:
            return "true"
        if (u, v) in self._same:
            return self._same[u, v]
        if not set(self.slots_of(u)) & set(self.slots_of(v)):
            self._same[u, v] = "false"
            return "false"
        literal = self._same[u, v] = self.declare(f"same{u}_{v}")
        for slot in self.slots:
            mine, theirs = self.member(u, slot), self.member(v, slot)
            self.clause(negated(mine), negated(theirs), literal)
            self.clause(negated(literal), negated(mine), theirs)
            self.clause(negated(literal), negated(theirs), mine)
        return literal

    def crosses(self, x: CostedValue) -> str:
        """A literal that is true if some reader of x is in another warp group (cross-warp spill)."""
        same = [self.same(x.producer, read.reader) for read in x.reads]
        if "false" in same:
            return "true"
        if all(literal == "true" for literal in same):
            return "false"
        crossing = self.declare(f"crosses{x.id}")
        for literal in same:
            self.clause(literal, crossing)
        return crossing

    # -- times --------------------------------------------------------------------------------

    @property
    def copies(self) -> int:
        """⌈L / I⌉: iterations that overlap."""
        return max(1, -(-self.length // self.ii))

    @property
    def cycles(self) -> int:
        """T: cycles of the straight-line program."""
        return (self.copies - 1) * self.ii + self.length

    @property
    def steady(self) -> range:
        """The cycles in which every iteration that overlaps is there: one for each row modulo I."""
        return range((self.copies - 1) * self.ii, self.copies * self.ii)

    def op(self, v: int, i: int, t: int) -> str:
        """The literal "iteration i issues v at cycle t"; "false" where completion or consistency leave no other choice.

        An iteration outside [0, ⌈L/I⌉), which the paper does not look at, has the literals of iteration 0.
        """
        if not 0 <= t - i * self.ii <= self.latest(v):
            return "false"
        return f"op{v}_{i}_{t}" if 0 <= i < self.copies else f"op{v}_0_{t - i * self.ii}"

    def first(self, v: int, t: int) -> str:
        """The literal "iteration 0 issues v at cycle t"."""
        return self.op(v, 0, t)

    def issues(self, v: int, i: int) -> range:
        """The cycles at which iteration i may issue v."""
        return range(i * self.ii, i * self.ii + self.latest(v) + 1)

    def issued(self, v: int, first: int, last: int, lowest: int | None = 0) -> list[str]:
        """For every iteration from `lowest` on (None: any), the literals "it issues v at a cycle of [first, last]"."""
        begins = -(-(first - self.latest(v)) // self.ii)
        if lowest is not None:
            begins = max(begins, lowest)
        highest = min(last // self.ii, self.copies - 1)
        found = (self.op(v, i, t) for i in range(begins, highest + 1) for t in range(first, last + 1))
        return [literal for literal in found if literal != "false"]

    def pairs(self, distance: int) -> Iterator[tuple[int, int]]:
        """Iterations i and i + distance of the straight-line program; one pair if it is shorter than that."""
        yield from [(i, i + distance) for i in range(self.copies - distance)] or [(0, distance)]
