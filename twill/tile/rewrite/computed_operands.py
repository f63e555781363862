"""Products of a loaded tile and a computed one are transposed, so that the computed one is on the left; and products of
two loaded tiles whose columns, but not rows, are a multiple of the tensor core's rows.

::

    acc = dot(a, f(b), acc)      becomes      accT = dot(f(b^T), a^T, accT)

The left operand of a tensor core may lie in registers, the right one lies in shared memory. A tile that threads compute
of what they loaded (weights of 8 bits made 16 bits wide, scaled, unpacked) would go through shared memory as the right
operand: stored by all, fenced, waited for, and read by each row block again. On the left each warp group computes what
it multiplies itself. Nothing is rounded otherwise: a product's terms and their order along K are the same.

An instruction has columns in smaller steps than rows: a block of 16 or 152 rows is computed in just so many columns,
where its own columns are rows enough. So is one of more columns than an instruction has, whatever its operands are
made of: the rest of its rows would be computed for each of them.

What follows of the sum is computed transposed, too, up to where it is stored.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from twill.tile.program import Carry, Items, Loop, Op, TileProgram, TileType
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.vocabulary import ELEMENTWISE

ROWS, COLUMNS = 64, 256  # of a left operand in registers its rows are a multiple, and the most columns of a right one
GRAIN = 16  # columns of a right operand are a multiple
WIDE = ("f16", "bf16")  # element types of operands in registers
LOADED_GRAIN = 8  # columns of a right operand that is loaded are a multiple


def is_copied(op: Op | None) -> bool:
    """Whether an operation is a load of a tile by the TMA."""
    return op is not None and op.kind == "tile_load" and op.access is not None and op.access.transport == "tma"


def transpose_computed(program: TileProgram) -> TileProgram:
    """The program with such products of its loops transposed; the same one if there are none, or if something of them
    is used in another way than element by element, reduced along an axis, carried or stored."""
    return Exchange(program).rewritten()


@dataclass
class Exchange(OpRewriter):
    """products: the products to transpose, by operation. across: values that are made transposed. made: their
    transposes. alike: operations whose results are transposed if an operand is."""

    across: set[int] = field(default_factory=set)
    made: dict[int, int] = field(default_factory=dict)
    alike: Collection[str] = tuple(ELEMENTWISE)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.makers = self.program.makers
        self.products = self.chosen()

    def chosen(self) -> set[int]:
        """The products to transpose."""
        return {
            op.id for loop in self.program.body if isinstance(loop, Loop)
            for op in loop.body if isinstance(op, Op) and self.profits(op, loop)
        }  # fmt: skip

    # -- which products -----------------------------------------------------------------------

    def profits(self, op: Op, loop: Loop) -> bool:
        """Whether a product of a loop has a loaded tile on the left, and on the right a computed one; or a loaded one,
        too, if its rows are not those of the tensor core, and its columns are; or any, if it has more columns than an
        instruction, too."""
        shape = self.program.type_of(op.results[0]).shape if op.kind == "dot" else ()
        if len(shape) != 2 or shape[1] % ROWS or shape[0] > COLUMNS:
            return False
        if shape[1] > COLUMNS and shape[0] % ROWS and not shape[0] % LOADED_GRAIN:
            return True
        left, right = (self.below_views(operand) for operand in op.operands[:2])
        if not is_copied(left) or right is None:
            return False
        if is_copied(right):
            return bool(shape[0] % ROWS) and not shape[0] % LOADED_GRAIN
        inside = {id(item) for item in loop.body}
        wide = self.program.type_of(op.operands[0]).element in WIDE and not shape[0] % GRAIN
        return wide and right.kind in ELEMENTWISE and id(right) in inside and self.is_converted(right)

    def below_views(self, value: int) -> Op | None:
        """What makes a value, or the one that it is the transpose of."""
        maker = self.makers.get(value)
        while maker is not None and maker.kind == "transpose":
            maker = self.makers.get(maker.operands[0])
        return maker

    def is_converted(self, op: Op) -> bool:
        """Whether a computed tile follows from tiles that are loaded, by elementwise work alone."""
        loads = False
        for operand in op.operands:
            if len(self.program.type_of(operand).shape) != 2:
                continue
            maker = self.below_views(operand)
            if maker is not None and maker.kind in ELEMENTWISE and not self.is_converted(maker):
                return False
            if maker is None or maker.kind not in (*ELEMENTWISE, "tile_load", "broadcast", "splat", "constant"):
                return False
            loads |= maker.kind in ELEMENTWISE or maker.kind == "tile_load"
        return loads

    # -- what is made transposed --------------------------------------------------------------

    def spreads(self) -> bool:
        """Finds all that follows from those products; whether it can all be made transposed."""
        size = -1
        while size != len(self.across):
            size = len(self.across)
            self.follow(self.program.body)
        return all(self.fits(op) for op in self.program.ops())

    def follow(self, items: Items) -> None:
        """Adds what follows from what is made transposed."""
        for item in items:
            if isinstance(item, Loop):
                self.follow(item.body)
                for carry in item.carried:
                    if self.across & {carry.init, carry.argument, carry.yielded, carry.result}:
                        self.across |= {carry.argument, carry.yielded, carry.result}
            elif item.id in self.products or (item.kind in self.alike and self.across & {*item.operands}):
                self.across |= {*item.results}

    def fits(self, op: Op) -> bool:
        """Whether an operation can take what is made transposed."""
        taken = [position for position, operand in enumerate(op.operands) if operand in self.across]
        if self.across & {*op.results} and op.id not in self.products and op.kind not in self.alike:
            return False
        if not taken or op.kind in self.alike:
            return True
        if op.kind == "dot":
            return op.id in self.products and taken == [2]
        return op.kind == "reduce" or (op.kind in ("tile_store", "tile_reduce") and taken == [0])

    # -- the program --------------------------------------------------------------------------

    def rewritten(self) -> TileProgram:
        """The program, with what is made transposed in place of what it is the transpose of; the same one if nothing
        is."""
        return super().rewritten() if self.products and self.spreads() else self.program

    def loop(self, loop: Loop) -> Items:
        """A loop that carries transposed what is made transposed."""
        self.write.made = []
        carried: list[Carry] = []
        for carry in loop.carried:
            if carry.argument not in self.across:
                carried.append(carry)
                continue
            init = self.transposed(carry.init)
            argument, result = self.fresh(carry.argument), self.fresh(carry.result)
            carried.append(Carry(carry.name, init, argument, carry.yielded, result))
        before = self.write.made
        body = self.block(loop.body)
        carried = [replace(carry, yielded=self.made.get(carry.yielded, carry.yielded)) for carry in carried]
        return (*before, replace(loop, carried=tuple(carried), body=body))

    def instead(self, op: Op) -> list[Op]:
        """An operation on transposes, and what it needs in front of it."""
        operands: tuple[int, ...]
        if op.id in self.products:
            operands = (self.transposed(op.operands[1]), self.transposed(op.operands[0]))
            operands += tuple(self.transposed(operand) for operand in op.operands[2:])
        elif self.across & {*op.results}:
            operands = tuple(self.transposed(operand) for operand in op.operands)
        elif op.kind == "reduce" and op.operands[0] in self.across:
            axis = ("axis", 1 - int(str(op.attribute("axis"))))
            attributes = tuple(axis if name == "axis" else (name, value) for name, value in op.attributes)
            return [replace(op, operands=(self.made[op.operands[0]],), attributes=attributes)]
        else:
            operands = tuple(
                self.view(self.made[operand], op.line) if operand in self.across else operand for operand in op.operands
            )
            return [*self.write.made, replace(op, operands=operands)]
        result = self.fresh(op.results[0])
        return [*self.write.made, replace(op, operands=operands, results=(result,))]

    def fresh(self, value: int) -> int:
        """A new value, the transpose of another one."""
        made = self.write.value_like(value)
        old = self.write.values[made]
        shape = old.type.shape[::-1]
        self.write.values[made] = replace(old, type=TileType(shape, old.type.element))
        self.made[value] = made
        return made

    def view(self, value: int, line: int) -> int:
        """The transpose of a matrix as a view."""
        kind = self.write.values[value].type
        return self.write.op("transpose", (value,), TileType(kind.shape[::-1], kind.element), line, order=(1, 0))

    def transposed(self, value: int) -> int:
        """The transpose of an operand: one that is made; of vectors, numbers and what is computed of tiles made anew;
        of others a view."""
        kind = self.write.values[value].type
        if len(kind.shape) < 2:
            return value
        if value in self.across:
            return self.made[value]
        maker, turned = self.makers.get(value), TileType(kind.shape[::-1], kind.element)
        kinds = (*ELEMENTWISE, "transpose", "constant", "splat", "broadcast", "expand_dims")
        if maker is None or maker.kind not in kinds:
            return self.view(value, self.write.values[value].line)
        if maker.kind == "transpose":
            return maker.operands[0]
        operands, attributes = maker.operands, maker.attributes
        if maker.kind == "expand_dims":
            attributes = (("axis", 1 - int(str(maker.attribute("axis")))),)
        else:
            operands = tuple(self.transposed(operand) for operand in operands)
        made = self.write.op(maker.kind, operands, turned, maker.line, maker.name)
        self.write.made[-1] = replace(self.write.made[-1], attributes=attributes)
        return made
