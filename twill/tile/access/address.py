"""From an affine address and a mask to the axes of a tensor: strides, offsets, bounds.

The address of element (i, j, ...) is origin + Σ step·i. The steps are the strides; the origin is
Σ stride·offset + constant, and finding the offsets is a convention, for an address does not say
whether 4·stride is row 4 or another tensor. Offsets are found by, in this order:

1. the mask: where i < limit is required and `limit` contains -m, m belongs to the axis' offset
   (the index is i + m) if the origin contains stride·m;
2. division by the strides, largest first. An axis with a bound takes only numbers: what varies and
   is not in the mask (head·rows·stride, where the mask counts rows of one head) is no part of the
   index that the bound limits, and goes to the constant. A number that no stride divides is cut where a bound
   with a part of the index in it cuts it: of -128·2048 + 64, 128 rows where the mask says i < limit + 128;
3. an axis of stride 1 takes what is left, except terms with a factor that is fixed for the launch
   (batch·stride_batch): those move the whole tile, and stay in the constant.

A number below zero in an offset goes to the constant where no lower bound holds the axis: `(rows + last - 1)·stride`
reads what lies before the tile, and nothing before the first element of an axis is in the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from twill.tile.access.value import ONE, ZERO, AffineTile, DescriptorWindow, IndexTerm, Mask
from twill.tile.affine import Monomial, Polynomial, rank
from twill.tile.program import Axis


@dataclass(frozen=True)
class Address:
    """Axes in the order of the tile's shape. complete: the bounds say all that the mask says. terms: what is added to
    it that is not affine."""

    base: str
    axes: tuple[Axis, ...]
    constant: Polynomial
    complete: bool
    terms: tuple[IndexTerm, ...] = ()


def address_of_tile(tile: AffineTile, mask: Mask, fixed: Callable[[Polynomial], bool]) -> Address:
    """The address of a tile of pointers under a mask. fixed: whether a launch fixes a polynomial."""
    offsets, constant = find_offsets(tile, mask, fixed)
    axes, complete = [], mask.complete
    for number, (extent, stride) in enumerate(zip(tile.shape, tile.steps, strict=True)):
        limits = [bound for bound in mask.bounds if bound.axis == number]
        uppers = [bound.limit for bound in limits if bound.side == "upper" and not is_at_least(bound.limit, extent)]
        lowers = [bound.limit for bound in limits if bound.side == "lower" and not is_at_least(-bound.limit, 0)]
        upper, all_uppers = tightest(uppers, -1)
        lower, all_lowers = tightest(lowers, 1)
        complete = complete and all_uppers and all_lowers
        offset, before = offsets[number], min(0, offsets[number].constant)
        start = constant + Polynomial.constant_of(before) * stride
        if lower is None and before and not begins_before(start, fixed):
            offset, constant = offset - Polynomial.constant_of(before), start
        axes.append(
            Axis(
                extent,
                stride,
                offset,
                None if lower is None else offset + lower,
                None if upper is None else offset + upper,
            )
        )
    return Address(tile.base, tuple(axes), constant, complete, tile.terms)


def counted_down(address: Address, fixed: Callable[[Polynomial], bool]) -> Iterator[Axis]:
    """Axes whose index may be below 0 with elements of the tensor there: of the row in front. Rows that are counted
    down end at the first, and where nothing else moves the tile an index below 0 is in front of the tensor."""
    moving = [axis for axis in address.axes if axis.extent > 1]
    if len(moving) > 1 or not fixed(address.constant):
        yield from (a for a in moving if a.stride == ONE and a.lower is None and a.offset.constant < 0)


def begins_before(start: Polynomial, fixed: Callable[[Polynomial], bool]) -> bool:
    """Whether what a launch fixes of a start lies in front of the tensor, whatever the arguments are: no tensor map may
    begin there, also if no copy of it does, as memory need not be there (an H100 ends the launch with an illegal
    access)."""
    parts = [coefficient for monomial, coefficient in start.terms if fixed(Polynomial(((monomial, coefficient),)))]
    return any(part < 0 for part in parts) and all(part <= 0 for part in parts)


def moved_start(start: Polynomial, fixed: Callable[[Polynomial], bool]) -> tuple[Mapping[Monomial, int], Polynomial]:
    """What a launch fixes of a start, and by how many steps of its own each other term, by its monomial, is moved
    instead where that would lie in front of the tensor: of `(min(end, n) - 1) * 2048` the row is one less."""
    parts = Polynomial.of(term for term in start.terms if fixed(Polynomial((term,))))
    if not begins_before(start, fixed):
        return {}, parts
    steps: dict[Monomial, int] = {}
    rest = []
    for monomial, coefficient in parts.terms:
        strides = [
            (stride, other)
            for other, stride in start.terms
            if not fixed(Polynomial(((other, stride),))) and stride > 0 and coefficient % stride == 0
            and tuple(f for f in other if fixed(Polynomial.symbol(f[0]))) == monomial
        ]  # fmt: skip
        if strides:
            stride, other = max(strides)
            steps[other] = steps.get(other, 0) + coefficient // stride
        else:
            rest.append((monomial, coefficient))
    return steps, Polynomial.of(rest)


def address_of_block(window: DescriptorWindow, block: tuple[int, ...], index: tuple[Polynomial, ...]) -> Address:
    """The address of the block of a descriptor that begins at `index`."""
    axes = tuple(
        Axis(extent, stride, offset, ZERO, size)
        for extent, stride, offset, size in zip(block, window.strides, index, window.shape, strict=True)
    )
    return Address(window.base, axes, window.origin, True)


def is_at_least(value: Polynomial, least: int) -> bool:
    """Whether a polynomial is a constant >= least."""
    return value.is_constant and value.constant >= least


def tightest(limits: Iterable[Polynomial], sign: int) -> tuple[Polynomial | None, bool]:
    """The largest (sign 1) or smallest (-1) of the limits; False if that is not provable, and then
    it is one of them.
    """
    best: Polynomial | None = None
    for limit in limits:
        if best is None:
            best = limit
            continue
        if not (limit - best).is_constant:
            return best, False
        if (limit - best).constant * sign > 0:
            best = limit
    return best, True


def find_offsets(
    tile: AffineTile, mask: Mask, fixed: Callable[[Polynomial], bool]
) -> tuple[list[Polynomial], Polynomial]:
    """The offset along each axis and the constant, by the three rules above."""
    offsets, rest = [ZERO] * len(tile.shape), tile.origin
    for bound in mask.bounds:
        stride = tile.steps[bound.axis]
        for monomial, coefficient in bound.limit.terms:
            index = Polynomial(((monomial, -coefficient),))
            if monomial and stride and contains(rest, index * stride):
                offsets[bound.axis] += index
                rest -= index * stride
    bounded = {bound.axis for bound in mask.bounds}
    constant = ZERO
    for axis in sorted(range(len(offsets)), key=lambda axis: size(tile.steps[axis]), reverse=True):
        stride = tile.steps[axis]
        if stride and stride != ONE:
            whole = Polynomial.constant_of(whole_steps(rest, stride, offsets[axis], axis, mask))
            offsets[axis] += whole
            rest -= whole * stride
            quotient, rest = rest.divide(stride)
            taken = Polynomial.constant_of(quotient.constant) if axis in bounded else quotient
            offsets[axis] += taken
            constant += (quotient - taken) * stride
    if ONE in tile.steps:
        axis = tile.steps.index(ONE)
        index = Polynomial(tuple(term for term in rest.terms if is_index(term[0], axis in bounded, fixed)))
        offsets[axis] += index
        rest -= index
    return offsets, constant + rest


def whole_steps(rest: Polynomial, stride: Polynomial, offset: Polynomial, axis: int, mask: Mask) -> int:
    """How many strides the number of an origin is at least, if a bound says that of the index along an axis: one in
    which a part of the offset is, too. 0 otherwise."""
    if not stride.is_constant or stride.constant < 1:
        return 0
    found = rest.constant // stride.constant
    said = (b.limit for b in mask.bounds if b.axis == axis and set((-b.limit).terms) & set(offset.terms))
    return found if any(limit.constant == -found for limit in said) else 0


def is_index(monomial: Monomial, bounded: bool, fixed: Callable[[Polynomial], bool]) -> bool:
    """Whether a term that is left belongs to the offset of an axis of stride 1."""
    if bounded:
        return not monomial
    return not any(fixed(Polynomial.symbol(symbol)) for symbol, _ in monomial)


def contains(value: Polynomial, part: Polynomial) -> bool:
    """Whether every term of `part` is a term of `value`."""
    return set(part.terms) <= set(value.terms)


def size(stride: Polynomial) -> tuple[object, int]:
    """Orders strides: those with more symbolic factors first, then by coefficient."""
    if not stride:
        return rank(()), 0
    return rank(stride.terms[0][0]), abs(stride.terms[0][1])
