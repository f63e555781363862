"""A dataflow analysis: the law by which each value of a program changes when the shifts of its loops are replaced
(`twill.tile.rewrite.rescale_algebra`).

Carried values may follow any law, the same before and after each iteration, but for the shift they are made with. It is
found from what is yielded, and then held against what enters the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from twill.tile.program import Carry, Loop, Op, TileProgram
from twill.tile.rewrite.rescale_algebra import BROKEN, OPEN, STILL, Degrees, Law, NotCompensated, of, same
from twill.tile.rewrite.rescale_rules import Made, law_of, numbers_of

EFFECTS = frozenset({"tile_store", "tile_reduce"})


@dataclass(frozen=True)
class Shift:
    """A running maximum that a loop carries: `maximum` is the operation max(carry.argument, what comes in)."""

    loop: int
    carry: Carry
    maximum: Op

    @property
    def before(self) -> str:
        """The symbol of the shift that an iteration finds."""
        return f"{self.loop}.{self.carry.argument} before"

    @property
    def after(self) -> str:
        """Of the one that it leaves."""
        return f"{self.loop}.{self.carry.argument} after"

    @property
    def behind(self) -> str:
        """Of the one that leaves the loop."""
        return f"{self.loop}.{self.carry.argument} behind"


@dataclass(frozen=True)
class Objection:
    """Why a shift cannot be replaced."""

    op: Op | None
    why: str

    def said(self) -> str:
        """For people."""
        return f"{self.why} (line {self.op.line})" if self.op else self.why


@dataclass
class RescaleAnalysis:
    """Goes through a program. laws, numbers: by value. objections: where the law of a value is broken."""

    program: TileProgram
    shifts: Mapping[int, tuple[Shift, ...]]  # by loop
    laws: dict[int, Law] = field(default_factory=dict)
    numbers: dict[int, float | None] = field(default_factory=dict)
    objections: list[Objection] = field(default_factory=list)
    broken: dict[int, Objection] = field(default_factory=dict)  # carried values, and why

    def run(self) -> RescaleAnalysis:
        """The whole program."""
        for argument in self.program.arguments:
            self.laws[argument.value] = STILL
        self.block(self.program.body)
        return self

    def block(self, items: Iterable[Op | Loop]) -> None:
        """Operations and loops in order."""
        for item in items:
            if isinstance(item, Loop):
                self.loop(item)
            else:
                self.op(item)

    def op(self, op: Op) -> None:
        """One operation."""
        laws = tuple(self.law(operand) for operand in op.operands)
        numbers = tuple(self.numbers.get(operand) for operand in op.operands)
        law = self.law_of(op, laws, numbers)
        for result in op.results:
            self.laws[result] = law
            self.numbers[result] = numbers_of(op, numbers)

    def law(self, value: int) -> Law:
        """Of a value; what is not known (a scalar of an access) is what it was."""
        return self.laws.get(value, STILL)

    def law_of(self, op: Op, laws: tuple[Law, ...], numbers: tuple[float | None, ...]) -> Law:
        """Of an operation's result."""
        shift = next((s for all_ in self.shifts.values() for s in all_ if s.maximum.id == op.id), None)
        if shift is not None:
            other = laws[1] if op.operands[0] == shift.carry.argument else laws[0]
            if not other.still and other != OPEN:
                self.object(op, "it is the maximum of what depends on itself")
            kind = self.program.type_of(op.results[0])
            return of("sum", [(shift.after, 1.0)], rows_of(kind.shape))
        if op.kind in EFFECTS and BROKEN not in laws and not all(law.still for law in laws):
            self.object(op, "it is stored")
        if not op.results:
            return STILL
        types = tuple(self.program.type_of(operand) for operand in op.operands)
        try:
            return law_of(Made(op, laws, types, numbers, self.program.type_of(op.results[0])))
        except NotCompensated as broken:
            self.object(op, str(broken))
            return BROKEN

    def object(self, op: Op | None, why: str) -> None:
        """Notes an objection."""
        self.objections.append(Objection(op, why))

    # -- loops --------------------------------------------------------------------------------

    def loop(self, loop: Loop) -> None:
        """The body until the laws of carried values agree; then what enters and what leaves."""
        shifts = self.shifts.get(loop.id, ())
        known = len(self.objections)
        self.laws[loop.induction] = STILL
        mine = {shift.carry.argument: shift for shift in shifts}
        arguments = {carry.argument: self.argument(carry, mine) for carry in loop.carried}
        while True:
            del self.objections[known:]
            found = self.iteration(loop, arguments, shifts)
            if found == arguments:
                if OPEN not in arguments.values():
                    break
                found = {value: STILL if law == OPEN else law for value, law in arguments.items()}
            arguments = found
        for carry in loop.carried:
            self.enter(carry, arguments[carry.argument], shifts)
            law = arguments[carry.argument]
            for shift in shifts:
                law = law.renamed(shift.before, ((shift.behind, 1.0),))
            self.laws[carry.result] = law

    def argument(self, carry: Carry, mine: Mapping[int, Shift]) -> Law:
        """What is known of a carried value to begin with."""
        if carry.argument not in mine:
            return OPEN
        shape = self.program.type_of(carry.argument).shape
        return of("sum", [(mine[carry.argument].before, 1.0)], rows_of(shape))

    def iteration(self, loop: Loop, arguments: Mapping[int, Law], shifts: tuple[Shift, ...]) -> dict[int, Law]:
        """The laws of carried values in front of the next iteration. One that differs from a known one is broken."""
        self.laws.update(arguments)
        self.block(loop.body)
        found = {}
        for carry in loop.carried:
            law, was = self.law(carry.yielded), arguments[carry.argument]
            if any(symbol == shift.before for symbol, _ in law.degrees for shift in shifts):
                self.object(None, f"`{carry.name}` keeps what was made with the shift of an iteration before")
                law = BROKEN
            for shift in shifts:
                law = law.renamed(shift.after, ((shift.before, 1.0),))
            found[carry.argument] = was if law == OPEN else self.settled(carry, was, law)
        return found

    def settled(self, carry: Carry, was: Law, now: Law) -> Law:
        """The law of a carried value, given the one that it had so far."""
        if was == BROKEN:  # what follows from it raises no objection
            self.objections.append(self.broken[carry.argument])
            return BROKEN
        now = STILL if now.still else now
        try:
            if now != BROKEN:
                same(was, now)
                return now if was == OPEN else was
        except NotCompensated:
            self.object(None, f"`{carry.name}` is not corrected when the shift changes")
        self.broken[carry.argument] = self.objections[-1]
        return BROKEN

    def enter(self, carry: Carry, law: Law, shifts: tuple[Shift, ...]) -> None:
        """Holds what enters a loop against the law of its argument."""
        for shift in shifts:
            law = law.renamed(shift.before, self.entering(shift))
        init = self.law(carry.init)
        if BROKEN in (init, law):
            if init == BROKEN and law != BROKEN:
                self.object(None, f"`{carry.name}` enters a loop with a value that is not corrected")
            return
        try:
            same(init, law)
        except NotCompensated:
            self.object(None, f"`{carry.name}` enters a loop with a value of another shift")

    def entering(self, shift: Shift) -> Degrees:
        """How the shift that enters a loop differs from the kernel's own."""
        init = self.law(shift.carry.init)
        return init.degrees if init.kind == "sum" else ()


def rows_of(shape: tuple[int, ...]) -> int:
    """The axis of a shift's rows: the one that is longer than 1; -1 if there is not just one."""
    longer = [axis for axis, extent in enumerate(shape) if extent > 1]
    return longer[0] if len(longer) == 1 else -1
