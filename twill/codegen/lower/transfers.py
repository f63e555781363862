"""Tile accesses as tensor maps and boxes, or as windows of global memory that threads walk themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import gcd, prod

from twill.codegen.lower.made_maps import MadeMaps
from twill.codegen.lower.memory import WIDEST, SharedMemoryPlan, element_bytes
from twill.codegen.lower.multicast import CTAS
from twill.codegen.lower.scalars import OUTSIDE, InlinedScalars, Iteration, ScalarTable
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.warp.expression import Apply, Expr, Local, Number, add, multiply
from twill.codegen.warp.multiples import multiple_of
from twill.codegen.warp.program import RANK, Buffer, TensorMapSpec, Window, WindowAxis
from twill.tile.access.address import moved_start
from twill.tile.access.transport import ALIGNMENT
from twill.tile.affine import Monomial, Polynomial
from twill.tile.program import Access, Axis


@dataclass(frozen=True)
class Part:
    """One row block's part of a tile access: the access, the tile's cell, and the block (-1: all of it). halved: an
    axis of the access of which each CTA of a cluster has a half (-1: none)."""

    access: Access
    cell: int
    block: int
    halved: int = -1


@dataclass(frozen=True)
class BoxPart:
    """Part of an axis: `extent` elements from the `first` on."""

    first: int
    extent: int


@dataclass(frozen=True)
class Box:
    """A piece of a tile that one tensor copy moves: coordinates, and its rows and columns of the tile."""

    coordinates: tuple[Expr, ...]
    rows: tuple[int, int] | None
    columns: tuple[int, int] | None


class Transfers:
    """Makes maps, boxes and windows for one warp group's scalars."""

    def __init__(self, tiles: TileLayouts, memory: SharedMemoryPlan, scalars: ScalarTable, longest: int) -> None:
        self.tiles, self.memory, self.scalars = tiles, memory, scalars
        self.at_launch = InlinedScalars(tiles.wired)  # of what the host computes
        self.made = MadeMaps(memory, scalars)
        self.longest = longest  # elements of a box along one axis

    def axes(self, part: Part) -> list[tuple[Axis, int, int]]:
        """(axis, extent of the part, elements before it) for each axis of the access."""
        if part.cell < 0:  # one number everywhere, which belongs to no tile
            return [(axis, axis.extent, 0) for axis in part.access.axes]
        classes = self.tiles.wired.classes.of[part.cell]
        found: list[tuple[Axis, int, int]] = []
        for axis, c in zip(part.access.axes, classes, strict=True):
            cut = c == self.tiles.cut(part.cell) >= 0
            extent = axis.extent // self.tiles.split if cut else axis.extent
            extent //= CTAS if len(found) == part.halved else 1
            found.append((axis, extent, extent * max(part.block, 0) if cut else 0))
        return found

    # -- tensor maps --------------------------------------------------------------------------

    def map(self, part: Part, buffer: Buffer, at: Iteration, halves: bool = False) -> TensorMapSpec:
        """The tensor map whose boxes fill (or empty) the panels of `buffer` in iteration `at`. halves: see `boxes`."""
        return self.memory.map(self.described(part, buffer, at, halves))

    def described(self, part: Part, buffer: Buffer, at: Iteration, halves: bool = False) -> TensorMapSpec:
        """The same without a number; of a map that the group makes, over its scalars."""
        view = self.view(part, at)
        together = self.together(part, buffer, at)
        box = (*(1 for _ in self.starts(part, at)), *self.box(part, buffer, together, halves))
        return replace(view, box=box, swizzle=buffer.swizzle, together=together)

    def view(self, part: Part, at: Iteration) -> TensorMapSpec:
        """The tensor as the part's tensor map sees it, without boxes."""
        known = self.known(part)
        outer = [stride for stride, _ in self.starts(part, at)]
        sizes: list[Expr | None] = [None for _ in outer]
        strides: list[Expr] = list(outer)
        for axis, _, _ in self.axes(part):
            sizes.append(None if axis.upper is None else known.polynomial(axis.upper, OUTSIDE, wide=True))
            strides.append(known.polynomial(axis.stride, OUTSIDE, wide=True))
        _, fixed = self.moved(part)
        return TensorMapSpec(
            id=-1,
            argument=part.access.base,
            element=part.access.element,
            sizes=tuple(sizes),
            strides=tuple(strides),
            offset=known.polynomial(fixed, OUTSIDE, wide=True),
            box=(),
            swizzle=0,
        )

    def box(self, part: Part, buffer: Buffer, together: int, halves: bool = False) -> tuple[int, ...]:
        """Extents of one copy along the access's axes: at most a panel of columns, and `longest` rows or elements
        taken `together`. halves: fewer rows if the number of copies is odd otherwise."""
        extents = [extent for _, extent, _ in self.axes(part)]
        moving = [a for a, extent in enumerate(extents) if extent > 1]
        for a in moving:
            extents[a] = largest_part(extents[a], self.longest * (together if a == moving[-1] else 1))
        if len(buffer.shape) == 2 and moving:
            extents[moving[-1]] = min(extents[moving[-1]], buffer.panel // element_bytes(buffer.element))
        whole = [extent for _, extent, _ in self.axes(part)]
        if len(buffer.shape) == 1:  # of several axes, as scales: a copy takes what lies together
            clipped = max((a for a in moving if extents[a] < whole[a]), default=0)
            extents[:clipped] = [1] * clipped
        if halves and prod(e // b for e, b in zip(whole, extents, strict=True)) % 2:
            extents[moving[0]] //= 2
        return tuple(extents)

    def together(self, part: Part, buffer: Buffer, at: Iteration) -> int:
        """How many neighbours one copy takes for a wider element: as many as make a vector's copies the fewest, if
        everything in the tensor map and the coordinates is known to be a multiple of them."""
        extents = [extent for _, extent, _ in self.axes(part)]
        size, view = element_bytes(buffer.element), self.view(part, at)
        if len(buffer.shape) != 1 or extents[-1] <= self.longest or view.sizes[-1] is None:
            return 1
        axis, _, before = self.axes(part)[-1]
        start = add(self.scalars.polynomial(axis.offset, at), Number(before))
        known = [multiple_of(e, self.divisors, {}) for e in (*view.strides[:-1], view.offset, view.sizes[-1], start)]
        most = gcd(extents[-1], WIDEST // size, *known)
        return min(most & -most, -(-extents[-1] // self.longest))

    def aligned(self, seen: TensorMapSpec) -> Expr | None:
        """What must hold for the TMA to see a tensor so, where it is not known: the tensor begins at a multiple of 16
        bytes, and so do its rows, one behind the other. None if it is known."""
        each = ALIGNMENT // element_bytes(seen.element)
        numbers = [expr for expr in (*seen.strides[:-1], seen.offset) if multiple_of(expr, self.divisors, {}) % each]
        asked = [compared("eq", Apply("rem", (e, Number(each, "i64")), "i64", (("signed", 1),))) for e in numbers]
        asked += [compared("ge", stride) for stride in seen.strides[:-1] if not isinstance(stride, Number)]
        return reduce(lambda one, other: Apply("and", (one, other), "i1"), asked) if numbers else None

    @property
    def divisors(self) -> dict[str, int]:
        """What the arguments are known to be multiples of."""
        return {a.name: a.divisibility for a in self.tiles.wired.program.arguments}

    def starts(self, part: Part, at: Iteration) -> list[tuple[Expr, Expr]]:
        """(stride, coordinate) for each term of the constant that differs between program instances or iterations."""
        found = []
        steps, _ = self.moved(part)
        for monomial, coefficient in part.access.constant.terms:
            if self.fixed((monomial, coefficient), part):
                continue
            still = tuple(f for f in monomial if self.is_fixed(f[0], part))
            moving = tuple(f for f in monomial if not self.is_fixed(f[0], part))
            stride = self.known(part).polynomial(Polynomial(((still, coefficient),)), OUTSIDE, wide=True)
            coordinate = self.scalars.polynomial(Polynomial(((moving, 1),)), at)
            found.append((stride, add(coordinate, Number(steps.get(monomial, 0)))))
        return found

    def moved(self, part: Part) -> tuple[Mapping[Monomial, int], Polynomial]:
        """What is known of the start of a part when its map is made, and by how much terms that differ are moved for
        it (`twill.tile.access.address.moved_start`)."""
        return moved_start(part.access.constant, lambda p: all(self.fixed(term, part) for term in p.terms))

    def known(self, part: Part) -> ScalarTable:
        """What a part's tensor map is made of."""
        return self.scalars if part.access.made else self.at_launch

    def fixed(self, term: tuple[tuple[tuple[int, int], ...], int], part: Part) -> bool:
        """Whether a term of a polynomial is known where the part's tensor map is made."""
        return all(self.is_fixed(symbol, part) for symbol, _ in term[0])

    def is_fixed(self, symbol: int, part: Part) -> bool:
        """Whether a scalar is made of arguments alone; where the group makes the map, of what no loop changes."""
        found = self.tiles.wired.uniformity
        if part.access.made:
            varies = any(self.scalars.varies(symbol, loop) for loop in self.scalars.inductions.values())
            return not varies and not self.tiles.wired.scalars.reach(symbol) & found.carries.keys()
        return not self.tiles.wired.scalars.varies_with_grid(symbol) and not any(
            v in self.scalars.inductions or v in found.carries or v in found.lookups
            for v in self.tiles.wired.scalars.reach(symbol)
        )

    def boxes(self, part: Part, buffer: Buffer, at: Iteration, halves: bool = False) -> Iterator[Box]:
        """The copies that move the whole part, panel by panel. halves: an even number of them."""
        extents = [extent for _, extent, _ in self.axes(part)]
        box = self.box(part, buffer, self.together(part, buffer, at), halves)
        moving = [a for a, extent in enumerate(extents) if extent > 1]
        first = [coordinate for _, coordinate in self.starts(part, at)]
        for corner in product(*(range(0, e, b) for e, b in zip(extents, box, strict=True))):
            coordinates = list(first)
            for number, ((axis, extent, before), c) in enumerate(zip(self.axes(part), corner, strict=True)):
                start = self.scalars.polynomial(axis.offset, at)
                if number == part.halved:
                    start = add(start, multiply(Apply("cast", (Local(RANK, "u32"),), "i32"), Number(extent)))
                coordinates.append(add(start, Number(before + c)))
            spans = [(corner[a], corner[a] + box[a]) for a in moving]
            if len(buffer.shape) == 1 and len(spans) > 1:  # scales, in the order in which they are in memory
                before_it = sum(begin * prod(extents[a + 1 :]) for a, begin in enumerate(corner))
                spans = [(before_it, before_it + prod(box))]
            rows = spans[0] if len(spans) == 2 else None
            yield Box(tuple(coordinates), rows, spans[-1] if spans else None)

    # -- windows ------------------------------------------------------------------------------

    def window(self, part: Part, at: Iteration) -> Window:
        """The part as a window; axes of extent 1 go into the constant."""
        return self.window_of(part.access, self.spans(part), at)

    def spans(self, part: Part) -> list[BoxPart]:
        """What the part is of each axis of the access."""
        return [BoxPart(before, extent) for _, extent, before in self.axes(part)]

    def window_of(self, access: Access, spans: Sequence[BoxPart], at: Iteration) -> Window:
        """Spans of the axes of an access as a window, without its indices and its mask."""
        constant = self.scalars.polynomial(access.constant, at, wide=True)
        axes = []
        for axis, span in zip(access.axes, spans, strict=True):
            wide = self._is_wide(axis)
            stride = self.scalars.polynomial(axis.stride, at, wide=True)
            first = Number(span.first, "i64" if wide else "i32")
            offset = add(self.scalars.polynomial(axis.offset, at, wide=wide), first)
            if span.extent == 1 and axis.lower is None and axis.upper is None:
                place = self.scalars.polynomial(axis.offset, at, wide=True)
                constant = add(constant, multiply(stride, add(place, Number(span.first, "i64"))))
                continue
            limits = (axis.lower, axis.upper)
            bounds = [None if p is None else self.scalars.polynomial(p, at, wide=wide) for p in limits]
            axes.append(WindowAxis(span.extent, stride, offset, bounds[0], bounds[1]))
        return Window(access.base, access.element, tuple(axes), constant, access.pad)

    def _is_wide(self, axis: Axis) -> bool:
        """Whether an index along an axis is computed in 64 bits: it may be one of more than 2^31 elements."""
        numbers = (p for p in (axis.offset, axis.lower, axis.upper) if p is not None)
        symbols = {symbol for number in numbers for symbol in number.symbols()}
        return any(self.tiles.wired.program.type_of(symbol).element == "i64" for symbol in symbols)

    def neighbours(self, window: Window) -> bool:
        """Whether two elements that lie side by side can be moved in one access: rows begin at even ones."""
        known = [multiple_of(axis.stride, self.divisors, {}) for axis in window.axes[:-1]]
        return gcd(*known, multiple_of(window.constant, self.divisors, {})) % 2 == 0


def compared(predicate: str, expr: Expr) -> Expr:
    """A 64-bit number with 0."""
    return Apply("compare", (expr, Number(0, "i64")), "i1", (("predicate", predicate), ("signed", 1)))


def largest_part(extent: int, most: int) -> int:
    """The largest divisor of `extent` that is at most `most`."""
    return next(d for d in range(min(extent, most), 0, -1) if extent % d == 0)
