"""Split of K: several program instances share the iterations of one tile's loop, and the last of them has their sum.

::

    acc = 0                                           part, parts = program_id(1), num_programs(1)
    for k in range(0, K, BLOCK_K):        becomes     for k in range(part * BLOCK_K, K, parts * BLOCK_K):
        acc = dot(a[k], b[k], acc)                        acc = dot(a[k], b[k], acc)
    c[tile] = f(acc)                                  c[tile] = f(sum_parts(acc))   if last_part

Few tiles with a long K fill a GPU that way. The parts are added by the instance that comes last, in their order, so
that every launch gives the same bits. How many there are is what the launch makes its grid along the new axis: with one
the program does what it did. Parts take iterations in turn: at any time they read what is side by side in memory, where
parts of neighbouring iterations would read a piece of 128 bytes of each row in as many places as there are parts. On an
H200 that is up to 6 % of a launch (64 x 256 x 65536).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill import exc
from twill.tile.program import Carry, Loop, Op, Split, TileProgram, TileType, constant_of
from twill.tile.rewrite.writer import I32, OpWriter
from twill.tile.vocabulary import MMA

MOST_AXES = 3  # of a launch grid
I1 = TileType((), "i1")


def split_k(program: TileProgram) -> TileProgram:
    """The program whose instances have parts of the loop's iterations, where it has a `split`. Raises CannotSplit."""
    return program if program.split is None else _Splitting(program, program.split).program_of_parts()


@dataclass(frozen=True)
class _Splitting:
    """One program."""

    program: TileProgram
    split: Split

    def program_of_parts(self) -> TileProgram:
        """See `split_k`."""
        loop = self.loop()
        carry, product = self.accumulator(loop)
        at = self.program.body.index(loop)
        stores = self.stores(at)
        writer = OpWriter(self.program)
        first, step = self.bounds(loop, writer)
        before, writer.made = writer.made, []
        total = writer.op(
            "sum_parts", (carry.result,), self.program.type_of(carry.result), product.line,
            self.program.values[carry.result].name, axis=self.split.axis,
        )  # fmt: skip
        last = writer.op("last_part", (), I1, product.line, axis=self.split.axis)

        def behind(op: Op) -> Op:
            operands = tuple(total if operand == carry.result else operand for operand in op.operands)
            return replace(op, operands=(*operands, last) if op in stores else operands)

        part, after = replace(loop, lower=first, step=step), self.program.body[at + 1 :]
        body = (
            *self.program.body[:at],
            *before,
            part,
            *writer.made,
            *(behind(op) for op in after if isinstance(op, Op)),
        )
        return replace(self.program, body=body, values=tuple(writer.values))

    def loop(self) -> Loop:
        """The only loop, whose instances are to share its iterations."""
        program, axis = self.program, self.split.axis
        loops = [item for item in program.body if isinstance(item, Loop)]
        inner = [item for loop in loops for item in loop.body if isinstance(item, Loop)]
        if len(loops) != 1 or inner:
            raise self.refused(f"the kernel has {len(loops) + len(inner)} loops", 0, "one loop over K")
        (loop,) = loops
        if program.strict:
            raise self.refused("sums of parts are rounded otherwise", loop.line, "no --strict-math")
        if axis >= MOST_AXES or any(
            op.kind in ("program_id", "num_programs") and op.attribute("axis") == axis for op in program.ops()
        ):
            raise self.refused(f"its launch grid has no axis {axis} that is free", loop.line, "a grid of two axes")
        if program.tiles is not None or program.walk is not None:
            raise self.refused("the kernel strides over tiles", loop.line, "a program instance for each tile")
        if program.type_of(loop.induction) != I32:
            raise self.refused("the loop counts in 64 bits", loop.line, "a counter of 32 bits")
        return loop

    def accumulator(self, loop: Loop) -> tuple[Carry, Op]:
        """What the loop carries, and the product that adds to it."""
        makers = self.program.makers
        for op in loop.body:
            if isinstance(op, Op) and op.access is not None and op.kind != "tile_load":
                raise self.refused("the loop stores", op.line, "stores behind the loop")
        if len(loop.carried) != 1:
            raise self.refused(f"the loop carries {len(loop.carried)} values", loop.line, "one accumulator of f32")
        (carry,) = loop.carried
        product, begin = makers.get(carry.yielded), makers.get(carry.init)
        sums = product is not None and product.kind in MMA and product.operands[2:3] == (carry.argument,)
        users = [op for op in loop.body if isinstance(op, Op) and carry.argument in op.operands]
        zero = constant_of(begin) == 0
        single = self.program.type_of(carry.result).element == "f32"
        if not sums or users != [product] or not zero or not single or product is None:
            what = "what the loop carries is not a sum of products in f32 that begins with 0"
            raise self.refused(what, loop.line, "acc = tl.zeros(..., tl.float32); acc = tl.dot(a, b, acc)")
        return carry, product

    def stores(self, at: int) -> tuple[Op, ...]:
        """The stores behind the loop."""
        found = []
        for op in self.program.body:
            if not isinstance(op, Op) or op.access is None or op.kind == "tile_load":
                continue
            early = self.program.body.index(op) < at
            if early or op.mask_operand is not None or op.kind != "tile_store":
                what = "a store in front of the loop" if early else "a store under a condition, or an atomic operation"
                raise self.refused(what, op.line, "tl.store behind the loop, with masks made of bounds")
            found.append(op)
        return tuple(found)

    def bounds(self, loop: Loop, writer: OpWriter) -> tuple[int, int]:
        """The first value of the counter of a part, and the step to its next one: parts take iterations in turn."""
        line, lower = loop.line, constant_of(self.program.makers.get(loop.lower))

        def op(kind: str, *operands: int, **attributes: int) -> int:
            return writer.op(kind, operands, I32, line, "", **attributes)

        part, parts = (op(kind, axis=self.split.axis) for kind in ("program_id", "num_programs"))
        first = op("mul", part, loop.step)
        return first if lower == 0 else op("add", loop.lower, first), op("mul", parts, loop.step)

    def refused(self, what: str, line: int, hint: str) -> exc.CannotSplit:
        """Where, what, and what to write instead."""
        return exc.CannotSplit(f"K cannot be split: {what}", file=self.program.file, line=line, hint=hint)
