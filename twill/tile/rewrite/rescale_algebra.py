"""How a value changes with the shift of an online softmax: the laws behind `twill.tile.rewrite.conditional_rescale`.

An online softmax subtracts a running maximum from its exponents; any other number would do as well, if everything that
was made with it is corrected for it. Let s, a number for each row, be what a kernel's shift is replaced by minus the
shift itself. A value follows the shift by the law

    sum:    value + a·s              (the shift itself: a = 1; exponents: a = -1)
    scale:  value · 2^(a·s)          (what was exponentiated, and sums of it: a = -1)

with a degree a. There is a symbol s for each place where a shift may differ: before and after an iteration, after a
loop. A value without degrees is what it was: that is what has to be shown of everything that leaves the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Degrees = tuple[tuple[str, float], ...]  # by symbol, without zeros

_NONE = 1e-6  # degrees closer than this are equal: log2(e) in f32 differs by 2e-8 from its own inverse's inverse


class NotCompensated(Exception):
    """A value that follows no law; the text says why."""


@dataclass(frozen=True)
class Law:
    """kind: as above; "zero" and "lowest" are constants 0 and minus infinity, which follow any scale and any sum;
    "open": not known yet; "broken": follows no law. axis: of the tile, along which its rows run (-1: no degrees).
    power: 2 to some exponent, not multiplied by anything."""

    kind: Literal["sum", "scale", "zero", "lowest", "open", "broken"]
    degrees: Degrees = ()
    axis: int = -1
    power: bool = False

    @property
    def still(self) -> bool:
        """Whether the value does not change with the shift."""
        return self.kind in ("zero", "lowest") or (self.kind in ("sum", "scale") and not self.degrees)

    def along(self, axis: int) -> Law:
        """The same in a tile whose rows run along another axis."""
        return replace(self, axis=axis if self.degrees else -1)

    def times(self, factor: float) -> Law:
        """The law with every degree multiplied."""
        return of(self.kind, ((symbol, factor * degree) for symbol, degree in self.degrees), self.axis)

    def renamed(self, symbol: str, to: Degrees) -> Law:
        """The law with one symbol replaced by others."""
        parts = [(s, d) for s, d in self.degrees if s != symbol]
        parts += [(s, d * dict(self.degrees)[symbol]) for s, d in to if symbol in dict(self.degrees)]
        return replace(of(self.kind, parts, self.axis), power=self.power)


STILL, ZERO, LOWEST = Law("sum"), Law("zero"), Law("lowest")
OPEN, BROKEN = Law("open"), Law("broken")


def of(kind: Literal["sum", "scale", "zero", "lowest", "open", "broken"], parts: object, axis: int = -1) -> Law:
    """A law of degrees that may repeat a symbol or be zero."""
    total: dict[str, float] = {}
    for symbol, degree in parts:  # type: ignore[attr-defined]
        total[symbol] = total.get(symbol, 0.0) + degree
    retained = tuple(sorted((symbol, degree) for symbol, degree in total.items() if abs(degree) > _NONE))
    if kind in ("sum", "scale") and not retained:
        return STILL
    return Law(kind, retained, axis if retained else -1)


def added(one: Law, other: Law) -> Law:
    """Of a sum of two values."""
    if "scale" in (one.kind, other.kind):
        return replace(same(one, other), power=False)
    return of("sum", (*one.degrees, *other.degrees), common_axis(one, other))


def multiplied(one: Law, other: Law) -> Law:
    """Of a product of two values, neither of which is a known number."""
    if "zero" in (one.kind, other.kind):
        return ZERO
    for law in (one, other):
        if law.kind == "sum" and law.degrees:
            raise NotCompensated("it is multiplied by what may be any number")
    return of("scale", (*one.degrees, *other.degrees), common_axis(one, other))


def same(one: Law, other: Law) -> Law:
    """Of a value that is either of two, or a sum of two that scale alike."""
    for law, else_ in ((one, other), (other, one)):
        if law == else_ or law.kind == "open":
            return else_
        if (law.kind == "zero" and (else_.kind == "scale" or else_.still)) or (
            law.kind == "lowest" and (else_.kind == "sum" or else_.still)
        ):
            return else_ if else_.kind not in ("zero", "lowest") else STILL
    close = not of("sum", (*one.degrees, *((s, -d) for s, d in other.degrees))).degrees
    if one.kind != other.kind or not close:
        raise NotCompensated("it meets a value that was made with another shift, or with none")
    return replace(one.along(common_axis(one, other)), power=one.power and other.power)


def common_axis(one: Law, other: Law) -> int:
    """The axis along which the rows of both run."""
    if one.degrees and other.degrees and one.axis != other.axis:
        raise NotCompensated("it meets a value of other rows")
    return one.axis if one.degrees else other.axis
