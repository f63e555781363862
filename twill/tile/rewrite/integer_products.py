"""Products of int8 as the tensor core has them, where it has them.

::

    p = dot(cast a, transpose(cast b)) instead=i8;  w = cast p;  c = add acc w
    becomes      c = dot(a, transpose b, acc)

`twill.tile.rewrite.precision` makes products of int8 such of bf16 for tensor cores without them, converts each sum of a
tile, which is a whole number, and lets threads add it up. Here operands that are tiles from memory and lie along K are
multiplied as they are, and a sum over K that begins with 0, and that nothing but its loop reads, is an accumulator of
i32; to others threads add the product.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from twill.tile.program import Carry, Op, TileProgram, TileType, constant_of, loops_of, reads
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.rewrite.precision import INSTEAD, INTEGERS, changed_mmas


def whole_integers(program: TileProgram, depth: int) -> TileProgram:
    """The program with such products; the same one if there are none. depth: elements of K that one instruction of the
    tensor core contracts."""
    return _Multiplier(program, depth=depth).rewritten()


@dataclass(frozen=True)
class _Whole:
    """operands: tiles of i8, the second one as it lies in memory; addend: None for none. result: the sum."""

    operands: tuple[int, int]
    addend: int | None
    result: int


@dataclass
class _Multiplier(OpRewriter):
    """whole: by the sum of each such product."""

    depth: int = 1
    readers: dict[int, list[Op]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for op in self.program.ops():
            for value in reads(op):
                self.readers.setdefault(value, []).append(op)
        self.carries = {carry.argument: carry for loop in loops_of(self.program.body) for carry in loop.carried}
        self.carried = {value for carry in self.carries.values() for value in (carry.init, carry.yielded)}
        products = [op for op in changed_mmas(self.program) if dict(op.attributes)[INSTEAD] in INTEGERS]
        self.whole = {whole.result: whole for whole in map(self.product, products) if whole is not None}

    def instead(self, op: Op) -> list[Op]:
        """The operation; in the place of the last one of a product of bf16, B transposed and the whole product."""
        whole = self.whole.get(op.results[0]) if op.results else None
        if whole is None:
            return [op]
        left, right = whole.operands
        (rows, columns), element = self.write.values[right].type.shape, self.write.values[right].type.element
        kind = TileType((columns, rows), element)
        turned = self.write.op("transpose", (right,), kind, op.line, self.write.values[right].name, order=(1, 0))
        operands = (left, turned) if whole.addend is None else (left, turned, whole.addend)
        product = Op(self.write.fresh(), "dot", operands, op.results, (("precision", "ieee"),), op.line, op.name)
        return [*self.write.made, product]

    def product(self, op: Op) -> _Whole | None:
        """The product that one of bf16 stands for."""
        left, right = (self.tile(op.operands[position], turned=position == 1) for position in (0, 1))
        cast = self.only_reader(op.results[0], "cast")
        if left is None or right is None or cast is None or len(op.operands) > 2:
            return None
        if self.program.type_of(left).shape[1] % self.depth or self.program.type_of(cast.results[0]).element != "i32":
            return None
        added = self.only_reader(cast.results[0], "add")
        carry = None if added is None else self.carries.get(sum(added.operands) - cast.results[0])
        if added is None or carry is None or not self.sums(carry, added):
            return _Whole((left, right), None, cast.results[0])
        return _Whole((left, right), carry.argument, added.results[0])

    def sums(self, carry: Carry, added: Op) -> bool:
        """Whether a carried value is a sum of products alone, from 0 on, that is read behind its loop."""
        if carry.yielded != added.results[0] or self.readers.get(added.results[0]):
            return False
        return constant_of(self.write.makers.get(carry.init)) == 0 and self.readers[carry.argument] == [added]

    def tile(self, operand: int, *, turned: bool) -> int | None:
        """The tile of i8 from memory that an operand is, converted, and transposed if `turned`; None if it is not."""
        maker = self.write.makers.get(operand)
        if turned:
            if maker is None or maker.kind != "transpose" or maker.attribute("order") != (1, 0):
                return None
            maker = self.write.makers.get(maker.operands[0])
        if maker is None or maker.kind != "cast":
            return None
        loaded = self.write.makers.get(maker.operands[0])
        element = self.program.type_of(maker.operands[0]).element
        return maker.operands[0] if loaded is not None and loaded.kind == "tile_load" and element in INTEGERS else None

    def only_reader(self, value: int, kind: str) -> Op | None:
        """The operation of that kind that alone reads a value."""
        match self.readers.get(value, []):
            case [one] if one.kind == kind and value not in self.carried:
                return one
        return None
