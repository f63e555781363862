"""Sizes for a kernel whose sidecar names none: made up from its arguments, loops and addresses."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from twill.codegen.verify.abstract.extent import ScalarInstance, scouts
from twill.kernel.problem import Case, ProblemTable
from twill.manifest.evaluate import names
from twill.reach import reach
from twill.tile.affine import Polynomial
from twill.tile.interpret.sequential import descriptor_scalars
from twill.tile.program import Argument, Loop, TileProgram

ROW = 1 << 14  # elements between rows whose distance is an argument, where nothing is known of what is in a row
NEAR = 1 << 9  # the same at least
NEAREST = 16  # what is a multiple of something is one of this
LARGEST = 1 << 26  # elements of a tensor


def derived_problem(program: TileProgram, row: int = ROW) -> ProblemTable:
    """Every integer argument is a size of its own; tensors are as large as what is accessed. A size that is also the
    distance between rows which are stored without a bound is a multiple of what is stored of a row.

    Strides in memory are no sizes: they are so large that what program instances access does not overlap. Axis
    0 of the grid has three program instances, the others one. Shapes of descriptors follow from what is accessed, see
    `shapes`, and a grid whose number of programs is divided from what it is divided by. A number of bits that something
    is shifted by is 1. row: elements between rows.
    """
    distances = strides(program)
    rows, bits = _whole_rows(program), _shifts(program)
    sizes = {
        argument.name: math.lcm(argument.divisibility, rows.get(argument.value, 1))
        for argument in program.arguments
        if argument.type.element.startswith("i")
        and "." not in argument.name
        and argument.name not in distances
        and argument.name not in bits
    }
    nested = _nested(program, distances, row)
    scalars = {
        argument.name: "0.125"
        if argument.type.element.startswith(("f", "b"))
        else "1"
        if argument.name in bits
        else str(nested.get(argument.name) or _distance(program, argument, row))
        for argument in program.arguments
        if ":" not in argument.type.element and argument.name not in sizes and "." not in argument.name
    }
    units = {name: str(unit) for name, unit in sizes.items()}
    return ProblemTable(units, {}, scalars, (), (), _grid(program), {}, program.file)


def _shifts(program: TileProgram) -> set[str]:
    """Arguments that say by how many bits something is shifted."""
    shifted = {op.operands[1] for op in program.ops() if op.kind in ("shl", "shr")}
    return {argument.name for argument in program.arguments if argument.value in shifted}


def with_near_rows(program: TileProgram, known: ProblemTable, cases: Sequence[Case]) -> ProblemTable:
    """A derived problem whose rows are as far from one another as the longest of these launches need, and no farther:
    tensors have several million elements otherwise, and every run goes through all of them. Rows in which tiles say
    where something is stay where they are."""
    accesses = [op.access for op in program.ops() if op.access]
    far, farther = (derived_problem(program, row).scalars for row in (ROW, 2 * ROW))
    distances = {name for name in far if far[name] != farther[name] and known.scalars.get(name) == far[name]}
    if not distances or any(access.indices for access in accesses):
        return known
    longest = max((_longest_row(program, case, distances) for case in cases), default=0)
    row = NEAR
    while row < longest:
        row *= 2
    near = derived_problem(program, min(row, ROW)).scalars
    return replace(known, scalars={**known.scalars, **{name: near[name] for name in distances}})


def _longest_row(program: TileProgram, case: Case, distances: Collection[str]) -> int:
    """Elements from the first to the last that a launch touches in a row, and one for each row, of the tensors whose
    rows are `distances` apart."""
    scalars = {**case.scalars, **descriptor_scalars(program, shapes(program, case))}
    apart = extents(program, case.grid, scalars)
    together = extents(program, case.grid, {**scalars, **dict.fromkeys(distances, 1)})
    return max((length for name, length in together.items() if length != apart[name]), default=0)


def _grid(program: TileProgram) -> tuple[str, ...]:
    """Three programs along axis 0. Where they stride over tiles, as many as it takes to reach them all; where their
    number is divided (`tl.num_programs(2) // HEADS`), so many that a share is one."""
    tiles, shares = program.tiles, _shares(program)
    if tiles is not None and isinstance(tiles.stride, int | str):
        return (*["1"] * tiles.axis, str(tiles.stride))
    if not shares:
        return ("3",)
    return tuple(str(shares.get(axis, 1)) for axis in range(max(shares) + 1))


def _shares(program: TileProgram) -> dict[int, int]:
    """Axes of the grid whose number of programs is divided by constants, each with the least multiple of those."""
    made = program.makers
    found: dict[int, int] = {}
    for op in program.ops():
        number, divisor = (made.get(operand) for operand in op.operands) if op.kind == "div" else (None, None)
        if number is None or divisor is None or number.kind != "num_programs" or divisor.kind != "constant":
            continue
        axis, by = number.attribute("axis"), divisor.attribute("value")
        if isinstance(axis, int) and isinstance(by, int) and by > 0:
            found[axis] = math.lcm(found.get(axis, 1), by)
    return found


def of_all_tiles(program: TileProgram, problem: ProblemTable) -> tuple[str, ...]:
    """The problem's grid. Programs that stride over tiles by a number of their own are that many where the grid is
    a smaller number: a launch of few tiles has as many programs as tiles (`min(132, tiles)`), others have more."""
    tiles = program.tiles
    if tiles is None or not isinstance(tiles.stride, int) or tiles.axis >= len(problem.grid):
        return problem.grid
    text = problem.grid[tiles.axis]
    if not text.isdecimal() or int(text) >= tiles.stride:
        return problem.grid
    return tuple(str(tiles.stride) if axis == tiles.axis else one for axis, one in enumerate(problem.grid))


def of_parts(program: TileProgram, problem: ProblemTable) -> ProblemTable:
    """The problem whose grid has the parts of a split, behind the axes that the kernel has."""
    if program.split is None:
        return problem
    axis = program.split.axis
    return replace(problem, grid=((*problem.grid, "1", "1")[:axis] + (str(program.split.parts),)))


def extents(program: TileProgram, grid: Sequence[int], scalars: Mapping[str, int | float]) -> dict[str, int]:
    """Elements that each pointer argument's tensor needs, from the addresses that are touched."""
    needed: dict[str, int] = {}
    for scout in scouts(program, grid, scalars):
        for op, access in program.accesses:
            if op.id not in scout.constants:
                continue
            last = scout.constants[op.id][1]
            spans = [scout.ranges.get((op.id, number), (0, 0)) for number in range(len(access.axes))]
            if any(end <= first for first, end in spans):
                last, spans = 0, []
            for span, axis in zip(spans, access.axes, strict=False):
                last += _edges(span, scout.number(axis.stride))[1]
            needed[access.base] = max(needed.get(access.base, 0), last + 1)
    return needed


def _edges(span: tuple[int, int], stride: int) -> tuple[int, int]:
    """The least and the largest distance in memory of the indices from `span[0]` to in front of `span[1]`: a stride is
    negative where a kernel goes through rows backwards."""
    first, last = span[0] * stride, (span[1] - 1) * stride
    return min(first, last), max(first, last)


def touches_outside(program: TileProgram, case: Case, reached: Iterable[ScalarInstance]) -> bool:
    """Whether a launch accesses what lies before a tensor or, of a tensor without a known shape, very far behind its
    begin: no kernel is made for such sizes."""
    for scout in reached:
        for op, access in program.accesses:
            if op.id not in scout.constants:
                continue
            spans = [scout.ranges.get((op.id, number), (0, 0)) for number in range(len(access.axes))]
            if any(end <= first for first, end in spans):
                continue
            low, high = scout.constants[op.id]
            for axis, span in zip(access.axes, spans, strict=True):
                nearest, farthest = _edges(span, scout.number(axis.stride))
                low, high = low + nearest, high + farthest
            before = low < 0 and not access.indices  # what is added to those is not known here
            if before or (access.base not in case.shapes and high >= LARGEST):
                return True
    return False


def touched(program: TileProgram, reached: Iterable[ScalarInstance]) -> set[tuple[str, int, str]]:
    """The accesses of which some program instance touches whole tiles ("all"), and those of which it touches parts
    ("some"), in the first iteration or the last."""
    found: set[tuple[str, int, str]] = set()
    for scout in reached:
        for op, access in program.accesses:
            axes = access.axes
            spans = [scout.ranges.get((op.id, number)) for number in range(len(axes))]
            if not axes or any(span is None or span[1] <= span[0] for span in spans):
                continue
            whole = all(span[1] - span[0] >= axis.extent for span, axis in zip(spans, axes, strict=True) if span)
            found.add(("touched", op.id, "all" if whole else "some"))
    return found


def bounds_met(program: TileProgram, reached: Iterable[ScalarInstance]) -> set[tuple[str, int, int, str]]:
    """Of every axis of an access whether its bounds leave all of it, some of it or none, in some program instance."""
    found: set[tuple[str, int, int, str]] = set()
    for scout in reached:
        for op, access in program.accesses:
            for number, axis in enumerate(access.axes):
                first, end = scout.ranges.get((op.id, number), (0, 0))
                found.add(
                    (
                        "bounds",
                        op.id,
                        number,
                        "none" if end <= first else "all" if end - first == axis.extent else "some",
                    )
                )
    return found


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
    for scout in scouts(program, case.grid, scalars):
        for op, access in program.accesses:
            for axis, end in enumerate(ends.get(access.base, ())):
                reached = scout.ranges.get((op.id, axis), (0, 0))[1]
                # Rows of a tensor that the TMA can step over are multiples of 16 bytes; how many there are is free.
                unit = 16 if axis == len(ends[access.base]) - 1 else 1
                ends[access.base][axis] = max(end, -(-reached // unit) * unit)
    return found | {name: tuple(extent) for name, extent in ends.items()}


def strides(program: TileProgram) -> set[str]:
    """Arguments that are distances in memory, and nothing else: no size can be made up for them by itself."""
    values = _strides(program)
    return {argument.name for argument in program.arguments if argument.value in values}


def _nested(program: TileProgram, distances: Collection[str], row: int) -> dict[str, int]:
    """Numbers for the arguments that are the distances along two or more axes of one tile, such that none of its
    elements lie on one another: along the last axis the least that there is, along those in front of it more. A tensor
    that is stored and also accessed in another way has rows without a gap, if their length is known, so that both ways
    meet as they do in tensors of a real launch."""
    arguments = {argument.value: argument for argument in program.arguments if argument.name in distances}
    accesses = [op.access for op in program.ops() if op.access]
    ways: dict[str, set[tuple[Polynomial, ...]]] = {}
    for access in accesses:
        ways.setdefault(access.base, set()).add(tuple(axis.stride for axis in access.axes))
    written = {op.access.base for op in program.ops() if op.access and op.kind in ("tile_store", "tile_reduce")}
    made: dict[str, int] = {}
    for access in accesses:
        own = [(axis, arguments[number]) for axis in access.axes if (number := _alone(axis.stride)) in arguments]
        if len(own) < 2 or any(argument.name in made for _, argument in own):
            continue
        (axis, argument), *outer = reversed(own)
        made[argument.name] = length = max(1, argument.divisibility)
        same = {one.base for one in accesses if [a.stride for a in one.axes] == [a.stride for a in access.axes]}
        packed = any(len(ways[base]) > 1 for base in same & written)
        reach = length * axis.upper.constant if packed and axis.upper and axis.upper.is_constant else 0
        for axis, argument in outer:
            unit = max(1, argument.divisibility)
            length = -(-reach // unit) * unit or _distance(program, argument, row)
            made[argument.name], reach = length, length * axis.extent
            if reach > LARGEST:
                break
    return made


def _whole_rows(program: TileProgram) -> dict[int, int]:
    """The values that are distances between rows which are stored without a bound, each with what it is a multiple of:
    such a kernel relies on whole tiles in a row, for in a shorter one elements of two rows lie on one another."""
    found: dict[int, int] = {}
    for op in program.ops():
        if op.access is None or op.kind == "tile_load":
            continue
        along = [axis for axis in op.access.axes if axis.stride == Polynomial.constant_of(1)]
        whole = math.lcm(*(axis.extent for axis in along if axis.lower is None and axis.upper is None))
        lengths = [*(axis.stride for axis in op.access.axes), *(index.scale for index in op.access.indices)]
        for number in (number for length in lengths if (number := _alone(length)) is not None):
            found[number] = math.lcm(found.get(number, 1), whole)
    return found


def _alone(stride: Polynomial) -> int | None:
    """The value that a stride is; None if it is more than that."""
    symbols = [*stride.symbols()]
    return symbols[0] if len(symbols) == 1 and stride == Polynomial.symbol(symbols[0]) else None


def _distance(program: TileProgram, argument: Argument, row: int) -> int:
    """A number for an argument that is a distance: `row`, less what addresses multiply it with at least (`H * 128`):
    tensors would have as many times the elements. One that is multiplied with other distances (`pid * H * CHUNKS`), and
    lies between no elements of a tile, counts what they are distances of: there are few."""
    accesses = [op.access for op in program.ops() if op.access]
    lengths = [axis.stride for access in accesses for axis in access.axes]
    lengths += [index.scale for access in accesses for index in access.indices]
    if not any(argument.value in length.symbols() for length in lengths):
        others = _strides(program) - {argument.value}
        terms = (dict(term) for access in accesses for term, _ in access.constant.terms)
        if any(argument.value in term and others & term.keys() for term in terms):
            return max(NEAREST, argument.divisibility)
    lengths += [access.constant for access in accesses]
    factors = [
        abs(factor) for length in lengths for term, factor in length.terms if argument.value in dict(term)
    ]  # fmt: skip
    return max(NEAREST, row >> (min(factors, default=1).bit_length() - 1))


def _strides(program: TileProgram) -> set[int]:
    """Values that are strides of an access, or distances between what program instances access, and nothing else."""
    accesses = [op.access for op in program.ops() if op.access]
    strides = {symbol for access in accesses for axis in access.axes for symbol in axis.stride.symbols()}
    strides |= {symbol for access in accesses for index in access.indices for symbol in index.scale.symbols()}
    loops = [item for item in program.body if isinstance(item, Loop)]
    moving = {loop.induction for loop in loops} | {carry.argument for loop in loops for carry in loop.carried}
    moving |= {result for op in program.ops() if op.kind in ("program_id", "visited") for result in op.results}
    for term in (term for access in accesses for term, _ in access.constant.terms):
        still = {symbol for symbol, _ in term if not made_from(program, (symbol,)) & moving}
        strides |= still if len(still) < len(term) else set()
    return made_from(program, strides) - made_from(program, _compared(program))


def _compared(program: TileProgram) -> set[int]:
    """Scalars that say how much there is: in bounds, indices, trip counts, in what is computed of tiles, and where one
    argument is divided by another (heads that share a group: `HV // H`)."""
    axes = [axis for op in program.ops() if op.access for axis in op.access.axes]
    polynomials = (p for axis in axes for p in (axis.offset, axis.lower, axis.upper) if p is not None)
    found = {symbol for polynomial in polynomials for symbol in polynomial.symbols()}
    loops = [item for item in program.body if isinstance(item, Loop)]
    found |= {bound for loop in loops for bound in (loop.lower, loop.upper, loop.step)}
    tiles = set(names(program.tiles.count)) if program.tiles else set[str]()
    given = {argument.value for argument in program.arguments}
    found |= {argument.value for argument in program.arguments if argument.name in tiles}
    found |= {op.operands[1] for op in program.ops() if op.kind in ("div", "rem") and given >= {*op.operands}}
    for op in program.ops():
        if any(program.type_of(value).shape for value in (*op.operands, *op.results)) or not op.results:
            found |= {value for value in op.operands if not program.type_of(value).shape}
    return found


def made_from(program: TileProgram, values: Iterable[int]) -> set[int]:
    """The values and all that they are computed from."""
    needs = {result: op.operands for op in program.ops() for result in op.results}
    for loop in (item for item in program.body if isinstance(item, Loop)):
        for carry in loop.carried:
            needs[carry.argument] = needs[carry.result] = (carry.init, carry.yielded)
    return reach(values, lambda value: needs.get(value, ()))
