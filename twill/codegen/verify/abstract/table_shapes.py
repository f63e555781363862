"""Shapes in a sidecar that cannot be: at sizes that it lists, the kernel touches elements that a tensor has not."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from twill.codegen.verify.abstract.derive import extents
from twill.codegen.verify.abstract.extent import ZeroStep, trips_of
from twill.codegen.verify.abstract.reached import picks
from twill.exc import MalformedSidecar
from twill.kernel.problem import Case, ProblemTable
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.elements import OutsideOfTensor
from twill.tile.interpret.sequential import run as run_sequentially
from twill.tile.program import TileProgram

STEPS = 1 << 12  # iterations and program instances of a launch that is looked at, at most
ELEMENTS = 1 << 24  # of its tensors

Tensors = Callable[[Case], tuple[Mapping[str, Array], Mapping[str, int | float]]]
"""Tensors and scalars of a case."""


def refuse_wrong_shapes(program: TileProgram, problem: ProblemTable, tensors: Tensors) -> None:
    """Raises MalformedSidecar if a launch that the table lists (`run`) accesses elements that its tensors do not have.

    Sizes between those may be nobody's: a table of one recorded launch has its numbers. Launches that take long, and
    kernels whose addresses depend on data, are not looked at.
    """
    written = program.original or program
    if picks(program):
        return
    for sizes in problem.run:
        case = problem.case(sizes)
        if math.prod(case.grid) > STEPS or sum(map(math.prod, case.shapes.values())) > ELEMENTS:
            continue
        arrays, scalars = tensors(case)
        needed = extents(program, case.grid, scalars)
        short = {name for name, size in needed.items() if size > arrays[name].size}
        try:
            steps = sum(1 + sum(trips) for trips in trips_of(program, case.grid, scalars)) if short else 0
        except ZeroStep:
            continue
        if not short or steps > STEPS:
            continue
        try:
            run_sequentially(written, case.grid, {name: array.copy() for name, array in arrays.items()}, scalars)
        except OutsideOfTensor as outside:
            names = [name for name in sorted(short) if arrays[name].size == outside.size] or sorted(short)
            shape = ", ".join(f'"{text}"' for text in problem.tensors.get(names[0], ()))
            at = ", ".join(f"{name} = {value}" for name, value in sizes.items())
            reached = outside.least if outside.least < 0 else outside.most
            raise MalformedSidecar(
                f"problem: at {at} `{program.kernel}` accesses element {reached} of `{names[0]}`, "
                f"which has {outside.size} elements",
                file=problem.file, line=problem.line,
                hint=f"another shape than {names[0]} = [{shape}], or other scalars, grid or sizes in run",
            ) from None  # fmt: skip
