"""The unknowns of a statement and the inequalities between instants that its rules are written in.

Instruction v starts at `stage.v · I + row.v` with 0 <= row.v < I. I is a number, or the unknown `I` of a range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.certify.linear import Clause, Literal, at_least, at_most, either
from twill.certify.question import Question
from twill.graph.costed import CostedGraph, Instruction
from twill.machine.description import Context, Machine


@dataclass
class Terms:
    """What rules need to know of one loop and one question about it."""

    graph: CostedGraph
    machine: Machine
    question: Question
    contexts: tuple[Context, ...] = ()  # of each slot
    owner: dict[int, int] = field(default_factory=dict)  # instruction -> the first that must share its warp group

    def __post_init__(self) -> None:
        if [i.id for i in self.graph.instructions] != list(range(len(self.graph.instructions))):
            raise ValueError("the instructions of a costed graph are numbered by their place")
        self.contexts = tuple(c for c in self.machine.contexts for _ in range(c.max_groups))
        first: dict[str, int] = {}
        together: dict[int, set[str]] = {}
        for i in self.graph.instructions:
            mine = self.owner[i.id] = first.setdefault(i.single_issuer, i.id) if i.single_issuer else i.id
            together[mine] = together.get(mine, set(i.contexts)) & set(i.contexts)
        self._able = {
            v: tuple(s for s, context in enumerate(self.contexts) if context.name in together[mine])
            for v, mine in self.owner.items()
        }

    # -- time -----------------------------------------------------------------------------------

    @property
    def ranged(self) -> bool:
        """Whether I is an unknown."""
        return self.question.ii != self.question.ii_to

    def within(self, terms: dict[str, int], bound: int, intervals: int = 0) -> Literal:
        """Σ terms <= bound + intervals · I."""
        if self.ranged:
            return at_most({**terms, "I": -intervals}, bound)
        return at_most(terms, bound + intervals * self.question.ii)

    def rows(self, later: int, earlier: int, least: int, intervals: int = 0) -> Literal:
        """row.later - row.earlier >= least + intervals · I; decided if rows in [0, I) decide it for every I."""
        if later == earlier:
            return self.within({}, -least, -intervals)
        ends = (self.question.ii, self.question.ii_to)
        if all(least + (intervals - 1) * ii >= 0 for ii in ends):
            return False
        if all(least + (intervals + 1) * ii <= 1 for ii in ends):
            return True
        return self.within({f"row.{earlier}": 1, f"row.{later}": -1}, -least, -intervals)

    def turns(self, *cycles: int) -> range:
        """The numbers k for which k · I can lie near a difference of rows plus any of these cycles."""
        most = max(abs(c) for c in cycles) // self.question.ii + 2
        return range(-most, most + 1)

    def gap(self, later: int, earlier: int, delay: int, distance: int, *unless: Literal) -> Iterator[Clause]:
        """t(later) + distance · I >= t(earlier) + delay, unless one of the literals holds.

        For every whole number q: stages are more than q apart, or rows make up for what q intervals leave.
        """
        if later == earlier:
            yield from either(*unless, self.within({}, -delay, distance))
            return
        stages = {f"stage.{later}": 1, f"stage.{earlier}": -1}
        for q in self.turns(delay):
            yield from either(*unless, at_least(stages, q + 1 - distance), self.rows(later, earlier, delay, -q))

    def apart(
        self, a: int, a_use: tuple[int, int], b: int, b_use: tuple[int, int], *unless: Literal
    ) -> Iterator[Clause]:
        """[t(a) + begin, + cycles) and [t(b) + begin, + cycles) do not meet modulo I, unless one of the literals holds.

        For every whole number k: k · I after (or before) a's interval, b's has ended already or not yet begun.
        """
        (a_begin, a_cycles), (b_begin, b_cycles) = a_use, b_use
        if not a_cycles or not b_cycles:
            return
        shift = b_begin - a_begin
        for k in self.turns(abs(shift) + a_cycles, abs(shift) + b_cycles):
            ended = self.rows(a, b, b_cycles + shift, -k)
            begins = self.rows(b, a, a_cycles - shift, k)
            yield from either(*unless, ended, begins)

    # -- warp groups ----------------------------------------------------------------------------

    def able(self, v: int) -> tuple[int, ...]:
        """The slots that may issue v and all that must share its warp group."""
        return self._able[v]

    def member(self, v: int, slot: int) -> Literal:
        """Instruction v is in `slot`."""
        return at_least({f"in.{self.owner[v]}.{slot}": 1}, 1) if slot in self.able(v) else False

    def same(self, u: int, v: int) -> Literal:
        """Instructions u and v are in one warp group."""
        u, v = sorted((self.owner[u], self.owner[v]))
        if u == v:
            return True
        common = set(self.able(u)) & set(self.able(v))
        if len(self.able(u)) == len(self.able(v)) == 1:
            return bool(common)
        return at_least({f"same.{u}.{v}": 1}, 1) if common else False

    def instruction(self, v: int) -> Instruction:
        """The instruction with id v (ids are positions)."""
        return self.graph.instructions[v]


def yes(name: str) -> Literal:
    """A yes-or-no unknown is 1."""
    return at_least({name: 1}, 1)


def read_end(instruction: Instruction) -> int:
    """Cycles from its start until an instruction has read its operands ("Liveness")."""
    return instruction.latency if instruction.asynchronous else instruction.hold
