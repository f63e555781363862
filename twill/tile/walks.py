"""Loops around a kernel's work whose bounds only the GPU knows: each program walks through its own program instances.

::

    tile = tl.program_id(0)
    for g in range(group_size):                       # the walk: scalars alone
        m = tl.load(sizes + g)
        while tile >= first and tile < first + m:
            ...                                       # the work of an instance: a whole GEMM
            tile += NUM_SM
        first += m

How many instances there are, and which, depends on numbers in memory, so that no launch grid can be made of them
(`twill.tile.tile_instances` does that where it can). What is left of the loops is a program of scalars, the *walk*: it
says at each `visit` with which numbers (counters and carried scalars of its loops) the work is done next. The work is a
tile program in which these are operations `visited`, as grid indices are `program_id`. Every warp group walks for
itself, so that the pipeline of one instance goes on into that of the next.

A walk is taken where its instances need nothing of one another but the scalars that the loops carry: these are made of
scalars, and numbers from tensors that the kernel does not write; nothing is loaded from what the kernel writes, what an
atomic operation gives is not read, and where something is stored depends on the walk.
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.dead_code import EFFECTS, compact
from twill.tile.order_dependence import old_values_read
from twill.tile.program import Loop, Op, TileProgram, TileType, Value, every
from twill.tile.scalar_region import ScalarRegion
from twill.tile.tile_instances import ADDS, LOADS, pointers, reached, renamed
from twill.tile.vocabulary import ELECTED, ELEMENTWISE, SOURCES, VISIT

VISITED = "visited"
PURE = frozenset({*SOURCES, *ELEMENTWISE, "add_pointer"})


def of_walk(program: TileProgram) -> TileProgram | None:
    """The work of one instance with its walk, for a raw program that ends with loops around its work. None if there is
    no loop around a loop at its end, or its instances need more of one another than scalars."""
    *before, last = program.body
    if old_values_read(program) or not isinstance(last, Loop) or any(isinstance(item, Loop) for item in before):
        return None
    path, elects = _path(program, last), any(op.kind == ELECTED for op in program.ops())
    if elects and len(path) > 1 and _inner(path[-1]) is None:  # its loop is work: no operation stands in two
        path.pop()
    inside = path[-1].body
    if not any(isinstance(item, Loop) for item in inside) or not _scalars(program, path):
        return None
    around = [*before, *(item for loop in path[:-1] for item in loop.body if item is not _inner(loop))]
    if any(op.kind in EFFECTS for op in around if isinstance(op, Op)):
        return None
    state = [value for loop in path for value in (loop.induction, *(carry.argument for carry in loop.carried))]
    independent = _independent(program, reached(program.body, set(state)))
    if not independent and not elects:
        return None
    ids = max((item.id for item in every(program.body)), default=0) + 1
    if not independent:
        program, path, ids = _meeting_first(program, path, ids)
    visit = Op(ids, VISIT, tuple(state), (), (), path[-1].line, "")
    way = replace(program, body=(*before, _with_work(path, visit)))
    return replace(_work(program, before, path, state, ids), walk=compact(way))


def _inner(loop: Loop) -> Loop | None:
    """The loop in a loop, if there is one."""
    return next((item for item in loop.body if isinstance(item, Loop)), None)


def _path(program: TileProgram, loop: Loop) -> list[Loop]:
    """The loops of the walk, the outermost first: those with nothing but scalars and one other loop in them, then the
    one whose body is the work."""
    path = [loop]
    while True:
        loops = [item for item in path[-1].body if isinstance(item, Loop)]
        ops = [item for item in path[-1].body if isinstance(item, Op)]
        if len(loops) != 1 or not all(is_of_walk(program, op) for op in ops):
            return path
        path.append(loops[0])


def is_of_walk(program: TileProgram, op: Op) -> bool:
    """Whether an operation may stand in a loop around the work: scalars, and what describes a tensor by them."""
    return op.kind == "make_descriptor" or (op.id in program.scalar_ops and op.kind not in EFFECTS)


def _scalars(program: TileProgram, path: list[Loop]) -> bool:
    """Whether what the loops carry, and their bounds, are scalars made of scalars and of numbers that nobody writes."""
    bases = pointers(program)
    written = {bases.get(op.operands[0]) for op in program.ops() if op.kind in EFFECTS - {ELECTED}}
    makers = program.makers
    inner = {carry.result for loop in path[1:] for carry in loop.carried}
    known = {value for loop in path for value in (loop.induction, *(carry.argument for carry in loop.carried))}
    known |= inner | {argument.value for argument in program.arguments}
    pending = [value for loop in path for value in (loop.lower, loop.upper, loop.step)]
    pending += [value for loop in path for carry in loop.carried for value in (carry.init, carry.yielded)]
    while pending:
        value = pending.pop()
        if value in known:
            continue
        op = makers.get(value)
        if op is None or program.type_of(value).shape:
            return False
        if op.kind == ELECTED:
            return False
        if op.region is not None:
            if op.region.bases() & {program.values[base].name for base in written if base is not None}:
                return False
        elif op.kind not in PURE and (op.kind != "load" or bases.get(op.operands[0], written) in (*written, written)):
            return False
        known.add(value)
        pending += op.operands
    return True


def _meeting_first(program: TileProgram, path: list[Loop], ids: int) -> tuple[TileProgram, list[Loop], int]:
    """The program and its loops with an operation `elected` that does nothing in front of the work: everything that the
    instance before has accessed is over then."""
    line, never = path[-1].line, Value(len(program.values), TileType((), "i1"), "", path[-1].line)
    constant = Op(ids, "constant", (), (never.id,), (("value", 0),), line, "")
    region = ScalarRegion((never.id,), (), (), (), never.id, (), (), (), (), ((never.id, "i1"),))
    meeting = Op(ids + 1, ELECTED, (never.id,), (), (), line, "", region=region)
    work = replace(path[-1], body=(constant, meeting, *path[-1].body))
    return replace(program, values=(*program.values, never)), [*path[:-1], work], ids + 2


def _independent(program: TileProgram, moving: set[int]) -> bool:
    """Whether no instance needs what another one leaves. moving: values that depend on the walk."""
    bases = pointers(program)
    accesses = [op for op in program.ops() if op.kind in EFFECTS - {ELECTED} | LOADS]
    if not all(op.operands[0] in bases for op in accesses):
        return False
    written = {bases[op.operands[0]] for op in accesses if op.kind in EFFECTS}
    read = {operand for op in program.ops() for operand in op.operands}
    for op in accesses:
        address = (op.operands[0], *op.operands[2:]) if op.kind == "descriptor_store" else op.operands[:1]
        if op.kind in ADDS and read.intersection(op.results):
            return False
        if op.kind in EFFECTS - ADDS and not moving.intersection(address):
            return False
    return not written & {bases[op.operands[0]] for op in accesses if op.kind in LOADS}


def _with_work(path: list[Loop], visit: Op) -> Loop:
    """The loops with `visit` in the place of the work; of that, what the innermost one carries is left."""
    *outer, innermost = path
    left = (op for op in innermost.body if isinstance(op, Op) and op.kind not in EFFECTS)
    made = replace(innermost, body=(visit, *left))
    for loop in reversed(outer):
        inner = _inner(loop)
        made = replace(loop, body=tuple(made if item is inner else item for item in loop.body))
    return made


def _work(program: TileProgram, before: list[Op | Loop], path: list[Loop], state: list[int], ids: int) -> TileProgram:
    """The program of one instance: what stands in front of the work is computed in each of them."""
    made: list[Op] = []
    values = list(program.values)
    stands_for: dict[int, int] = {}
    for number, value in enumerate(state):
        old = program.values[value]
        values.append(Value(len(values), old.type, old.name, old.line))
        stands_for[value] = values[-1].id
        attributes = (("index", number),)
        made.append(Op(ids + 1 + number, VISITED, (), (values[-1].id,), attributes, old.line, old.name))
    around: list[Op | Loop] = []
    for loop in path[:-1]:
        for item in loop.body:
            if item is _inner(loop):
                break
            around.append(item)
    body = (*before, *made, *renamed(tuple(around), stands_for), *renamed(path[-1].body, stands_for))
    return compact(replace(program, values=tuple(values), body=body))
