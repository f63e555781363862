"""What no warp program can do, refused at its line before anything is solved.

Addresses, bounds of tiles and trip counts are expressions over arguments, grid indices and loop counters: the load
group makes them ahead of everything else, and launches choose sizes to check them at. What is loaded from memory, or
computed of it, cannot be among them.
"""

from __future__ import annotations

from twill import exc
from twill.tile.dead_code import reads
from twill.tile.program import Loop, Op, TileProgram, walk
from twill.tile.uniformity import Uniformity, classify

PAGES = "indices made of the grid and loop counters; a kernel that looks addresses up stays with Triton"
COUNTS = "a trip count that is an argument or a constexpr"
BLOCKS = "one tl.load of all of them before the loop, or of a tile of them for each iteration"


def refuse_unemittable(program: TileProgram) -> None:
    """Raises UnsupportedInKernel for what depends on data where it must not."""
    uniformity = classify(program)
    for item in program.body:
        if isinstance(item, Loop):
            _bounds(program, item, uniformity)
    for op in program.ops():
        if op.access is not None:
            _address(program, op, uniformity)
    for loop in (item for item in program.body if isinstance(item, Loop)):
        for op in walk(loop.body):
            if op.kind == "tile_load" and not program.type_of(op.results[0]).shape:
                _refuse(program, op.line, f"`{op.name or 'a scalar'}` is one number loaded in every iteration", BLOCKS)


def _bounds(program: TileProgram, loop: Loop, uniformity: Uniformity) -> None:
    if any(value not in uniformity.uniform for value in (loop.lower, loop.upper, loop.step)):
        _refuse(program, loop.line, "the trip count of a loop depends on what is loaded from memory", COUNTS)


def _address(program: TileProgram, op: Op, uniformity: Uniformity) -> None:
    looked_up = [value for value in set(reads(op)) - set(op.operands) if value not in uniformity.uniform]
    if not looked_up:
        return
    name = program.values[looked_up[0]].name
    base = op.access.base if op.access is not None else ""
    source = f"`{name}`, which is" if name else "what is"
    _refuse(program, op.line, f"the address of a tile of `{base}` depends on {source} loaded from memory", PAGES)


def _refuse(program: TileProgram, line: int, what: str, hint: str) -> None:
    raise exc.UnsupportedInKernel(what, file=program.file, line=line, hint=hint)
