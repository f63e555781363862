"""What each operation on tiles of integers, addresses and i1 does to their symbolic form.

Index arithmetic is taken not to overflow, as Triton itself and every tensor map do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twill.tile.access.value import (
    EVERYWHERE,
    ONE,
    UNKNOWN_MASK,
    ZERO,
    AffineTile,
    IndexBound,
    IndexTerm,
    Mask,
    NotAffine,
    Symbolic,
    summed,
)
from twill.tile.affine import Polynomial
from twill.tile.program import Op, TileType


@dataclass(frozen=True)
class SymbolicStep:
    """An operation with its symbolic operands, their shapes, and the type of its result. nonnegative: whether a number
    is known to be >= 0."""

    op: Op
    operands: tuple[Symbolic, ...]
    shapes: tuple[tuple[int, ...], ...]
    result: TileType
    nonnegative: Callable[[Polynomial], bool]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the operation."""
        return dict(self.op.attributes).get(name, default)

    def affine(self) -> tuple[AffineTile, ...]:
        """The operands that are affine."""
        return tuple(operand for operand in self.operands if isinstance(operand, AffineTile))


Rule = Callable[[SymbolicStep], "Symbolic | None"]  # None: no affine form

REASONS: dict[str, tuple[str, str]] = {
    "rem": (
        "wraps around with %",
        "the index without %, and a mask on the load or store (mask=offs < size) for what is out of range",
    ),
    "div": ("is divided element by element", "tl.arange over the quotients, as an axis of its own"),
    "min": ("is clipped element by element", "a mask on the load or store (mask=offs < size)"),
    "max": ("is clipped element by element", "a mask on the load or store (mask=offs >= 0)"),
    "select": ("is chosen element by element", "a mask on the load or store"),
    "load": ("is loaded from memory (a gather)", "a contiguous tile; a kernel that gathers stays with Triton"),
    "mul": ("is a product of two index tiles", "an index times a scalar stride"),
    "reshape": ("is reshaped so that axes merge or split", "a tl.arange for each axis of the tile, with [:, None]"),
}
SAME_REASON = {"descriptor_load": "load", "atomic_add": "load"}
OTHERWISE = "sums of tl.arange and scalars, times scalar strides"


def symbolic(step: SymbolicStep) -> Symbolic:
    """The result of an operation on tiles or pointers. If no rule covers it: of integers a term of its own, else
    NotAffine, or an unknown mask."""
    rule = RULES.get(step.op.kind)
    unknown = next((operand for operand in step.operands if isinstance(operand, NotAffine)), None)
    made = rule(step) if rule and (not unknown or step.result.element == "i1") else None
    if made is not None:
        return made
    if step.result.element == "i1":
        return UNKNOWN_MASK
    if step.result.element.startswith("i"):
        return term(step.op, step.result.shape)
    return unknown if unknown and rule else not_affine(step.op)


def term(op: Op, shape: tuple[int, ...]) -> AffineTile:
    """The result of an operation as a tile of integers that nothing is known of."""
    whole = IndexTerm(op.results[0], tuple(n if extent > 1 else -1 for n, extent in enumerate(shape)), ONE)
    return AffineTile(shape, ZERO, (ZERO,) * len(shape), terms=(whole,))


def not_affine(op: Op) -> NotAffine:
    """What the result of an operation without an affine form is."""
    known = REASONS.get(SAME_REASON.get(op.kind, op.kind))
    reason, hint = known or (f"is the result of {op.kind}", OTHERWISE)
    return NotAffine(op.results[0], reason, hint)


def constant(step: SymbolicStep) -> Symbolic | None:
    """A tile of equal numbers."""
    value = step.attribute("value")
    if step.result.element == "i1":
        return EVERYWHERE if value else UNKNOWN_MASK
    if not step.result.element.startswith("i"):
        return None
    return AffineTile(step.result.shape, Polynomial.constant_of(int(value)), (ZERO,) * len(step.result.shape))


def arange(step: SymbolicStep) -> Symbolic | None:
    """start, start + 1, ..."""
    moves = Polynomial.constant_of(1 if step.result.shape[0] > 1 else 0)
    return AffineTile(step.result.shape, Polynomial.constant_of(step.attribute("start")), (moves,))


def view(step: SymbolicStep) -> Symbolic | None:
    """A tile in another shape."""
    operand, shape = step.operands[0], step.result.shape
    axes = axis_map(step, step.shapes[0])
    if axes is None:
        return None
    if isinstance(operand, Mask):
        return operand.moved(axes)
    if not isinstance(operand, AffineTile):
        return None
    if step.result.element == "i1":  # a scalar condition
        return EVERYWHERE if operand.origin.is_constant and operand.origin else UNKNOWN_MASK
    return operand.moved(shape, axes)


def axis_map(step: SymbolicStep, shape: tuple[int, ...]) -> Mapping[int, int] | None:
    """Which axis of the result each axis of a view's operand becomes (those of extent 1 may be
    missing); None if axes merge or split.
    """
    if step.op.kind == "expand_dims":
        axis = step.attribute("axis")
        return {old: old + (old >= axis) for old in range(len(shape))}
    if step.op.kind == "transpose":
        return {old: new for new, old in enumerate(step.attribute("order"))}
    if step.op.kind == "reshape":
        old_axes = [axis for axis, extent in enumerate(shape) if extent > 1]
        new_axes = [axis for axis, extent in enumerate(step.result.shape) if extent > 1]
        same = [shape[axis] for axis in old_axes] == [step.result.shape[axis] for axis in new_axes]
        return dict(zip(old_axes, new_axes, strict=True)) if same else None
    return {axis: axis for axis in range(len(shape))}  # splat (a scalar has no axes), broadcast


def add(step: SymbolicStep) -> Symbolic | None:
    """Sum or difference of indices, or an address plus indices."""
    if len(step.affine()) < 2 or step.result.element == "i1":
        return None
    left, right = step.affine()
    sign = -1 if step.op.kind == "sub" else 1
    steps = tuple(a + b * sign for a, b in zip(left.steps, right.steps, strict=True))
    terms = summed(left.terms, right.scaled(Polynomial.constant_of(sign)).terms)
    within = left.within | right.within
    return AffineTile(step.result.shape, left.origin + right.origin * sign, steps, left.base, within, terms)


def multiply(step: SymbolicStep) -> Symbolic | None:
    """Indices times the same factor everywhere."""
    if len(step.affine()) < 2 or step.result.element == "i1":
        return None
    factor, index = step.affine()
    if varies(factor):
        factor, index = index, factor
    return None if varies(factor) or factor.within else index.scaled(factor.origin)


def varies(tile: AffineTile) -> bool:
    """Whether the elements of a tile differ."""
    return any(tile.steps) or bool(tile.terms)


def quotient(step: SymbolicStep) -> Symbolic | None:
    """An index from 0 on, divided by a constant that what each axis adds either is a multiple of or never reaches."""
    divided = divided_exactly(step)
    return divided[0] if divided else None


def divided_exactly(step: SymbolicStep) -> tuple[AffineTile, AffineTile] | None:
    """Quotient and remainder of an index from 0 on by a constant, where both are affine: n * d + i of axes of which
    those that are no multiples of d stay below d together."""
    if len(step.affine()) < 2 or step.result.element == "i1":
        return None
    index, divisor = step.affine()
    if varies(divisor) or divisor.within or index.terms or index.base or not divisor.origin.is_constant:
        return None
    number = divisor.origin.constant
    if number <= 0 or not all(map(step.nonnegative, index.parts)):
        return None
    whole, rest, most = [], [], 0
    for part, extent in zip(index.parts, (2, *index.shape), strict=True):
        left = part.constant % number
        exact = (part - left).divide_exactly(divisor.origin)
        if exact is None:
            return None
        whole.append(exact)
        rest.append(Polynomial.constant_of(left))
        most += left * (extent - 1)
    if most >= number:
        return None
    return replace(index, origin=whole[0], steps=tuple(whole[1:])), replace(
        index, origin=rest[0], steps=tuple(rest[1:])
    )


def remainder(step: SymbolicStep) -> Symbolic | None:
    """An index from 0 on is its own remainder as long as it is below the divisor."""
    if len(step.affine()) < 2 or step.result.element == "i1":
        return None
    index, divisor = step.affine()
    if varies(divisor) or divisor.within or index.terms:
        return None
    divided = divided_exactly(step)
    if divided is not None:
        return divided[1]
    made = below(index, divisor.origin)
    if made is None or all(map(step.nonnegative, index.parts)):
        return made
    from_zero = below(index.scaled(Polynomial.constant_of(-1)), Polynomial.constant_of(1))
    return replace(made, within=made.within | from_zero.within) if from_zero else None


def smaller(step: SymbolicStep) -> Symbolic | None:
    """The smaller of an index and a scalar, as long as that is the index."""
    index, limit = clipped(step)
    return below(index, limit.origin + 1) if index and limit else None


def larger(step: SymbolicStep) -> Symbolic | None:
    """The larger of an index and a scalar, as long as that is the index."""
    index, limit = clipped(step)
    if not index or not limit:
        return None
    turned = index.scaled(Polynomial.constant_of(-1))
    made = below(turned, 1 - limit.origin)
    return replace(index, within=made.within) if made else None


def clipped(step: SymbolicStep) -> tuple[AffineTile, AffineTile] | tuple[None, None]:
    """The index and the limit of a minimum or maximum of signed integers."""
    if len(step.affine()) < 2 or step.result.element == "i1" or not step.attribute("signed", 1):
        return None, None
    index, limit = step.affine()
    if varies(limit):
        index, limit = limit, index
    return (None, None) if varies(limit) or limit.within or index.terms else (index, limit)


def below(index: AffineTile, limit: Polynomial) -> AffineTile | None:
    """The index as what it is where it is below the limit; None if no bound of one axis says where that is."""
    mask = negative(index.origin - limit, index.steps)
    return replace(index, within=index.within | set(mask.bounds)) if mask.complete else None


def chosen(step: SymbolicStep) -> Symbolic | None:
    """An index that a mask lets through, as long as the mask holds."""
    mask, index, _ = step.operands
    if not isinstance(mask, Mask) or not mask.complete or not isinstance(index, AffineTile) or index.terms:
        return None
    return replace(index, within=index.within | set(mask.bounds))


def shift_left(step: SymbolicStep) -> Symbolic | None:
    """Indices times a known power of two."""
    if len(step.affine()) < 2 or step.result.element == "i1":
        return None
    index, by = step.affine()
    known = by.origin.is_constant and not varies(by) and not by.within and 0 <= by.origin.constant < 63
    return index.scaled(Polynomial.constant_of(1 << by.origin.constant)) if known else None


def cast(step: SymbolicStep) -> Symbolic | None:
    """Between integers of at least 32 bits nothing changes."""
    operand = step.operands[0]
    same = isinstance(operand, AffineTile) and step.result.element in ("i32", "i64") and step.attribute("signed")
    return operand if same else None


def bitcast(step: SymbolicStep) -> Symbolic | None:
    """A pointer to elements of another type of the same width points where it did."""
    operand = step.operands[0]
    return operand if isinstance(operand, AffineTile) and step.result.element.startswith("ptr:") else None


def conjunction(step: SymbolicStep) -> Symbolic | None:
    """The bounds of both masks; of an operand that is no mask nothing is known."""
    if step.result.element != "i1":
        return None
    masks = [operand if isinstance(operand, Mask) else UNKNOWN_MASK for operand in step.operands]
    bounds = tuple(dict.fromkeys(bound for mask in masks for bound in mask.bounds))
    return Mask(bounds, all(mask.complete for mask in masks))


def compare(step: SymbolicStep) -> Symbolic | None:
    """A bound, if the sides differ by an index along one axis plus a scalar."""
    predicate = step.attribute("predicate")
    if len(step.affine()) < 2 or not step.attribute("signed", 1) or predicate not in ("lt", "le", "gt", "ge"):
        return None
    left, right = step.affine()
    if left.within or right.within or left.terms or right.terms:
        return None
    if predicate in ("gt", "ge"):
        left, right = right, left
    steps = [a - b for a, b in zip(left.steps, right.steps, strict=True)]
    return negative(left.origin - right.origin - int(predicate in ("le", "ge")), steps)


def negative(origin: Polynomial, steps: Sequence[Polynomial]) -> Mask:
    """Where origin + Σ steps·(i, j, ...) < 0, over integers."""
    moving = [axis for axis, step in enumerate(steps) if step]
    if not moving:
        return EVERYWHERE if origin.is_constant and origin.constant < 0 else UNKNOWN_MASK
    factor = steps[moving[0]].constant
    if len(moving) > 1 or not steps[moving[0]].is_constant:
        return UNKNOWN_MASK
    limit = quotient_up(-origin, abs(factor))  # below it: i of a positive factor, -i of a negative one
    if limit is None:
        return UNKNOWN_MASK
    bound = IndexBound(moving[0], "upper", limit) if factor > 0 else IndexBound(moving[0], "lower", 1 - limit)
    return Mask((bound,), True)


def quotient_up(dividend: Polynomial, divisor: int) -> Polynomial | None:
    """The quotient rounded up, if that is a polynomial."""
    if dividend.is_constant:
        return Polynomial.constant_of(-(-dividend.constant // divisor))
    return dividend.divide_exactly(Polynomial.constant_of(divisor))


RULES: dict[str, Rule] = {
    "constant": constant, "range": arange, "splat": view, "broadcast": view, "expand_dims": view,
    "reshape": view, "transpose": view, "add": add, "sub": add, "add_pointer": add, "mul": multiply,
    "div": quotient, "rem": remainder, "min": smaller, "max": larger, "select": chosen,
    "shl": shift_left, "cast": cast, "bitcast": bitcast, "and": conjunction, "compare": compare,
}  # fmt: skip
