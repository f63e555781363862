"""Integer polynomials over scalar symbols: offsets, strides, bounds and trip counts of tiles.

A symbol is an integer: the value id of a scalar of the tile program (an argument, a grid index,
an induction variable, or the result of a scalar operation that is no polynomial, such as a
division). Equal polynomials are equal objects: terms are merged, zero terms dropped, order fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Monomial = tuple[tuple[int, int], ...]
"""Sorted (symbol, power) pairs, powers >= 1; () is the constant monomial."""


@dataclass(frozen=True)
class Polynomial:
    """Σ coefficient · monomial. Make one with `constant_of`, `symbol` and arithmetic.

    >>> n = Polynomial.symbol(0)
    >>> ((n + 1) * (n - 1)).text({0: "n"})
    'n*n - 1'
    """

    terms: tuple[tuple[Monomial, int], ...] = ()

    @classmethod
    def of(cls, terms: Iterable[tuple[Monomial, int]]) -> Polynomial:
        """The canonical polynomial with these terms (which may repeat or be zero)."""
        merged: dict[Monomial, int] = {}
        for monomial, coefficient in terms:
            merged[monomial] = merged.get(monomial, 0) + coefficient
        retained = [(m, c) for m, c in merged.items() if c]
        return cls(tuple(sorted(retained, key=lambda term: rank(term[0]), reverse=True)))

    @classmethod
    def constant_of(cls, value: int) -> Polynomial:
        """The polynomial that is `value` everywhere."""
        return cls((((), value),)) if value else cls()

    @classmethod
    def symbol(cls, symbol: int) -> Polynomial:
        """The polynomial that is the symbol itself."""
        return cls(((((symbol, 1),), 1),))

    def __add__(self, other: Polynomial | int) -> Polynomial:
        return Polynomial.of((*self.terms, *as_polynomial(other).terms))

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Polynomial | int) -> Polynomial:
        return self + -as_polynomial(other)

    def __mul__(self, other: Polynomial | int) -> Polynomial:
        factor = as_polynomial(other)
        return Polynomial.of((product(m, n), c * d) for m, c in self.terms for n, d in factor.terms)

    def __radd__(self, other: int) -> Polynomial:
        return self + other

    def __rsub__(self, other: int) -> Polynomial:
        return -self + other

    def __rmul__(self, other: int) -> Polynomial:
        return self * other

    def __bool__(self) -> bool:
        """False for the zero polynomial only."""
        return bool(self.terms)

    @property
    def is_constant(self) -> bool:
        """Whether no symbol occurs."""
        return all(not monomial for monomial, _ in self.terms)

    @property
    def constant(self) -> int:
        """The coefficient of the constant monomial (the whole value if `is_constant`)."""
        return dict(self.terms).get((), 0)

    def symbols(self) -> frozenset[int]:
        """Every symbol that occurs."""
        return frozenset(symbol for monomial, _ in self.terms for symbol, _ in monomial)

    def coefficient_of(self, symbol: int) -> Polynomial:
        """The coefficient c of `symbol` in self = c·symbol + rest, where rest and c are free of
        it; ValueError if the symbol occurs in a higher power.
        """
        taken = []
        for monomial, coefficient in self.terms:
            power = dict(monomial).get(symbol, 0)
            if power > 1:
                raise ValueError(f"symbol {symbol} occurs to the power {power}")
            if power:
                taken.append((tuple(pair for pair in monomial if pair[0] != symbol), coefficient))
        return Polynomial.of(taken)

    def without(self, symbol: int) -> Polynomial:
        """The terms in which `symbol` does not occur."""
        return Polynomial(tuple(term for term in self.terms if symbol not in dict(term[0])))

    def divide(self, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """(q, r) with self = q·divisor + r, where no term of r is divisible by the leading term of
        the divisor; ZeroDivisionError for the zero polynomial.
        """
        if not divisor:
            raise ZeroDivisionError("division by the zero polynomial")
        leading, leading_coefficient = divisor.terms[0]
        quotient, remainder, rest = Polynomial(), Polynomial(), self
        while rest:
            monomial, coefficient = rest.terms[0]
            shared = monomial_quotient(monomial, leading)
            if shared is None or coefficient % leading_coefficient:
                remainder += Polynomial(((monomial, coefficient),))
                rest = Polynomial(rest.terms[1:])
                continue
            step = Polynomial(((shared, coefficient // leading_coefficient),))
            quotient += step
            rest -= step * divisor
        return quotient, remainder

    def divide_exactly(self, divisor: Polynomial) -> Polynomial | None:
        """The q with self = q·divisor, or None if there is none with integer coefficients."""
        quotient, remainder = self.divide(divisor)
        return None if remainder else quotient

    def substitute(self, replacements: Mapping[int, Polynomial]) -> Polynomial:
        """The polynomial with symbols replaced, all at once."""
        if not replacements.keys() & self.symbols():
            return self
        total = Polynomial()
        for monomial, coefficient in self.terms:
            term = Polynomial.constant_of(coefficient)
            for symbol, power in monomial:
                factor = replacements.get(symbol, Polynomial.symbol(symbol))
                for _ in range(power):
                    term *= factor
            total += term
        return total

    def evaluate(self, values: Mapping[int, int]) -> int:
        """The value when every symbol has the given value; KeyError names a missing symbol."""
        total = 0
        for monomial, product in self.terms:
            for symbol, power in monomial:
                product *= int(values[symbol]) ** power
            total += product
        return total

    def divisor(self, known: Mapping[int, int]) -> int:
        """A number that provably divides the value, given numbers that divide symbols (1 if not
        given); 0, which everything divides, for the zero polynomial.
        """
        return math.gcd(*(c * math.prod(known.get(s, 1) ** p for s, p in m) for m, c in self.terms))

    def text(self, names: Mapping[int, str]) -> str:
        """For people: "64*pid_m + k*stride - 1"; symbols without a name read as %id."""
        if not self.terms:
            return "0"
        written = ""
        for monomial, coefficient in self.terms:
            factors = [names.get(s) or f"%{s}" for s, p in monomial for _ in range(p)]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = ("-" if coefficient < 0 else "") if not written else (" - " if coefficient < 0 else " + ")
            written += sign + "*".join(factors)
        return written


def as_polynomial(value: Polynomial | int) -> Polynomial:
    """An integer as a constant polynomial; a polynomial as itself."""
    return value if isinstance(value, Polynomial) else Polynomial.constant_of(value)


def rank(monomial: Monomial) -> tuple[int, tuple[int, ...]]:
    """Graded lexicographic order (smaller symbols first), which multiplication preserves: the
    first term of a canonical polynomial is its leading term.
    """
    return sum(p for _, p in monomial), tuple(-s for s, p in monomial for _ in range(p))


def product(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    powers = dict(left)
    for symbol, power in right:
        powers[symbol] = powers.get(symbol, 0) + power
    return tuple(sorted(powers.items()))


def monomial_quotient(dividend: Monomial, divisor: Monomial) -> Monomial | None:
    """The monomial q with dividend = q·divisor, or None."""
    powers = dict(dividend)
    for symbol, power in divisor:
        left = powers.get(symbol, 0) - power
        if left < 0:
            return None
        powers[symbol] = left
    return tuple((s, p) for s, p in sorted(powers.items()) if p)
