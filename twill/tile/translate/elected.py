"""Atomic operations on single numbers whose old value, or whose order, counts: what one thread does for all of a
program instance (`elected` of `twill.tile.vocabulary`).

::

    before = tl.atomic_add(tickets, 1)              # once: an operation `elected` with a region that does not repeat
    while tl.atomic_cas(lock, 0, 1) == 1: pass      # a loop over scalars with atomic operations in it is one, too
    tl.atomic_xchg(lock, 0)                         # and so is what gives a lock back: others may read it

Whether an order counts that is not said by name ("acq_rel" is what Triton says for a kernel that says nothing) depends
on whether anything in the kernel reads what an atomic operation gives: if not, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from twill.exc import UnsupportedOperation
from twill.tile.mlir import RawBlock, RawOp, every
from twill.tile.program import Attribute, Op, TileType
from twill.tile.scalar_region import ScalarRegion
from twill.tile.translate.builder import Literal, Made, ProgramBuilder
from twill.tile.vocabulary import ATOMIC, ELECTED

# Triton's enumerations, by their value in the IR.
COMBINES: dict[int, dict[str, Attribute]] = {
    1: {"combine": "and"}, 2: {"combine": "or"}, 3: {"combine": "xor"},
    4: {"combine": "add"}, 5: {"combine": "add"},  # of integers and floats
    6: {"combine": "max"}, 7: {"combine": "min"},
    8: {"combine": "max", "signed": 0}, 9: {"combine": "min", "signed": 0},
    10: {"combine": "xchg"},
}  # fmt: skip
ORDERS = {1: "relaxed", 2: "acquire", 3: "release", 4: "acq_rel"}
IN_SCOPE = (1, 2)  # of the GPU, of the CTA; the other is the system
ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
WIDTHS = {
    "cas": ("i32", "i64", "f32", "f64"),
    "xchg": ("i32", "i64", "f32", "f64"),
    "add": ("i32", "i64", "f32", "f64"),
}
INTEGERS = ("i32", "i64")
ADDRESS, TRUTH = TileType((), "i64"), TileType((), "i1")


def observes(blocks: Sequence[RawBlock], read: frozenset[int]) -> bool:
    """Whether a kernel reads what an atomic operation gives. read: raw values that anything reads."""
    return any(
        op.name == "tt.atomic_cas" or (op.name == "tt.atomic_rmw" and op.results[0].id in read)
        or (op.name == "tt.load" and bool(op.attributes.get("isVolatile")))
        for op in every(blocks)
    )  # fmt: skip


def is_elected(op: RawOp) -> bool:
    """Whether a loop over scalars does something to memory, or waits for it."""
    inner = [one for region in op.regions for one in every(region)]
    return any(
        one.name in (*ATOMICS, "tt.store") or (one.name == "tt.load" and one.attributes.get("isVolatile"))
        for one in inner
    )


def counts(op: RawOp, emitter: ProgramBuilder) -> bool:
    """Whether the old value or the order of an atomic operation on one number counts."""
    order = ORDERS[op.attributes.get("sem", 4)]
    named = order in ("acquire", "release")
    read = op.results[0].id in emitter.read or op.name == "tt.atomic_cas"
    return not op.results[0].type.shape and (read or named or (emitter.observes and order == "acq_rel"))


def once(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """An atomic operation on one number as an operation of its own: its old value. Raises UnsupportedOperation."""
    if emitter.in_nest:
        refuse_in_nest(emitter.file, op)
    guard = emitter.guard(op)
    with emitter.scalars(elected=True) as made:
        old = step(op, emitter, guard)
    never = emitter.constant(Literal(0, TRUTH))
    inside = emitter.new_value(op.results[0].type, op.line, op.variable)
    ops = tuple(one for one in made if isinstance(one, Op))
    parameters = outside_of(ops, (never,))
    numbers = sorted({*parameters, inside, *(value for one in ops for value in (*one.operands, *one.results))})
    types = tuple((value, emitter.kind(value).element) for value in numbers)
    region = ScalarRegion(parameters, (), (), ops, never, (old,), (inside,), (), (), types)
    return emitter.emit_region(op, parameters, [op.results[0].type], region, ELECTED)


def outside_of(ops: Sequence[Op], more: Sequence[int]) -> tuple[int, ...]:
    """The values that operations read and do not make, and `more`."""
    defined = {result for one in ops for result in one.results}
    read = [*more, *(operand for one in ops for operand in one.operands)]
    return tuple(dict.fromkeys(value for value in read if value not in defined))


def step(op: RawOp, emitter: ProgramBuilder, guard: int | None) -> int:
    """An atomic operation in the region that is open; what it gives. Raises UnsupportedOperation."""
    compares = op.name == "tt.atomic_cas"
    pointer, *values = (emitter.value(operand) for operand in op.operands[: 2 + compares])
    masks = [emitter.value(mask) for mask in op.operands[2 + compares :] if not _always(emitter.literal(mask))]
    said = {"combine": "cas"} if compares else COMBINES.get(op.attributes["atomic_rmw_op"])
    element = op.results[0].type.element
    if said is None or element not in WIDTHS.get(str(said["combine"]), INTEGERS):
        what = f"tl.atomic_{said['combine'] if said else 'rmw'} of {element}"
        _refuse(emitter, op, what, "i32, u32, i64 or u64; tl.atomic_add, xchg and cas of fp32 and fp64, too")
    if op.attributes.get("scope", IN_SCOPE[0]) not in IN_SCOPE:
        _refuse(emitter, op, "an atomic operation in the scope of the system", 'scope="gpu"')
    order = ORDERS[op.attributes.get("sem", 4)]
    return touched(
        op, emitter, pointer, values, [*masks, *([] if guard is None else [guard])], {**said, "order": order}
    )


def _always(literal: Literal | None) -> bool:
    """Whether a mask holds everywhere."""
    return literal is not None and bool(literal.number)


def touched(
    op: RawOp, emitter: ProgramBuilder, pointer: int, values: Sequence[int], masks: Sequence[int],
    said: dict[str, Attribute],
) -> int:  # fmt: skip
    """One number of memory is touched where all the masks hold; what it was. Raises UnsupportedOperation: a pointer
    that is no argument's."""
    if emitter.kind(pointer).shape:
        _refuse(emitter, op, "a store of a tile in a loop that waits for memory", "the store behind the loop")
    found = emitter.base(pointer)
    if found is None:
        _refuse(emitter, op, "an atomic operation through an address that is looked up", "a pointer argument")
    base, offsets = found
    index = emitter.constant(Literal(0, ADDRESS))
    for offset in offsets:
        index = emitter.emit(op, "add", (index, emitter.widened(op, offset)), (ADDRESS,))[0]
    mask = list(masks[:1])
    for one in masks[1:]:
        mask = [emitter.emit(op, "and", (mask[0], one), (TRUTH,))[0]]
    element = emitter.kind(pointer).element.partition(":")[2]
    attributes = (("base", base), ("element", element), *said.items())
    return emitter.emit(op, ATOMIC, (index, *values, *mask), (TileType((), element),), attributes)[0]


def load(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """A number that the thread reads as it is now."""
    pointer, *more = (emitter.value(operand) for operand in op.operands)
    guard = emitter.guard(op)
    masks = [*more[:1], *([] if guard is None else [guard])]
    found = touched(op, emitter, pointer, (), masks, {"combine": "load", "order": "relaxed"})
    if len(more) < 2:
        return (found,)
    return emitter.emit(op, "select", (more[0], found, more[1]), (op.results[0].type,))


def store(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """A number that the thread writes."""
    pointer, value, *masks = (emitter.value(operand) for operand in op.operands)
    guard = emitter.guard(op)
    touched(op, emitter, pointer, (value,), [*masks, *([] if guard is None else [guard])],
            {"combine": "store", "order": "relaxed"})  # fmt: skip
    return ()


def tile(op: RawOp, emitter: ProgramBuilder, said: dict[str, Attribute]) -> tuple[Made, ...]:
    """An atomic operation on a tile whose old values are read: every thread does its elements, in an order of its own.
    Raises UnsupportedOperation."""
    element = op.results[0].type.element
    if element not in WIDTHS.get(str(said["combine"]), INTEGERS):
        what = f"the old values of tl.atomic_{said['combine']} of {element}"
        _refuse(emitter, op, what, "i32, u32, i64 or u64; tl.atomic_add and xchg of fp32 and fp64, too")
    operands = [emitter.value(operand) for operand in op.operands]
    guard = emitter.guard(op)
    attributes = {**said, "order": ORDERS[op.attributes.get("sem", 4)]}
    if guard is not None:
        operands.append(guard)
        attributes["guarded"] = 1
    return emitter.emit(op, "atomic_add", operands, [op.results[0].type], tuple(attributes.items()))


def in_region(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """An atomic operation in a loop over scalars."""
    return (step(op, emitter, emitter.guard(op)),)


def refuse_in_nest(file: str, op: RawOp) -> NoReturn:
    """What one thread does in every iteration of a loop in a loop."""
    raise UnsupportedOperation(
        "unsupported operation: an atomic operation whose old value or order counts, in a loop inside a loop",
        file=file, line=op.line, hint="one of the loops in the launch grid, or the operation in no more than one",
    )  # fmt: skip


def _refuse(emitter: ProgramBuilder, op: RawOp, what: str, hint: str) -> NoReturn:
    raise UnsupportedOperation(f"unsupported operation: {what}", file=emitter.file, line=op.line, hint=hint)
