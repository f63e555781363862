"""Sizes for a kernel whose sidecar names none: made up from its arguments, loops and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twill.codegen.verify.abstract.extent import ScalarInstance
from twill.kernel.problem import Case, ProblemTable
from twill.manifest.evaluate import names
from twill.manifest.tile_loop import TileLoop
from twill.tile.interpret.sequential import descriptor_scalars, instances
from twill.tile.program import Loop, TileProgram

ROW = 1 << 14  # elements between rows whose distance is an argument


def derived_problem(program: TileProgram) -> ProblemTable:
    """Every integer argument is a size of its own; tensors are as large as what is accessed.

    Strides in memory are no sizes: they are so large that rows do not overlap. Axis 0 of the grid has three
    program instances, the others one. Shapes of descriptors follow from what is accessed, see `shapes`.
    """
    strides = _strides(program)
    sizes = {
        argument.name: argument.divisibility
        for argument in program.arguments
        if argument.type.element.startswith("i") and "." not in argument.name and argument.value not in strides
    }
    scalars = {
        argument.name: "0.125" if argument.type.element.startswith(("f", "b")) else str(ROW)
        for argument in program.arguments
        if ":" not in argument.type.element and argument.name not in sizes and "." not in argument.name
    }
    units = {name: str(unit) for name, unit in sizes.items()}
    return ProblemTable(units, {}, scalars, (), (), _grid(program.tiles), {}, program.file)


def _grid(tiles: TileLoop | None) -> tuple[str, ...]:
    """Three programs along axis 0; where they stride over tiles, as many as it takes to reach them all."""
    if tiles is None or not isinstance(tiles.stride, int | str):
        return ("3",)
    return (*["1"] * tiles.axis, str(tiles.stride))


def extents(program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float]) -> dict[str, int]:
    """Elements that each pointer argument's tensor needs, from the addresses that are touched."""
    needed: dict[str, int] = {}
    for index in instances(grid):
        scout = ScalarInstance(program, index, grid, scalars, within=True)
        scout.run()
        for op in program.ops():
            if op.access is None or op.id not in scout.constants:
                continue
            last = scout.constants[op.id][1]
            for number, axis in enumerate(op.access.axes):
                first, end = scout.ranges.get((op.id, number), (0, 0))
                last += max(first, end - 1) * scout.number(axis.stride)
            needed[op.access.base] = max(needed.get(op.access.base, 0), last + 1)
    return needed


def shapes(program: TileProgram, case: Case) -> dict[str, tuple[int, ...]]:
    """The shapes of the case, and of descriptors that it leaves out: as large as what is accessed."""
    found = dict(case.shapes)
    missing = [argument for argument in program.arguments
               if argument.type.element.startswith("desc:") and argument.name not in found]  # fmt: skip
    if not missing:
        return found
    unbounded = {argument.name: (ROW,) * len(argument.type.shape) for argument in missing}
    scalars = {**case.scalars, **descriptor_scalars(program, {**found, **unbounded})}
    ends: dict[str, list[int]] = {argument.name: [1] * len(argument.type.shape) for argument in missing}
    for index in instances(case.grid):
        scout = ScalarInstance(program, index, case.grid, scalars, within=True)
        scout.run()
        for op in program.ops():
            for axis, end in enumerate(ends.get(op.access.base, ()) if op.access else ()):
                reached = scout.ranges.get((op.id, axis), (0, 0))[1]
                # Rows of a tensor that the TMA can step over are multiples of 16 bytes.
                ends[op.access.base][axis] = max(end, -(-reached // 16) * 16)  # type: ignore[union-attr]
    return found | {name: tuple(extent) for name, extent in ends.items()}


def _strides(program: TileProgram) -> set[int]:
    """Values that are strides of an access, and no loop counts to: those are sizes, whatever else they are."""
    accesses = [op.access for op in program.ops() if op.access]
    scales = {symbol for access in accesses for index in access.indices for symbol in index.scale.symbols()}
    strides = {symbol for access in accesses for axis in access.axes for symbol in axis.stride.symbols()}
    return (scales | strides) - _counted_to(program)


def _counted_to(program: TileProgram) -> set[int]:
    """The values that the bounds of loops, and the number of tiles, are made of."""
    loops = [item for item in program.body if isinstance(item, Loop)]
    tiles = set(names(program.tiles.count)) if program.tiles else set[str]()
    found = {value for loop in loops for value in (loop.lower, loop.upper, loop.step)}
    found |= {argument.value for argument in program.arguments if argument.name in tiles}
    for op in reversed(list(program.ops())):
        if found.intersection(op.results):
            found.update(op.operands)
    return found
