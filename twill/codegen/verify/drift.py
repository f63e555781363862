"""Whether what was stored drifts: is too large or too small on the whole, by less than any single number may be off.

Another order of additions and approximate functions change a number that is rounded to 16 or 8 bits now and then by one
unit in its last place, up as often as down. A wrong constant, a lost factor or a wrong rounding moves all of them one
way: then the mean of the differences is no longer about zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.abstract.violation import Violation
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.program import TileProgram

LAST_PLACE = {"f16": (10, -14), "bf16": (7, -126), "f8e4m3": (3, -6), "f8e5m2": (2, -14)}
"""Bits behind the point, and the lowest exponent of a normal number."""
MOST = 0.25  # units in the last place: rounding towards zero moves by a half, the short formulas for erf by 0.17
SURE = 5.0  # standard errors of the mean
CLIPPED = 4.0  # units: no single number decides


@dataclass(frozen=True)
class Drift:
    """mean: of the differences in magnitude, in units in the last place. error: its standard error."""

    mean: float
    error: float

    @property
    def real(self) -> bool:
        """More than chance and the order of additions explain."""
        return abs(self.mean) > MOST + SURE * self.error


def drift(ours: Array, theirs: Array, element: str) -> Drift:
    """Of numbers of a narrow float type, held as float32. Zeros, infinities and NaN say nothing."""
    bits, least = LAST_PLACE[element]
    comparable = np.isfinite(ours) & np.isfinite(theirs) & (theirs != 0)
    if not comparable.any():
        return Drift(0.0, 0.0)
    ours, theirs = np.abs(ours[comparable]).astype(np.float64), np.abs(theirs[comparable]).astype(np.float64)
    unit = np.exp2(np.maximum(np.frexp(theirs)[1] - 1, least) - bits)
    apart = np.clip((ours - theirs) / unit, -CLIPPED, CLIPPED)
    return Drift(float(apart.mean()), float(apart.std() / np.sqrt(apart.size)))


def drifting(
    program: TileProgram, launch: CheckedLaunch, found: Mapping[str, Array], expected: Mapping[str, Array]
) -> Iterator[Violation]:
    """A violation for each tensor of narrow floats that drifts, at the line of the statement that stores to it."""
    for argument in program.arguments:
        element = argument.type.element.partition(":")[2]
        if argument.name not in expected or element not in LAST_PLACE:
            continue
        written = expected[argument.name] != launch.arrays[argument.name]
        seen = drift(found[argument.name][written], expected[argument.name][written], element)
        if seen.real:
            line = next((op.line for op in program.ops() if op.access and op.access.base == argument.name
                         and op.kind != "tile_load"), 0)  # fmt: skip
            size = f"{abs(seen.mean):.2f} units in the last place too {'large' if seen.mean > 0 else 'small'}"
            yield Violation("values", f"on the whole {argument.name} is {size} ({launch.text})", line)
