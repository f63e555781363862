"""A warp program's numbers without any rounding: everything in float64, whatever type it is declared as.

Two programs that differ there by less than float64 rounds mean the same function: what they differ by otherwise is how
it rounds, so that a maximum which is subtracted and cancels may be half a percent off. That narrow types are narrow is
not looked at, but in conversions that were seeded (`tests.numeric_faults`): those round. Programs whose other
conversions differ are not compared here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from tests.numeric_faults import SEEDED
from tests.places import places
from twill.codegen.verify.abstract.results import in_chunks
from twill.codegen.verify.abstract_machine import Trial, run
from twill.codegen.warp.program import Compute, WarpProgram
from twill.tile.interpret import arithmetic, conversions
from twill.tile.interpret.widen import NARROW

Array = Any
FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2")
CLOSE = 2.0**-30  # of a chunk's largest number: float64 rounds at 2^-52, what amplifies that has 22 bits to do so


@contextmanager
def unrounded() -> Iterator[None]:
    """Floats of every type are held as float64."""
    rounds, cast = conversions._rounded, conversions.cast

    def wide(values: Array, element: str, towards_zero: bool) -> Array:
        return np.asarray(values).astype(conversions.HELD[element], copy=False)

    def seeded(values: Array, element: str, attributes: Mapping[str, Any], source: str) -> Array:
        made = cast(values, element, attributes, source)
        return rounds(made, element, False).astype(np.float64) if SEEDED in attributes else made

    held = patch.dict(conversions.HELD, dict.fromkeys(FLOATS, np.float64))
    with held, patch.object(conversions, "_rounded", wide), patch.object(arithmetic, "cast", seeded):
        yield


def results(program: WarpProgram, trial: Trial) -> dict[str, Array]:
    """All tensors after a launch."""
    launch = trial.launch
    wide = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in launch.arrays.items()}
    with unrounded():
        return dict(run(program, replace(launch, arrays=wide)).arrays)


def conversions_of(program: WarpProgram) -> Counter[tuple[object, ...]]:
    """What a program converts to narrow floats, and how often it says so; seeded conversions do not count."""
    elements = {fragment.id: fragment.element for group in program.groups for fragment in group.fragments}
    return Counter(
        (place.group, stmt.operands, elements[stmt.result], stmt.attributes)
        for place in places(program)
        if isinstance(stmt := place.stmt, Compute)
        and stmt.kind == "cast"
        and elements[stmt.result] in NARROW
        and SEEDED not in dict(stmt.attributes)
    )


def close(ours: dict[str, Array], theirs: dict[str, Array]) -> bool:
    """Whether two runs end with the same numbers but for what float64 rounds."""
    return all(_close(ours[name], theirs[name]) for name in theirs)


def _close(ours: Array, theirs: Array) -> bool:
    if ours.dtype.kind != "f":
        return bool(np.array_equal(ours, theirs))
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    with np.errstate(all="ignore"):
        size = in_chunks(np.where(np.isfinite(theirs), np.abs(theirs), 0.0))
        return bool(np.all(same | (np.abs(ours - theirs) <= CLOSE * size)))
