"""Launch grids that no size makes smaller, with fewer program instances where these stand for all.

A grid axis of constants alone (`cdiv(N_CTX, BLOCK_M)` with both constexprs) has as many instances at every size. Those
along it differ by nothing but where their tiles lie, if

- the axis' index, and numbers made of it, are operands of scalar integers, and offsets of accesses: no condition, no
  loop's bound and no element is made of them, and nothing asks how many instances there are;
- every access of every instance reaches as far over its bounds as the first one's, in the first and the last iteration.

What is wrong in one instance is then wrong in each. As many are left as a persistent CTA has to work on for a slot that
is lost in each of them to run a ring dry, two along every axis at least, so that indices that were exchanged show. An
instance does not know of those that are left out: a launch of fewer is a launch like any other.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from twill.codegen.verify.abstract.derive import shapes
from twill.codegen.verify.abstract.extent import ScalarInstance
from twill.kernel.problem import Case, ProblemTable
from twill.tile.interpret.sequential import descriptor_scalars
from twill.tile.program import Loop, Op, TileProgram
from twill.tile.scalars import GRID, Scalars
from twill.tile.uniformity import classify

ALONG = 2  # instances along an axis, at least


class _Unknown(Exception):
    """Where a tile lies depends on what is loaded."""


def with_representatives(program: TileProgram, problem: ProblemTable, least: int) -> ProblemTable:
    """The problem with fewer instances along axes of constants, but `least` in all if there are so many: fewer where a
    size makes another axis longer."""
    if program.tiles is not None or program.walk is not None:  # CTAs of the launch walk tiles: the grid is theirs
        return problem
    sizes = {name: problem.unit(name) for name in problem.units}
    case = problem.case(sizes)
    constant = [axis for axis, text in enumerate(problem.grid) if _is_constant(text, problem)]
    axes = [axis for axis in constant if case.grid[axis] > ALONG and _alike(program, case, axis)]
    grid = [ALONG if axis in axes else case.grid[axis] if axis in constant else 1 for axis in range(len(case.grid))]
    sized = " * ".join(f"({text})" for axis, text in enumerate(problem.grid) if axis not in constant) or "1"
    texts = [*problem.grid]
    for axis in axes:
        # Instances along other axes count, but less than they are: sizes that add some shall add some to the launch.
        others = max(1, math.prod(grid) // grid[axis])
        texts[axis] = f"min({case.grid[axis]}, max({ALONG}, cdiv({least} + 1 - {sized}, {others})))"
        grid[axis] = min(case.grid[axis], max(ALONG, -(-least // others)))
    return replace(problem, grid=tuple(texts))


def _is_constant(text: str, problem: ProblemTable) -> bool:
    """Whether an extent of the grid depends on no size and no argument."""
    names = {node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name)}
    return names.isdisjoint({*problem.units, *problem.scalars})


def _alike(program: TileProgram, case: Case, axis: int) -> bool:
    """Whether the instances along an axis of the grid differ in nothing but where their tiles lie."""
    return _only_places(program, axis) and _reach_alike(program, case, axis)


def _only_places(program: TileProgram, axis: int) -> bool:
    """Whether the axis' index is only in scalar integers and in accesses."""
    scalars = Scalars(program, classify(program))

    def varies(value: int) -> bool:
        if program.type_of(value).shape:  # a tile: what it is made of is looked at by itself
            return False
        made = (scalars.uniformity.makers.get(v) for v in scalars.reach(value))
        return any(op is not None and op.kind in GRID and op.attribute("axis") == axis for op in made)

    def is_integer(op: Op) -> bool:
        kinds = [program.type_of(value) for value in op.results]
        return all(not kind.shape and kind.element in ("i32", "i64") for kind in kinds) and op.access is None

    if any(op.kind == "num_programs" for op in program.ops()):
        return False
    loops = [item for item in program.body if isinstance(item, Loop)]
    if any(varies(value) for loop in loops for value in (loop.lower, loop.upper, loop.step)):
        return False
    return all(is_integer(op) or not any(map(varies, op.operands)) for op in program.ops())


def _reach_alike(program: TileProgram, case: Case, axis: int) -> bool:
    """Whether every access of every instance along an axis goes over its bounds as the first instance's does."""
    scalars = {**case.scalars, **descriptor_scalars(program, shapes(program, case))}
    grid = (*case.grid, 1, 1, 1)[:3]
    indices = (tuple(place if a == axis else 0 for a in range(3)) for place in range(grid[axis]))
    try:
        first = _overhang(program, grid, scalars, (0, 0, 0))
        return all(_overhang(program, grid, scalars, index) == first for index in indices)
    except _Unknown:
        return False


def _overhang(
    program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float], index: Sequence[int]
) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """By (access, axis): how many elements a tile has in front of its bounds, and behind them."""
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}

    class Scout(ScalarInstance):
        def note(self, op: Op) -> None:
            assert op.access is not None
            for number, along in enumerate(op.access.axes):
                try:
                    (first, end), start = self.reach(along), self.number(along.offset)
                except KeyError:  # an address of what is loaded: nobody knows
                    raise _Unknown from None
                found.setdefault((op.id, number), set()).add((first - start, start + along.extent - end))

    Scout(program, index, grid, scalars, within=True).run()
    return found
