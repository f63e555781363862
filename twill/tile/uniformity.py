"""Which values of a tile program cost nothing, which are index arithmetic, and where each is made.

- *lookup*: a load from a tensor that the kernel does not write, of one number, or of a tile of integers that an address
  or the mask of a load is made of. Whoever needs it loads it for itself.
- *uniform*: a scalar computed from arguments, grid indices, induction variables, constants and lookups; and what one
  thread found out for all by atomic operations (`elected`), behind that. A carried scalar is uniform if each iteration
  adds the same to it, or an address or trip count is made of it; any other is computed like a tile.
- *pure*: a tile computed from uniform scalars, ranges, constants and lookups alone, so that every place
  that uses it can compute its own copy. A carried tile is pure if each iteration adds a
  loop-invariant pure tile to it (`offs_n += BLOCK_N`).
- *index*: a pure integer tile all of whose tile operands are index tiles: masks and offsets. It
  is folded into the chain that uses it.
- *home*: the stretch of the kernel that an operation belongs to once loop-invariant computations
  have left their loop. Stretch 2i is the straight-line code before loop i, stretch 2i + 1 is loop i. An operation
  `elected` has a stretch of its own as a loop has, so that no access of memory comes past it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from twill.exc import NestedLoop, UnsupportedOperation
from twill.reach import reach
from twill.tile import vocabulary
from twill.tile.program import Carry, Loop, Op, TileProgram, reads, walk

CHAINED = 4  # tiles of a chain that are looked up one through the other
PURE_KINDS = frozenset({*vocabulary.SOURCES, *vocabulary.VIEWS, *vocabulary.ELEMENTWISE, vocabulary.SCALAR_LOOP})
MOVABLE_KINDS = frozenset(
    {*PURE_KINDS, *vocabulary.REDUCE, *vocabulary.REARRANGE, *vocabulary.HISTOGRAM, *vocabulary.SCAN, *vocabulary.MMA}
)
KNOWN_KINDS = MOVABLE_KINDS | frozenset((*vocabulary.ACCESS, vocabulary.ELECTED))


@dataclass(frozen=True)
class Uniformity:
    """What `classify` found. makers: the operation that makes a value, if one does. carries: the
    carried value that a block argument or loop result belongs to. home: stretch by operation id. lookups: the values
    that lookups load.
    """

    uniform: frozenset[int]
    pure: frozenset[int]
    index: frozenset[int]
    makers: dict[int, Op]
    carries: dict[int, Carry]
    home: dict[int, int]
    lookups: frozenset[int] = frozenset()


def stretches(program: TileProgram) -> Iterator[tuple[int, Loop | None, tuple[Op, ...]]]:
    """(number, loop, operations) of every stretch: straight, loop, straight, ..., straight; an operation `elected`
    stands in the place of a loop."""
    number, straight = 0, []
    for item in program.body:
        if isinstance(item, Op) and item.kind != vocabulary.ELECTED:
            straight.append(item)
            continue
        yield number, None, tuple(straight)
        if isinstance(item, Op):
            yield number + 1, None, (item,)
        else:
            yield number + 1, item, _body(item, program.file)
        number, straight = number + 2, []
    yield number, None, tuple(straight)


def _body(loop: Loop, file: str) -> tuple[Op, ...]:
    inner = [op for op in loop.body if isinstance(op, Op)]
    if len(inner) != len(loop.body):
        raise NestedLoop("a loop inside a loop", file=file, line=loop.line, hint="one loop over the flattened range")
    return tuple(inner)


def classify(program: TileProgram) -> Uniformity:
    """Raises `NestedLoop`, and `UnsupportedOperation` for an access that was not resolved."""
    uniform = {argument.value for argument in program.arguments if not argument.type.shape}
    pure: set[int] = set()
    makers: dict[int, Op] = {}
    carries: dict[int, Carry] = {}
    home: dict[int, int] = {}
    looked, placed = lookups(program), _placing(program)
    born: dict[int, int] = {argument.value: 0 for argument in program.arguments}
    for number, loop, ops in stretches(program):
        if loop is not None:
            uniform.add(loop.induction)
            born[loop.induction] = number
            for carry in loop.carried:
                carries[carry.argument] = carries[carry.result] = carry
                born[carry.argument], born[carry.result] = number, number + 1
            uniform |= _uniform_arguments(program, loop, ops, uniform, looked, placed)
            pure |= _progressions(program, loop, ops, uniform, pure, looked)
        for op in ops:
            if op.kind not in KNOWN_KINDS:
                raise UnsupportedOperation(f"{op.kind} has no tile access", file=program.file, line=op.line)
            home[op.id] = _home(op, number, loop, born)
            for result in op.results:
                makers[result], born[result] = op, home[op.id]
            _grow(program, op, uniform, pure, looked)
        if loop is not None:
            for carry in loop.carried:
                if carry.argument in uniform:
                    uniform.add(carry.result)
                if carry.argument in pure:
                    pure.add(carry.result)
    index = _index(program, pure, makers, carries, uniform)
    found = frozenset(looked & (uniform | pure))
    return Uniformity(frozenset(uniform), frozenset(pure), index, makers, carries, home, found)


def _home(op: Op, number: int, loop: Loop | None, born: dict[int, int]) -> int:
    if loop is None or op.kind not in MOVABLE_KINDS or any(born[operand] == number for operand in op.operands):
        return number
    return number - 1


def lookups(program: TileProgram) -> frozenset[int]:
    """What is loaded by lookups, as long as their own addresses are made of lookups and what is known anyway."""
    written = written_bases(program)
    in_loops = {op.id for item in program.body if isinstance(item, Loop) for op in walk(item.body)}
    wanted: set[int] = set()
    found: set[int] = set()
    for op in reversed(list(program.ops())):
        load = op.kind == "tile_load" and op.access is not None and op.access.base not in written
        if load and not program.type_of(op.results[0]).shape:
            found.update(op.results)
        if load and wanted.intersection(op.results) and program.type_of(op.results[0]).element.startswith("i"):
            found.update(op.results)
        if op.kind in PURE_KINDS and wanted.intersection(op.results):
            wanted.update(op.operands)
        if op.access is not None:
            wanted.update(op.operands[position] for position in folded_operands(op, op.id in in_loops))
    return frozenset(found) - _deep(program, found)


def _deep(program: TileProgram, found: set[int]) -> set[int]:
    """Of tiles that are looked up, those that a long chain of others leads to (a search that is written out), in
    programs without products: the one warp group has them in registers, and makes no copy of the chain for each use."""
    if any(op.kind in vocabulary.MMA for op in program.ops()):
        return set()
    level: dict[int, int] = {}
    deep: set[int] = set()
    for op in program.ops():
        depth = max((level.get(operand, 0) for operand in reads(op)), default=0)
        looked = op.kind == "tile_load" and found.intersection(op.results)
        if looked and depth >= CHAINED and program.type_of(op.results[0]).shape:
            deep.update(op.results)
        level |= dict.fromkeys(op.results, depth + bool(looked))
    return deep


def written_bases(program: TileProgram) -> frozenset[str]:
    """The arguments that a program stores to, combines something with, or changes by atomic operations."""
    stored = {op.access.base for op in program.ops() if op.access is not None and op.kind != "tile_load"}
    return frozenset(stored).union(*(op.region.written() for op in program.ops() if op.region is not None))


def folded_operands(op: Op, in_loop: bool) -> tuple[int, ...]:
    """The positions of the operands that an access computes for itself: its indices, and with them, or in a loop for a
    load, its mask."""
    masked = op.mask_operand is not None and (op.index_operands or (in_loop and op.kind == "tile_load"))
    return (*op.index_operands, *([op.mask_operand] if masked and op.mask_operand is not None else []))


def _grow(program: TileProgram, op: Op, uniform: set[int], pure: set[int], looked: frozenset[int]) -> None:
    """Adds the results of an operation to the sets that its operands put them in."""
    if op.kind == vocabulary.ELECTED:
        uniform.update(op.results)
    if op.kind not in PURE_KINDS and not looked.intersection(op.results):
        return
    if any(o not in uniform and o not in pure for o in reads(op)):
        return
    for result in op.results:
        scalar = not program.type_of(result).shape and not any(o in pure for o in op.operands)
        (uniform if scalar else pure).add(result)


def _placing(program: TileProgram) -> frozenset[int]:
    """What addresses, bounds of loops and regions of scalars are made of."""
    pending: list[int] = []
    made: dict[int, tuple[int, ...]] = {}
    for item in program.body:
        if isinstance(item, Loop):
            pending += (item.lower, item.upper, item.step)
            made.update({carry.argument: (carry.yielded, carry.init) for carry in item.carried})
            made.update({carry.result: (carry.argument,) for carry in item.carried})
        for op in walk((item,)):
            made.update(dict.fromkeys(op.results, reads(op)))
            pending += set(reads(op)) - set(op.operands) if op.region is None else op.operands
            pending += (op.operands[position] for position in folded_operands(op, in_loop=True))
    return frozenset(reach(pending, lambda value: made.get(value, ())))


def _uniform_arguments(
    program: TileProgram,
    loop: Loop,
    ops: tuple[Op, ...],
    uniform: set[int],
    looked: frozenset[int],
    placed: frozenset[int],
) -> set[int]:
    """Carried scalars that start uniform and stay so: assumed of all, then withdrawn as refuted."""
    steady = _steady(loop, ops)
    scalars = [c for c in loop.carried if c.init in uniform and not program.type_of(c.argument).shape]
    assumed = [c for c in scalars if c.argument in steady or c.argument in placed]
    while True:
        known = uniform | {carry.argument for carry in assumed}
        for op in ops:
            _grow(program, op, known, set(), looked)
        retained = [carry for carry in assumed if carry.yielded in known]
        if len(retained) == len(assumed):
            return {carry.argument for carry in retained}
        assumed = retained


def _steady(loop: Loop, ops: tuple[Op, ...]) -> set[int]:
    """Arguments to which each iteration adds, or from which it takes, what no iteration changes, or nothing."""
    varying = {loop.induction, *(carry.argument for carry in loop.carried)}
    made: dict[int, Op] = {}
    for op in ops:
        made.update(dict.fromkeys(op.results, op))
        if op.access is not None or varying.intersection(reads(op)):
            varying.update(op.results)
    fixed = {value for op in ops for value in reads(op)} - varying
    return {
        carry.argument
        for carry in loop.carried
        if carry.yielded == carry.argument or _adds(made.get(carry.yielded), carry.argument, fixed)
    }


def _progressions(
    program: TileProgram,
    loop: Loop,
    ops: tuple[Op, ...],
    uniform: set[int],
    pure: set[int],
    looked: frozenset[int],
) -> set[int]:
    """Arguments of carried integer tiles to which each iteration adds the same pure tile."""
    fixed = set(pure)
    made: dict[int, Op] = {}
    varying = {loop.induction, *(carry.argument for carry in loop.carried)}
    for op in ops:
        made.update(dict.fromkeys(op.results, op))
        if varying.intersection(op.operands):
            varying.update(op.results)
        else:
            _grow(program, op, set(uniform), fixed, looked)
    return {
        carry.argument
        for carry in loop.carried
        if carry.init in pure
        and program.type_of(carry.argument).element.startswith("i")
        and program.type_of(carry.argument).shape
        and (carry.yielded == carry.argument or _adds(made.get(carry.yielded), carry.argument, fixed - varying))
    }


def _adds(op: Op | None, argument: int, fixed: set[int]) -> bool:
    if op is None or op.kind not in ("add", "sub") or argument not in op.operands:
        return False
    others = [operand for operand in op.operands if operand != argument]
    return len(others) == 1 and others[0] in fixed and (op.kind == "add" or op.operands[0] == argument)


def _index(
    program: TileProgram, pure: set[int], makers: dict[int, Op], carries: dict[int, Carry], uniform: set[int]
) -> frozenset[int]:
    index: set[int] = set()
    for value in sorted(pure):  # values are numbered in program order
        if not program.type_of(value).element.startswith("i"):
            continue
        carry = carries.get(value)
        needs = (carry.init,) if carry else makers[value].operands
        if all(need in index or need in uniform for need in needs):
            index.add(value)
    return frozenset(index)
