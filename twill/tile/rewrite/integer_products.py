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

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from twill.tile.dead_code import compact
from twill.tile.program import Carry, Items, Loop, Op, TileProgram, TileType, reads
from twill.tile.rewrite.precision import INSTEAD, INTEGERS, changed_mmas
from twill.tile.rewrite.writer import OpWriter


def whole_integers(program: TileProgram, depth: int) -> TileProgram:
    """The program with such products; the same one if there are none. depth: elements of K that one instruction of the
    tensor core contracts."""
    found = _Finder(program, depth).found()
    if not found:
        return program
    writer = OpWriter(program)
    body = _block(program.body, found, writer)
    made = replace(program, body=body, values=tuple(writer.values), original=program.original or program)
    return compact(made)


@dataclass(frozen=True)
class _Whole:
    """operands: tiles of i8, the second one as it lies in memory; addend: None for none. result: the sum."""

    operands: tuple[int, int]
    addend: int | None
    result: int


@dataclass
class _Finder:
    program: TileProgram
    depth: int
    makers: dict[int, Op] = field(default_factory=dict)
    readers: dict[int, list[Op]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for op in self.program.ops():
            self.makers |= dict.fromkeys(op.results, op)
            for value in reads(op):
                self.readers.setdefault(value, []).append(op)
        self.carries = {carry.argument: carry for carry in _carries(self.program.body)}
        self.carried = {value for carry in self.carries.values() for value in (carry.init, carry.yielded)}

    def found(self) -> dict[int, _Whole]:
        """Of the last operation of each such product."""
        whole: dict[int, _Whole] = {}
        for op in changed_mmas(self.program):
            made = self.product(op) if dict(op.attributes)[INSTEAD] in INTEGERS else None
            if made is not None:
                whole[self.makers[made.result].id] = made
        return whole

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
        init = self.makers.get(carry.init)
        zero = init is not None and init.kind == "constant" and init.attribute("value") == 0
        return zero and self.readers[carry.argument] == [added]

    def tile(self, operand: int, *, turned: bool) -> int | None:
        """The tile of i8 from memory that an operand is, converted, and transposed if `turned`; None if it is not."""
        maker = self.makers.get(operand)
        if turned:
            if maker is None or maker.kind != "transpose" or maker.attribute("order") != (1, 0):
                return None
            maker = self.makers.get(maker.operands[0])
        if maker is None or maker.kind != "cast":
            return None
        loaded = self.makers.get(maker.operands[0])
        element = self.program.type_of(maker.operands[0]).element
        return maker.operands[0] if loaded is not None and loaded.kind == "tile_load" and element in INTEGERS else None

    def only_reader(self, value: int, kind: str) -> Op | None:
        """The operation of that kind that alone reads a value."""
        match self.readers.get(value, []):
            case [one] if one.kind == kind and value not in self.carried:
                return one
        return None


def _carries(items: Items) -> Iterator[Carry]:
    for item in items:
        if isinstance(item, Loop):
            yield from item.carried
            yield from _carries(item.body)


def _block(items: Items, found: dict[int, _Whole], writer: OpWriter) -> Items:
    made: list[Op | Loop] = []
    for item in items:
        if isinstance(item, Loop):
            made.append(replace(item, body=_block(item.body, found, writer)))
        elif item.id in found:
            made += _product(item, found[item.id], writer)
        else:
            made.append(item)
    return tuple(made)


def _product(last: Op, whole: _Whole, writer: OpWriter) -> list[Op]:
    """B transposed, and the product in the place of the last operation of the one of bf16."""
    left, right = whole.operands
    (rows, columns), element = writer.values[right].type.shape, writer.values[right].type.element
    writer.made = []
    kind = TileType((columns, rows), element)
    turned = writer.op("transpose", (right,), kind, last.line, writer.values[right].name, order=(1, 0))
    operands = (left, turned) if whole.addend is None else (left, turned, whole.addend)
    product = Op(writer.fresh(), "dot", operands, last.results, (("precision", "ieee"),), last.line, last.name)
    return [*writer.made, product]
