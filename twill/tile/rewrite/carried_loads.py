"""A tile that a loop loads and the next iteration reads, too, is kept in registers for it.

::

    before = tl.load(z)
    for t in range(n):
        after = tl.load(z + (t + 1) * B)
        ...  # before and after
        before = after

What a loop loads lies in a ring, of which a slot is given back in the iteration that it is for. The value that is
carried on becomes a copy: a conversion to the type that it has, an operation of the warp group that reads it.
"""

from __future__ import annotations

from dataclasses import replace

from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.rewrite.writer import OpWriter

COPY = "cast"  # to the same type; a bitcast costs nothing, and would be a part of what reads it
SEEN = ("broadcast", "expand_dims", "reshape", "transpose", "slice")  # the same elements in another shape


def copy_carried_loads(program: TileProgram) -> TileProgram:
    """The program with such copies at the end of its loops; the same one if no loop carries on what it loads."""
    write = OpWriter(program)
    body = tuple(_copied(item, write) if isinstance(item, Loop) else item for item in program.body)
    return replace(program, body=body, values=tuple(write.values)) if write.made else program


def _copied(loop: Loop, write: OpWriter) -> Loop:
    """The loop with the loops in it."""
    inner: Items = tuple(_copied(item, write) if isinstance(item, Loop) else item for item in loop.body)
    makers = {result: item for item in inner if isinstance(item, Op) for result in item.results}
    before, copies = len(write.made), dict[int, int]()
    for value in dict.fromkeys(carry.yielded for carry in loop.carried):
        kind = write.program.type_of(value)
        if kind.shape and _loaded(value, makers):
            copies[value] = write.op(COPY, (value,), kind, makers[value].line, write.values[value].name)
    carried = tuple(replace(carry, yielded=copies.get(carry.yielded, carry.yielded)) for carry in loop.carried)
    return replace(loop, body=(*inner, *write.made[before:]), carried=carried)


def _loaded(value: int, makers: dict[int, Op]) -> bool:
    """Whether a value is a tile that one of these operations loads, seen in any way."""
    op = makers.get(value)
    while op is not None and op.kind in SEEN:
        op = makers.get(op.operands[0])
    return op is not None and op.kind == "tile_load"
