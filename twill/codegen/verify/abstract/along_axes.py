"""Launches of two programs along axes of the grid of which sizes that are made up know nothing.

Without a table nothing says how the grid follows from the sizes, and all launches have their programs along axis 0.
What a kernel makes of `tl.program_id(1)` is then 0 wherever it is checked.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from twill.codegen.verify.abstract.derive import shapes, touches_outside
from twill.codegen.verify.abstract.extent import ZeroStep, scouts, trips_of
from twill.exc import UnknownProblem
from twill.kernel.problem import Case, ProblemTable
from twill.tile.interpret.sequential import descriptor_scalars
from twill.tile.program import TileProgram

Found = TypeVar("Found")
LONGEST = 40  # iterations of such a launch, at most


def along_axes(tile: TileProgram, known: ProblemTable, sizes: Sequence[Mapping[str, int]]) -> Iterator[Case]:
    """A case for each axis of which the program has an index and the grid one program: of two along it. sizes: of the
    other launches; the largest are taken twice, so that tiles of the second program are not all behind the end."""
    used = {op.attribute("axis") for op in tile.ops() if op.kind == "program_id"}
    if tile.tiles is not None or tile.walk is not None or tile.split is not None or not sizes:
        return
    most = {name: 2 * max(one[name] for one in sizes) for name in sizes[0]}
    for axis in (1, 2):
        if axis in used and (*known.grid, "1", "1", "1")[axis] == "1":
            case = replace(known.case(most), grid=tuple(2 if axis == at else 1 for at in range(axis + 1)))
            if _is_one(tile, case):
                yield case


def along_all(tile: TileProgram, problem: ProblemTable, found: Callable[[ProblemTable], Found]) -> Found:
    """What is found with a derived problem, or else with two programs along every axis of which the program has an
    index: where the last one along an axis looks up what belongs to the one before. Errors: UnknownProblem, of the
    first."""
    try:
        return found(problem)
    except UnknownProblem:
        used = {op.attribute("axis") for op in tile.ops() if op.kind == "program_id"}
        grid = tuple("2" if axis in used and count == "1" else count
                     for axis, count in enumerate((*problem.grid, "1", "1", "1")[:3]))  # fmt: skip
        if tile.tiles is None and tile.walk is None and tile.split is None and "2" in grid:
            with contextlib.suppress(UnknownProblem):
                return found(replace(problem, grid=grid))
        raise


def _is_one(tile: TileProgram, case: Case) -> bool:
    """Whether that is a launch: loops make steps, and not too many, and nothing lies far outside of tensors."""
    scalars = {**case.scalars, **descriptor_scalars(tile, shapes(tile, case))}
    try:
        trips = trips_of(tile, case.grid, scalars)
    except ZeroStep:
        return False
    few = max((trip for instance in trips for trip in instance), default=0) <= LONGEST
    return few and math.prod(case.grid) > 1 and not touches_outside(tile, case, scouts(tile, case.grid, scalars))
