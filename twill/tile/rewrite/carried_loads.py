"""A tile that a loop loads and the next iteration reads, too, is kept in registers for it; and so is one that a loop
carries on for an MMA.

::

    before = tl.load(z)
    for t in range(n):
        after = tl.load(z + (t + 1) * B)
        ...  # before and after
        before = after

What a loop loads lies in a ring, of which a slot is given back in the iteration that it is for. The value that is
carried on becomes a copy: a conversion to the type that it has, an operation of the warp group that reads it.

An operand of an MMA lies in a ring, too, in a slot of the iteration that makes it. Of a carried tile it is a copy in
the iteration that multiplies it::

    s = tl.load(z)
    for t in range(n):
        acc = tl.dot(tl.load(x + t * B), s)     # of a copy of s
        s += ...
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.vocabulary import MMA

COPY = "cast"  # to the same type; a bitcast costs nothing, and would be a part of what reads it
SPLIT = ("f32", "f64")  # operands of these types are computed: parts of them, or numbers that threads multiply
SEEN = ("broadcast", "expand_dims", "reshape", "transpose", "slice")  # the same elements in another shape


def copy_carried_loads(program: TileProgram) -> TileProgram:
    """The program with such copies in its loops; the same one if no loop carries on what it loads or multiplies."""
    return _Copier(program).rewritten()


@dataclass
class _Copier(OpRewriter):
    """carried: by the loop whose body is written."""

    carried: Collection[int] = ()

    def loop(self, loop: Loop) -> Items:
        """The loop with the loops in it."""
        around, self.carried = self.carried, {carry.argument for carry in loop.carried}
        inner = self.block(loop.body)
        self.carried = around
        makers = {result: item for item in inner if isinstance(item, Op) for result in item.results}
        copies = dict[int, int]()
        self.write.made = []
        for value in dict.fromkeys(carry.yielded for carry in loop.carried):
            views, base = seen(value, makers)
            kind = self.write.values[value].type
            if kind.shape and base in makers and makers[base].kind == "tile_load":
                copies[value] = self.copy(value, makers[value].line)
        self.changed |= bool(copies)
        carried = tuple(replace(carry, yielded=copies.get(carry.yielded, carry.yielded)) for carry in loop.carried)
        return (replace(loop, body=(*inner, *self.write.made), carried=carried),)

    def instead(self, op: Op) -> list[Op]:
        """The operation; an MMA behind the copies that it reads."""
        if op.kind not in MMA:
            return [op]
        operands = list(op.operands)
        for position in (0, 1):
            views, base = seen(operands[position], self.write.makers)
            if base not in self.carried or self.write.values[base].type.element in SPLIT:
                continue
            value = self.copy(base, op.line)
            for view in views:
                kind = self.write.values[view.results[0]].type
                value = self.write.op(view.kind, (value,), kind, view.line, view.name, **dict(view.attributes))
            operands[position] = value
        return [*self.write.made, replace(op, operands=tuple(operands))] if self.write.made else [op]

    def copy(self, value: int, line: int) -> int:
        """Of a tile, in registers."""
        return self.write.op(COPY, (value,), self.write.values[value].type, line, self.write.values[value].name)


def seen(value: int, makers: Mapping[int, Op]) -> tuple[list[Op], int]:
    """The views that show a value, the first one first, and what they show."""
    views: list[Op] = []
    while (op := makers.get(value)) is not None and op.kind in SEEN:
        views.insert(0, op)
        value = op.operands[0]
    return views, value
