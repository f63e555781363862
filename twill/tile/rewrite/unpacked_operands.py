"""Operands of 4 bits beside others of 8 are read with a place of 8 bits for each.

A tensor core multiplies e2m1 by e2m1 as two lie in a byte of memory. Of one beside e4m3 or e5m2 it wants 16 bytes of
shared memory for 16 elements, which are in the first 8 of them; the TMA leaves them so ("16U4_ALIGN16B"). So the load
of such an operand becomes one of elements "e2m1", twice as many along K as it has bytes::

    %b = tile_load i8 [n in 128, k / 2 in 64]      ->      %b = tile_load e2m1 [n in 128, k in 128]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from twill import exc
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Axis, Op, TileProgram, TileType, Value, loops_of
from twill.tile.vocabulary import UNPACKED

BOX = 128  # elements of e2m1 that a copy has along K (CUDA driver API, cuTensorMapEncodeTiled, 16U4_ALIGN16B)
PER_BYTE = 2
ONE = Polynomial.constant_of(1)


def unpack_operands(program: TileProgram) -> TileProgram:
    """The program whose products of elements of 4 and of 8 bits read each with a place of 8 bits; the same one if there
    are none. Raises UnsupportedMma for an operand of 4 bits that the TMA does not load for such products alone."""
    found = _Unpacked(program)
    for op in program.ops():
        for position in _narrow(op):
            found.operand(op, position)
    if not found.loads:
        return program
    values = tuple(found.values.get(value.id, value) for value in program.values)
    return replace(program.with_ops(lambda op: found.loads.get(op.id, op)), values=values)


def _narrow(op: Op) -> Iterator[int]:
    """The operands of 4 bits of a product that has another one."""
    if op.kind == "dot_scaled":
        kinds = op.attribute("a"), op.attribute("b")
        yield from (n for n, kind in enumerate(kinds) if kind == UNPACKED and kinds != (UNPACKED, UNPACKED))


@dataclass
class _Unpacked:
    """loads: changed, by number. values: with other types."""

    program: TileProgram
    loads: dict[int, Op] = field(default_factory=dict)
    values: dict[int, Value] = field(default_factory=dict)

    def operand(self, product: Op, position: int) -> None:
        """An operand, its load and all that is shown of that."""
        value = product.operands[position]
        maker = self.program.makers.get(value)
        while maker is not None and maker.kind == "transpose":
            value = maker.operands[0]
            maker = self.program.makers.get(value)
        access = None if maker is None or maker.kind != "tile_load" else maker.access
        if maker is None or access is None or access.transport != "tma":
            reason = "it is computed" if access is None else access.transport_reason
            self.refuse(product, position, f"is not loaded by the TMA ({reason})")
            return
        last = access.axes[-1]
        if last.stride != ONE or last.extent * PER_BYTE % BOX or len(access.axes) != 2:
            self.refuse(product, position, f"has {last.extent * PER_BYTE} elements along K, and a copy has {BOX}")
        self.loads[maker.id] = replace(maker, access=unpacked(access))
        for one, along in self.shown(value, len(access.axes) - 1, product, position):
            held = self.program.values[one]
            shape = tuple(n * PER_BYTE if axis == along else n for axis, n in enumerate(held.type.shape))
            self.values[one] = replace(held, type=TileType(shape, UNPACKED))

    def shown(self, value: int, along: int, product: Op, position: int) -> Iterator[tuple[int, int]]:
        """A value and its transposes, with the axis of each along K; all that read them multiply them so."""
        yield value, along
        otherwise = any(value in (c.init, c.yielded) for loop in loops_of(self.program.body) for c in loop.carried)
        for op in (op for op in self.program.ops() if value in op.operands):
            if op.kind == "transpose":
                order = op.attribute("order")
                assert isinstance(order, tuple)
                yield from self.shown(op.results[0], order.index(along), product, position)
            elif any(n not in _narrow(op) for n, operand in enumerate(op.operands) if operand == value):
                otherwise = True
        if otherwise:
            self.refuse(product, position, "is read otherwise, too")

    def refuse(self, product: Op, position: int, why: str) -> None:
        """Raises UnsupportedMma at the product's line."""
        kinds = f"{product.attribute('a')} x {product.attribute('b')}"
        raise exc.UnsupportedMma(
            f"operand {'AB'[position]} of a product {kinds}, which {why},", file=self.program.file, line=product.line,
            hint=f"e2m1 that a descriptor loads for such products alone, {BOX // PER_BYTE} bytes of each row or a "
            "multiple of them",
        )  # fmt: skip


def unpacked(access: Access) -> Access:
    """An access of bytes as one of their halves."""
    two = PER_BYTE
    axes = [replace(axis, stride=axis.stride * two) for axis in access.axes[:-1]]
    last = access.axes[-1]
    bounds = [None if bound is None else bound * two for bound in (last.lower, last.upper)]
    axes.append(Axis(last.extent * two, last.stride, last.offset * two, *bounds))
    return replace(access, element=UNPACKED, axes=tuple(axes), constant=access.constant * two)
