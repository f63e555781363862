"""What a value of the tile program is, as far as addresses go: the domain of the access analysis.

A value is an affine tile (integers or addresses), a mask, a descriptor's window onto a tensor, or
not affine, with the reason in words for the user. Scalars are affine tiles of shape ().
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from twill.tile.affine import Polynomial

ZERO = Polynomial()
ONE = Polynomial.constant_of(1)


@dataclass(frozen=True)
class IndexBound:
    """The index i of an axis is below `limit` (side "upper") or at least `limit` ("lower")."""

    axis: int
    side: Literal["lower", "upper"]
    limit: Polynomial

    def implies(self, other: IndexBound) -> bool:
        """Whether what is within this bound is within the other one."""
        closer = other.limit - self.limit if self.side == "upper" else self.limit - other.limit
        return (self.axis, self.side) == (other.axis, other.side) and closer.is_constant and closer.constant >= 0


@dataclass(frozen=True)
class IndexTerm:
    """scale times the tile of integers `value`, whose axis a is axis `axes[a]` of the tile that this is a term of (-1:
    the axis has extent 1 and is gone)."""

    value: int
    axes: tuple[int, ...]
    scale: Polynomial


@dataclass(frozen=True)
class AffineTile:
    """Element (i, j, ...) is origin + steps[0]·i + steps[1]·j + ... + its terms, counted in elements from the
    address that the argument `base` holds ("" for integers). The step of an axis of extent 1 is 0. within: it is so for
    elements within these bounds, and something else beyond them (an index that wraps around or is clipped). terms:
    tiles of integers that are not affine (loaded, divided), by value and axes.
    """

    shape: tuple[int, ...]
    origin: Polynomial
    steps: tuple[Polynomial, ...]
    base: str = ""
    within: frozenset[IndexBound] = frozenset()
    terms: tuple[IndexTerm, ...] = ()

    def moved(self, shape: tuple[int, ...], axes: Mapping[int, int]) -> AffineTile:
        """The tile as a view of another shape; `axes`: old axis -> new axis."""
        steps = [ZERO] * len(shape)
        for old, new in axes.items():
            steps[new] = self.steps[old]
        within = frozenset(replace(bound, axis=axes[bound.axis]) for bound in self.within)
        terms = tuple(replace(term, axes=tuple(axes.get(axis, -1) for axis in term.axes)) for term in self.terms)
        return replace(self, shape=shape, steps=tuple(steps), within=within, terms=terms)

    def scaled(self, factor: Polynomial) -> AffineTile:
        """A tile of integers, each times the factor."""
        terms = tuple(replace(term, scale=term.scale * factor) for term in self.terms) if factor else ()
        steps = tuple(step * factor for step in self.steps)
        return replace(self, origin=self.origin * factor, steps=steps, terms=terms)

    @property
    def parts(self) -> tuple[Polynomial, ...]:
        """The origin and the steps."""
        return (self.origin, *self.steps)


@dataclass(frozen=True)
class Mask:
    """A tile of i1 that is true where all bounds hold. complete: and only there is nothing else to it."""

    bounds: tuple[IndexBound, ...]
    complete: bool

    def moved(self, axes: Mapping[int, int]) -> Mask:
        """The mask as a view; bounds are on axes of extent > 1, which no view drops."""
        return replace(self, bounds=tuple(replace(bound, axis=axes[bound.axis]) for bound in self.bounds))


def summed(left: tuple[IndexTerm, ...], right: tuple[IndexTerm, ...]) -> tuple[IndexTerm, ...]:
    """The terms of a sum: those of one tile along the same axes are one."""
    total: dict[tuple[int, tuple[int, ...]], Polynomial] = {}
    for term in (*left, *right):
        key = (term.value, term.axes)
        total[key] = total.get(key, ZERO) + term.scale
    return tuple(IndexTerm(value, axes, scale) for (value, axes), scale in total.items() if scale)


EVERYWHERE = Mask((), True)
UNKNOWN_MASK = Mask((), False)


@dataclass(frozen=True)
class DescriptorWindow:
    """A tensor descriptor: element (i, j, ...) of the tensor is at base + origin + Σ strides·(i, j, ...).

    pad: what elements outside [0, shape) read as.
    """

    base: str
    origin: Polynomial
    shape: tuple[Polynomial, ...]
    strides: tuple[Polynomial, ...]
    pad: float


@dataclass(frozen=True)
class NotAffine:
    """Value `value` has no affine form. reason continues "... is not affine: it ..."."""

    value: int
    reason: str
    hint: str


Symbolic = AffineTile | Mask | DescriptorWindow | NotAffine


def scalar(value: Polynomial) -> AffineTile:
    """An integer known as a polynomial."""
    return AffineTile((), value, ())
