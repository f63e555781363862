"""Whether program instance s + 1 computes what instance s would compute in the second half of a tile twice as long.

Element i of instance s + 1 must be what element size + i of instance s would be, in everything that a kernel computes
along a dimension class. Tiles in memory are `twill.graph.origin`'s to look at; this is about numbers that are made of s
and of indices within a tile: row numbers count on (size·s + i), a row number that begins anew in each instance, or s
itself in a computation, does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twill.graph.dims import Classes
from twill.graph.wiring import Wiring
from twill.graph.work import is_free
from twill.tile.affine import Polynomial
from twill.tile.flat import UNIFORM, Flat, FlatCarry, Step
from twill.tile.program import TileProgram
from twill.tile.scalars import Scalars
from twill.tile.vocabulary import VIEWS

INDEX = -1  # the symbol of an index along the class; cells have those below
SUMS = {"add": Polynomial.__add__, "sub": Polynomial.__sub__, "mul": Polynomial.__mul__}


@dataclass
class NextInstance:
    """What index tiles are, as polynomials of the instance's index s (`scalar`), of the index along the class (INDEX),
    and of what is the same for all instances or is known to go on from one to the next (a symbol for each such cell).

    None: anything else that depends on s.
    """

    program: TileProgram
    flat: Flat
    classes: Classes
    wiring: Wiring
    scalars: Scalars
    dim: int
    scalar: int
    known: dict[int, Polynomial | None] = field(default_factory=dict)

    def goes_on(self) -> bool:
        """Whether it does in everything that is computed, stored and bounded."""
        work = (step for step in self.flat.steps if step.op.kind == "update" or not (step.index or is_free(step)))
        return all(map(self.step_goes_on, work))

    def step_goes_on(self, step: Step) -> bool:
        """Whether all that a step reads does."""
        read = [self.operand(*pair) for pair in zip(step.op.operands, step.operands, strict=True)]
        read += [self.cell(step.updated)] if step.op.kind == "update" else []
        return all(map(self.law_goes_on, (*read, *map(self.of_scalars, self.bounds(step)))))

    def bounds(self, step: Step) -> list[Polynomial]:
        """Bounds of an access along the class."""
        tile = step.results[0] if step.results else step.operands[0]
        if step.op.access is None or tile == UNIFORM:
            return []
        axes = (axis for axis, c in zip(step.op.access.axes, self.classes.of[tile], strict=True) if c == self.dim)
        return [bound for axis in axes for bound in (axis.lower, axis.upper) if bound is not None]

    def law_goes_on(self, law: Polynomial | None) -> bool:
        """Whether the next instance has at i what this one would have at size + i."""
        if law is None:
            return False
        ahead = law.substitute({self.scalar: Polynomial.symbol(self.scalar) + 1})
        return ahead == law.substitute({INDEX: Polynomial.symbol(INDEX) + self.classes.size[self.dim]})

    def operand(self, value: int, cell: int) -> Polynomial | None:
        """The law of an operand: of a cell, or of a uniform scalar."""
        if cell != UNIFORM:
            return self.cell(cell)
        if self.program.type_of(value).shape:
            return Polynomial()  # what a tile is amended to, which is looked at as a cell
        return self.of_scalars(self.scalars.polynomial(value))

    def of_scalars(self, law: Polynomial) -> Polynomial | None:
        """A polynomial over scalars; None if one of them depends on s in another way."""
        others = law.symbols() - {self.scalar}
        return None if any(self.scalar in self.scalars.reach(symbol) for symbol in others) else law

    def cell(self, cell: int) -> Polynomial | None:
        """The law of a cell."""
        if cell not in self.known:
            self.known[cell] = own(cell)  # for one that depends on itself, through a loop
            self.known[cell] = self.found(cell)
        return self.known[cell]

    def found(self, cell: int) -> Polynomial | None:
        """As `cell`, found anew."""
        carry = self.wiring.argument.get(cell) or self.wiring.result.get(cell)
        if carry is not None:
            return self.carried(carry, cell)
        step = self.flat.steps[self.wiring.maker[cell]]
        kind, whole = step.op.kind, self.is_whole(step)
        if kind == "update" or not (step.index or is_free(step)):
            return own(cell)  # looked at where it is made
        if step.op.access is not None:
            return None if self.scalar in self.scalars.reach(self.flat.cells[cell].value) else own(cell)
        if kind == "constant":
            value = step.op.attribute("value")
            return Polynomial.constant_of(value) if whole and isinstance(value, int) else own(cell)
        if kind == "range":
            along = self.dim in self.classes.of[cell]
            return Polynomial.symbol(INDEX) + int(str(step.op.attribute("start"))) if along else own(cell)
        laws = [self.operand(*pair) for pair in zip(step.op.operands, step.operands, strict=True)]
        if len(laws) == 1 and (kind in VIEWS or kind == "splat" or (kind == "cast" and whole)):
            return laws[0]
        if kind in SUMS and whole:
            left, right = laws
            return None if left is None or right is None else SUMS[kind](left, right)
        return own(cell) if all(map(self.law_goes_on, laws)) else None

    def carried(self, carry: FlatCarry, cell: int) -> Polynomial | None:
        """The law of a carried tile: data is looked at where it is made, index arithmetic here."""
        cells = (carry.init, carry.yielded) if carry.pure else ()
        return own(cell) if all(self.law_goes_on(self.cell(c)) for c in cells if c != UNIFORM) else None

    def is_whole(self, step: Step) -> bool:
        """Whether a step works on integers of the sizes that indices are computed in."""
        cells = (*step.results, *step.cells())
        values = (v for v, c in zip(step.op.operands, step.operands, strict=True) if c == UNIFORM)
        kinds = {self.flat.cells[c].type.element for c in cells} | {self.program.type_of(v).element for v in values}
        return kinds <= {"i32", "i64"}


def own(cell: int) -> Polynomial:
    """The symbol of a cell."""
    return Polynomial.symbol(INDEX - 1 - cell)
