"""Whether two runs stored the same: integers exactly, floats as far as the program's own roundings allow.

How far they allow is what a shaken run says (`twill.codegen.verify.abstract.rounding`). Tensors are looked at in chunks
of neighbours, each relative to its largest number. A tensor differs

    in an element   that is off by more than one unit of its type and a few times what its chunk was shaken
    as a whole      if the mean square of the differences is larger than that of the shaken run
    in its scale    if the differences have a part that is proportional to the tensor, larger than roundings add up to

The first finds what is wrong somewhere, the others what is a little wrong everywhere: a factor of 1.005, an accumulator
that is rounded once more in each iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.abstract.violation import Violation
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.program import TileProgram

DIGITS: dict[str, tuple[int, int]] = {
    "f64": (52, -1022), "f32": (23, -126), "f16": (10, -14), "bf16": (7, -126), "f8e4m3": (3, -6), "f8e5m2": (2, -14),
}  # fmt: skip
"""Bits behind the point, and the least exponent, of each type."""
CHUNK = 64  # elements
WIDE = 8.0  # so many times what its chunk was shaken, an element may be off: a shaken run is one of many
MEAN = 1.25  # so many times the root of the mean square
ALONE = 16  # elements, of which there is no mean
FINE = 2.0**-22  # a unit of f32 and finer types, relative to the largest number
FEW = 64  # elements that may fall on the other side in a tensor of which none was shaken over
FLUSHED = 2.0**-116  # what operations that give 0 for numbers below 2^-126 may leave out, times 2^10 later on
WIDE_RANGE = ("f32", "bf16")
SOME = 16  # elements that may be off because one shaken run moved them by next to nothing
GRAIN = 2.0**-12  # of a common factor: far below what any narrow type shows


@dataclass(frozen=True)
class Spread:
    """What a tensor's elements are compared by. unit: of each in its type. size: of its chunk's largest. shaken: how
    far the shaken run was."""

    unit: Array
    size: Array
    shaken: Array


@dataclass(frozen=True)
class Reference:
    """The tensors as a sequential program leaves them, and as its shaken run does. alone: it is the program that code
    was made of: only what all elements have in common is compared with it. farthest: the tensors as several shaken runs
    leave them, each element as the one that moves it the farthest; asked for where a few elements differ, of which a
    single run may have moved each by next to nothing."""

    expected: Mapping[str, Array]
    shaken: Mapping[str, Array]
    alone: bool = False
    farthest: Callable[[], Mapping[str, Array]] | None = None


def compare(
    program: TileProgram, launch: CheckedLaunch, found: Mapping[str, Array], reference: Reference
) -> Iterator[Violation]:
    """A violation for each tensor that differs, at the line of the statement that stores to it."""
    for argument in program.arguments:
        if argument.name not in reference.expected:
            continue
        element = argument.type.element.partition(":")[2]
        ours, theirs = found[argument.name], reference.expected[argument.name]
        shaken = reference.shaken[argument.name]
        if reference.alone:
            why = common(ours, theirs, spread_of(ours, theirs, shaken, element)) if element in DIGITS else ""
        else:
            why = difference(ours, theirs, shaken, element)
            if why and reference.farthest and element in DIGITS and few_differ(ours, theirs, shaken, element):
                why = difference(ours, theirs, reference.farthest()[argument.name], element)
        if not why:
            continue
        line = next((op.line for op in program.ops() if op.access and op.access.base == argument.name
                     and op.kind != "tile_load"), 0)  # fmt: skip
        yield Violation("values", f"{argument.name} differs from the sequential program: {why} ({launch.text})", line)


def effective_count(shaken: Array) -> float:
    """The effective number of elements that carry a tensor's roundings, (sum of squares)^2 / sum of fourth powers: all
    of them where they are moved alike, 1 where one is moved far more than all others, whose mean is its own then."""
    squares = np.square(shaken.astype(np.float64))
    fourth = float(np.sum(np.square(squares)))
    return float(np.sum(squares)) ** 2 / fourth if fourth else float(shaken.size)


def few_differ(ours: Array, theirs: Array, shaken: Array, element: str) -> bool:
    """Whether some elements of a tensor are off by more than their roundings, but no more than `SOME`."""
    return 0 < int(np.count_nonzero(far(ours, theirs, spread_of(ours, theirs, shaken, element)))) <= SOME


def difference(ours: Array, theirs: Array, shaken: Array, element: str) -> str:
    """In what a tensor differs, for people; "" if it does not. shaken: what the shaken run made of it."""
    if element in WIDE_RANGE:
        with np.errstate(all="ignore"):
            ours = np.where(np.abs(ours - theirs) <= FLUSHED, theirs, ours)
    if np.array_equal(ours, theirs, equal_nan=element in DIGITS):
        return ""
    wrong = ours != theirs if element not in DIGITS else far(ours, theirs, spread_of(ours, theirs, shaken, element))
    if wrong.any():
        first = int(np.argmax(wrong))
        return f"{int(wrong.sum())} of {wrong.size} elements, first {first}: {ours[first]} instead of {theirs[first]}"
    return common(ours, theirs, spread_of(ours, theirs, shaken, element))


def spread_of(ours: Array, theirs: Array, shaken: Array, element: str) -> Spread:
    """What the elements of a tensor are compared by."""
    bits, least = DIGITS[element]
    with np.errstate(all="ignore"):
        larger = np.maximum(*(np.where(np.isfinite(a), np.abs(a), 0).astype(np.float64) for a in (ours, theirs)))
        unit = np.exp2(np.maximum(np.frexp(larger)[1] - 1, least) - bits)
        moved = np.abs(shaken.astype(np.float64) - theirs)
    return Spread(unit, in_chunks(larger), np.where(np.isfinite(moved), moved, 0.0))


def in_chunks(values: Array) -> Array:
    """For each element the largest of its chunk."""
    padded = np.pad(values, (0, -values.size % CHUNK)).reshape(-1, CHUNK)
    return np.repeat(padded.max(axis=1), CHUNK)[: values.size]


def far(ours: Array, theirs: Array, spread: Spread) -> Array:
    """Where an element is off by more than its roundings."""
    with np.errstate(all="ignore"):
        off = np.abs(ours.astype(np.float64) - theirs)
        relative = spread.shaken / spread.size
        mean = math.sqrt(float(np.mean(np.square(np.where(np.isfinite(relative), relative, 0.0)))))
        allowed = spread.unit + WIDE * np.maximum(in_chunks(spread.shaken), mean * spread.size)
        return ~((off <= allowed) | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))


def common(ours: Array, theirs: Array, spread: Spread) -> str:
    """What all elements have in common: more rounding than the program has, or another scale."""
    used = (spread.size > 0) & np.isfinite(ours) & np.isfinite(theirs)
    if not used.any():
        return ""
    size = spread.size[used]
    off, unit = (ours[used].astype(np.float64) - theirs[used]) / size, spread.unit[used] / size
    value, shaken = theirs[used] / size, spread.shaken[used] / size
    grain = float(unit.max())
    moved = np.count_nonzero((off != 0) | (shaken != 0))
    many = moved > ALONE and effective_count(shaken) > ALONE
    factor = MEAN if many or grain > FINE else WIDE
    most = factor**2 * float(np.sum(shaken**2)) + FEW * grain**2
    if float(np.sum(off**2)) > most:
        times = math.sqrt(float(np.sum(off**2)) / max(float(np.sum(shaken**2)), grain**2))
        return f"its elements are off by {times:.1f} times what rounding moves them, in the mean"
    whole = float(np.sum(value**2))
    if not whole:
        return ""
    scale = float(np.sum(off * value)) / whole
    # Errors within a chunk may go together, those of different chunks do not.
    noise = math.sqrt(CHUNK * float(np.sum((shaken * value) ** 2))) / whole
    if abs(scale) > GRAIN + noise + 4 * grain / math.sqrt(off.size):
        return f"it is {1 + scale:.6f} times as large"
    return ""
