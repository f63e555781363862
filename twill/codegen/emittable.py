"""What no warp program can do, refused at its line before anything is solved.

Addresses, bounds of tiles and trip counts are expressions over arguments, grid indices, loop counters, and numbers that
are looked up in tensors that the kernel does not write: the load group makes them ahead of everything else. What is
computed from other data cannot be among them.
"""

from __future__ import annotations

from twill import exc
from twill.tile.data_addresses import by_data
from twill.tile.program import Loop, Op, TileProgram, Value, reads, walk
from twill.tile.scalars import Scalars
from twill.tile.uniformity import Uniformity, classify, written_bases
from twill.tile.vocabulary import ELECTED, MMA

PAGES = "indices made of the grid, loop counters, and what is loaded from a tensor that the kernel does not write"
COUNTERS = "a number that is computed, or loaded, from the loop counter alone in the iteration that needs it"
COUNTS = "a trip count that is an argument, a constexpr, or one number of a tensor that the kernel does not write"


def refuse_unemittable(program: TileProgram) -> None:
    """Raises UnsupportedInKernel for what depends on data where it must not."""
    uniformity = classify(program)
    written = written_bases(program)
    _elected(program)
    for op in program.ops():
        if op.region is not None and (both := written & op.region.bases()):
            what = f"a `while` loop looks numbers up in `{min(both)}`, which the kernel writes"
            _refuse(program, op.line, what, "numbers from a tensor that the kernel does not write, or two kernels")
    for item in program.body:
        if isinstance(item, Loop):
            _bounds(program, item, uniformity)
            _carried(program, item, uniformity)
            _searches(program, item, uniformity)
    for op in program.ops():
        if op.access is not None:
            _address(program, op, uniformity)
            _indices(program, op, uniformity)


def _elected(program: TileProgram) -> None:
    """What one thread does for all is seen by others through what it touches alone; beside products, where warp groups
    wait for one another, it is done outside of loops, and tiles are not read."""
    ops = [op for op in program.ops() if op.kind == ELECTED or (op.kind == "tile_reduce" and op.results)]
    product = next((op for op in program.ops() if op.kind in MMA), None)
    looped = {op.id for item in program.body if isinstance(item, Loop) for op in walk(item.body)}
    for op in ops if product is not None else ():
        if op.kind != ELECTED:
            what = "the old values of an atomic operation on a tile, in a kernel with tl.dot"
            _refuse(program, op.line, what, "the atomic operation, and what depends on it, in a kernel of its own")
        if op.id in looped:
            what = "an atomic operation whose old value or order counts, in a loop of a kernel with tl.dot"
            _refuse(program, op.line, what, "the atomic operation, and what depends on it, outside of loops")
    touched = frozenset[str]().union(*(op.region.touched() for op in ops if op.region is not None))
    for op in program.ops():
        if op.kind == "tile_reduce" and op.access is not None and op.access.base in touched:
            what = f"`{op.access.base}` is changed by atomic operations on tiles, whose order others can see in it"
            _refuse(program, op.line, what, "a tensor of its own for what is read by tl.atomic_* on single numbers")


def _bounds(program: TileProgram, loop: Loop, uniformity: Uniformity) -> None:
    if any(value not in uniformity.uniform for value in (loop.lower, loop.upper, loop.step)):
        _refuse(program, loop.line, "the trip count of a loop depends on what is computed from data", COUNTS)


def _changing(loop: Loop) -> set[int]:
    """What is another value in each iteration, and not computed of others."""
    loaded = (result for op in walk(loop.body) if op.access is not None for result in op.results)
    return {loop.induction, *(carry.argument for carry in loop.carried), *loaded}


def _searches(program: TileProgram, loop: Loop, uniformity: Uniformity) -> None:
    """A loop over scalars runs once for each program instance, and not in iterations that overlap."""
    scalars, inside = Scalars(program, uniformity), _changing(loop)
    for op in (op for op in walk(loop.body) if op.region is not None and op.kind != ELECTED):
        if any(scalars.reach(value) & inside for value in op.operands):
            hint = "the `while` in front of the loop, or a kernel of its own that stores what it finds"
            _refuse(program, op.line, "a `while` loop over scalars runs in every iteration of another loop", hint)


def _carried(program: TileProgram, loop: Loop, uniformity: Uniformity) -> None:
    """A scalar that a loop carries is a counter: each warp group knows it from the iteration alone."""
    scalars, inside = Scalars(program, uniformity), _changing(loop)
    for carry in (carry for carry in loop.carried if carry.argument in uniformity.uniform):
        maker = uniformity.makers.get(carry.yielded)
        added = [value for value in maker.operands if value != carry.argument] if maker is not None else []
        counts = maker is not None and maker.kind in ("add", "sub") and len(added) == 1 == len(maker.operands) - 1
        if not counts or scalars.reach(added[0]) & inside:
            line = maker.line if maker is not None and maker.line else loop.line
            name = f"`{carry.name}`" if carry.name else "a number"
            _refuse(program, line, f"{name} changes from iteration to iteration by more than a fixed amount", COUNTERS)


def _address(program: TileProgram, op: Op, uniformity: Uniformity) -> None:
    looked_up = [value for value in set(reads(op)) - set(op.operands) if value not in uniformity.uniform]
    if not looked_up:
        return
    name = program.values[looked_up[0]].name
    base = op.access.base if op.access is not None else ""
    source = f"`{name}`, which is" if name else "what is"
    _refuse(program, op.line, f"the address of a tile of `{base}` depends on {source} loaded from memory", PAGES)


def _indices(program: TileProgram, op: Op, uniformity: Uniformity) -> None:
    """The tiles of integers in the address of a load are looked up, or made of the grid, loop counters and ranges; so
    is the mask of one whose elements have addresses of their own. A store has the registers of what it stores; so has
    a load where one warp group does everything, as in kernels without products."""
    if op.kind != "tile_load" or not any(one.kind in MMA for one in program.ops()):
        return
    for value in (one for one in op.operands if one in by_data(op, uniformity)):
        made = _first_data(program, value, uniformity)
        base = op.access.base if op.access is not None else ""
        name = f"`{made.name}` of line {made.line}" if made.name else f"line {made.line}"
        part = "mask" if op.mask_operand is not None and value == op.operands[op.mask_operand] else "address"
        what = f"the {part} of a tile of `{base}` is made of {name}, which is computed from data"
        _refuse(program, op.line, what, PAGES)


def _first_data(program: TileProgram, value: int, uniformity: Uniformity) -> Value:
    """What a value is made of that is neither looked up nor index arithmetic: the first that has a name."""
    free, pending, seen = uniformity.uniform | uniformity.pure, [value], {value}
    found = program.values[value]
    while pending:
        one = pending.pop(0)
        found = program.values[one] if not found.name else found
        maker = uniformity.makers.get(one)
        fresh = [o for o in (maker.operands if maker else ()) if o not in free and o not in seen]
        seen.update(fresh)
        pending.extend(fresh)
    return found


def _refuse(program: TileProgram, line: int, what: str, hint: str) -> None:
    raise exc.UnsupportedInKernel(what, file=program.file, line=line, hint=hint)
