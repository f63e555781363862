"""Scalars as polynomials; those that are none (quotients, minima, ...) as symbols, equal ones as one.

A symbol is the id of the first value of the program that computes it (value numbering), with what
is known of it: a divisor, whether it is negative, whether a launch fixes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from twill.tile.affine import Polynomial
from twill.tile.program import Op, TileType


@dataclass(frozen=True)
class Fact:
    """What is known of a symbol. divisor: it is a multiple of it. nonnegative: it is >= 0.
    fixed: it is the same in every program instance and iteration of a launch. settled: in every iteration of one
    program instance.
    """

    divisor: int = 1
    nonnegative: bool = False
    fixed: bool = False
    settled: bool = False


class SymbolicScalars:
    """The symbols met so far, and the polynomial of every integer scalar that is computed from them."""

    def __init__(self) -> None:
        self.facts: dict[int, Fact] = {}
        self._numbers: dict[object, int] = {}

    def copy(self) -> SymbolicScalars:
        """An independent copy, to try something out."""
        other = SymbolicScalars()
        other.facts, other._numbers = dict(self.facts), dict(self._numbers)
        return other

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Symbols first met inside do not stand for values outside: a loop's body."""
        outer = dict(self._numbers)
        yield
        self._numbers = outer

    def divisors(self) -> Mapping[int, int]:
        """The known divisor of every symbol."""
        return {symbol: fact.divisor for symbol, fact in self.facts.items()}

    def declare(self, symbol: int, fact: Fact = Fact()) -> Polynomial:  # noqa: B008 - Fact is frozen
        """A symbol of its own: an argument, an induction variable, a loaded scalar."""
        self.facts[symbol] = fact
        return Polynomial.symbol(symbol)

    def nonnegative(self, value: Polynomial) -> bool:
        """Whether the polynomial is provably >= 0."""
        return all(
            coefficient > 0 and all(self.facts[s].nonnegative or power % 2 == 0 for s, power in monomial)
            for monomial, coefficient in value.terms
        )

    def fixed(self, value: Polynomial) -> bool:
        """Whether the polynomial has one value in the whole launch."""
        return all(self.facts[symbol].fixed for symbol in value.symbols())

    def settled(self, value: Polynomial) -> bool:
        """Whether the polynomial has one value in a program instance."""
        return all(self.facts[symbol].fixed or self.facts[symbol].settled for symbol in value.symbols())

    def compute(
        self, op: Op, operands: Sequence[Polynomial], types: Sequence[TileType], result: TileType
    ) -> Polynomial:
        """The result of a pure operation on scalars. types: of the operands."""
        if result.element.startswith("i") and result.element != "i1":
            exact = self._exact(op, operands, (*types, result))
            if exact is not None:
                return exact
        if op.kind in ("add", "mul", "min", "max", "and", "or", "xor"):
            operands = sorted(operands, key=lambda operand: operand.terms)
        key = (op.kind, op.attributes, result, tuple(operands))
        if key not in self._numbers:
            self._numbers[key] = op.results[0]
            settled = all(self.settled(operand) for operand in operands)
            self.facts[op.results[0]] = replace(self._fact(op, operands), settled=settled)
        return Polynomial.symbol(self._numbers[key])

    def _exact(self, op: Op, operands: Sequence[Polynomial], types: Sequence[TileType]) -> Polynomial | None:
        """The result as a polynomial in the operands' symbols, if it is one. types: the result's last."""
        match op.kind:
            case "constant":
                return Polynomial.constant_of(int(op.attribute("value")))  # type: ignore[arg-type]
            case "add":
                return operands[0] + operands[1]
            case "sub":
                return operands[0] - operands[1]
            case "mul":
                return operands[0] * operands[1]
            case "shl":
                known = operands[1].is_constant and 0 <= operands[1].constant < 63
                return operands[0] * (1 << operands[1].constant) if known else None
            case "cast":
                number = types[0].element in ("i8", "i16", "i32", "i64") and types[1].element in ("i32", "i64")
                signed = dict(op.attributes).get("signed") or self.nonnegative(operands[0])
                return operands[0] if number and signed else None
            case "div" | "rem":
                quotient = operands[0].divide_exactly(operands[1]) if operands[1] else None
                return quotient if op.kind == "div" or quotient is None else Polynomial()
            case "min" | "max":
                return self._choose(op.kind, *operands)
        return None

    def _choose(self, kind: str, left: Polynomial, right: Polynomial) -> Polynomial | None:
        if self.nonnegative(left - right):
            return left if kind == "max" else right
        if self.nonnegative(right - left):
            return right if kind == "max" else left
        return None

    def _fact(self, op: Op, operands: Sequence[Polynomial]) -> Fact:
        fixed = op.kind not in ("program_id", "visited") and all(self.fixed(operand) for operand in operands)
        if op.kind in ("program_id", "num_programs"):
            return Fact(1, True, fixed)
        signs = [self.nonnegative(operand) for operand in operands]
        if op.kind == "div":
            return Fact(1, all(signs), fixed)
        if op.kind == "rem":  # has the sign of the dividend
            return Fact(self._common(operands), signs[0], fixed)
        if op.kind in ("min", "max"):
            return Fact(self._common(operands), all(signs) or (op.kind == "max" and any(signs)), fixed)
        return Fact(1, op.kind == "abs", fixed)

    def _common(self, operands: Sequence[Polynomial]) -> int:
        """A number that divides all operands. Never 0: operands that are all 0 have exact results."""
        return math.gcd(*(operand.divisor(self.divisors()) for operand in operands)) or 1
