"""Uniform scalars of a tile program: what they depend on, as text, and loop trip counts."""

from __future__ import annotations

from dataclasses import dataclass

from twill.reach import reach
from twill.tile.affine import Polynomial
from twill.tile.fold import fold
from twill.tile.program import Loop, TileProgram, reads
from twill.tile.trip import Trip
from twill.tile.uniformity import Uniformity
from twill.tile.vocabulary import ACCESS, REDUCE

GRID = frozenset({"program_id", "num_programs", "visited"})
SIGNS = {"div": "/", "rem": "%"}


@dataclass(frozen=True)
class Scalars:
    """Answers for one program."""

    program: TileProgram
    uniformity: Uniformity

    def reach(self, value: int) -> frozenset[int]:
        """The value and every value it is computed from."""
        return frozenset(reach([value], self._needs))

    def _needs(self, value: int) -> tuple[int, ...]:
        carry = self.uniformity.carries.get(value)
        if carry is not None:
            return carry.init, carry.yielded
        op = self.uniformity.makers.get(value)
        return reads(op) if op else ()

    def reach_of(self, polynomial: Polynomial) -> frozenset[int]:
        """Every value that a polynomial over scalars depends on."""
        return frozenset[int]().union(*(self.reach(symbol) for symbol in polynomial.symbols()))

    def varies_with_grid(self, value: int) -> bool:
        """Whether the value depends on a grid index."""
        ops = (self.uniformity.makers.get(v) for v in self.reach(value))
        return any(op is not None and op.kind in GRID for op in ops)

    def number(self, value: int) -> int | None:
        """The integer that the value is known to be."""
        op = self.uniformity.makers.get(value)
        if op is None:
            return None
        if op.kind == "constant":
            known = op.attribute("value")
            return known if isinstance(known, int) else None
        numbers = [self.number(operand) for operand in op.operands]
        given = [number for number in numbers if number is not None]
        if not given or len(given) < len(numbers):
            return None
        return fold(op.kind, given, dict(op.attributes), self.program.type_of(value).element)

    def polynomial(self, value: int) -> Polynomial:
        """The value as a polynomial over scalars that are none themselves."""
        op, number = self.uniformity.makers.get(value), self.number(value)
        if number is not None:
            return Polynomial.constant_of(number)
        if op is None or op.kind not in ("add", "sub", "mul", "cast"):
            return Polynomial.symbol(value)
        operands = [self.polynomial(operand) for operand in op.operands]
        if op.kind == "cast":
            return operands[0]
        return {"add": Polynomial.__add__, "sub": Polynomial.__sub__, "mul": Polynomial.__mul__}[op.kind](*operands)

    def trip(self, loop: Loop) -> Trip:
        """The trip count of a loop."""
        span = self.polynomial(loop.upper) - self.polynomial(loop.lower)
        step = self.polynomial(loop.step)
        bounds = (loop.lower, loop.upper, loop.step)
        constant = None
        if span.is_constant and step.is_constant and step.constant > 0:
            constant = max(0, -(-span.constant // step.constant))
        trips = span.divide_exactly(step) if step else None
        text = self.sum_text(trips) if trips else f"cdiv({self.sum_text(span)}, {self.sum_text(step)})"
        varies = constant is None and any(map(self.varies_with_grid, bounds))
        return Trip(text=text if constant is None else str(constant), constant=constant, varies_with_grid=varies)

    def sum_text(self, polynomial: Polynomial) -> str:
        """A polynomial in kernel terms."""
        names = {symbol: self.text(symbol) for symbol in polynomial.symbols()}
        alone = len(polynomial.terms) == 1 and polynomial.terms[0][1] == 1
        if not (alone and len(names) == 1):
            names = {symbol: f"({text})" if " / " in text or " % " in text else text for symbol, text in names.items()}
        return polynomial.text(names)

    def text(self, value: int) -> str:
        """The value in kernel terms: "(K + 63) / 64"."""
        polynomial = self.polynomial(value)
        if polynomial != Polynomial.symbol(value):
            return self.sum_text(polynomial)
        op, name = self.uniformity.makers.get(value), self.program.values[value].name
        if op is None or op.kind in (*ACCESS, *REDUCE, "visited"):
            return next((a.name for a in self.program.arguments if a.value == value), name or f"%{value}")
        if op.kind in GRID:
            return f"{op.kind}({op.attribute('axis')})"
        if op.kind in SIGNS:
            left, right = (self._factor(operand) for operand in op.operands)
            return f"{left} {SIGNS[op.kind]} {right}"
        return f"{op.kind}({', '.join(self.text(operand) for operand in op.operands)})"

    def _factor(self, value: int) -> str:
        """The text of an operand of a division, in parentheses where it is an expression."""
        text, op = self.text(value), self.uniformity.makers.get(value)
        polynomial = self.polynomial(value)
        loose = (op is not None and op.kind in SIGNS) or len(polynomial.terms) > 1 or "*" in polynomial.text({})
        return f"({text})" if loose and not polynomial.is_constant else text
