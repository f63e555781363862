"""A vector that is used along the rows and along the columns of matrices is made once for each.

`g[:, None] - g[None, :]`: beside matrix multiplications the registers of a thread hold some rows and some columns of a
matrix, and of a vector those elements that belong to them: other ones along rows than along columns. What is loaded, or
computed of such vectors element by element, is cheap to make twice (a vector, where its users have matrices), which
needs no exchange between threads. What a matrix is reduced to, or a loop carries, is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from twill.tile.program import Op, TileProgram
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.uniformity import classify
from twill.tile.vocabulary import ELEMENTWISE

ROWS, COLUMNS = "rows", "columns"


def separate_sides(program: TileProgram) -> TileProgram:
    """The program with such vectors made twice; the same one if there are none. Raises `NestedLoop`."""
    return _Sides(program).rewritten() if any(op.kind == "dot" for op in program.ops()) else program


@dataclass
class _Sides(OpRewriter):
    """wanted: along which sides of matrices each vector of data is used, itself or what is computed of it. copies: of
    those that are made twice, the one for columns."""

    wanted: dict[int, set[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.uniformity = classify(self.program)
        for op in reversed(list(self.program.ops())):
            side = self.side(op)
            for operand in op.operands:
                if side is not None:
                    self.wanted.setdefault(operand, set()).add(side)
                elif op.kind in ELEMENTWISE and op.results[0] in self.wanted and self.is_vector(operand):
                    self.wanted.setdefault(operand, set()).update(self.wanted[op.results[0]])
        twice = (value for value, wanted in self.wanted.items() if len(wanted) == 2 and self.repeatable(value))
        self.copies = {value: self.write.value_like(value) for value in sorted(twice)}

    def instead(self, op: Op) -> list[Op]:
        """The operation, of copies if it is for columns; and another one that makes the copy of what it makes."""
        operands = tuple(self.copies.get(operand, operand) for operand in op.operands)
        if op.results and op.results[0] in self.copies:
            copy = replace(op, id=self.write.fresh(), operands=operands, results=(self.copies[op.results[0]],))
            return [op, copy]
        along = {self.side(op)} if op.kind not in ELEMENTWISE else self.wanted.get(op.results[0])
        return [op if along != {COLUMNS} or operands == op.operands else replace(op, operands=operands)]

    def side(self, op: Op) -> str | None:
        """The side along which an operation shows a vector."""
        if op.kind not in ("expand_dims", "reshape") or not self.is_vector(op.operands[0]):
            return None
        shape = self.program.type_of(op.results[0]).shape
        if len(shape) != 2 or sum(extent > 1 for extent in shape) != 1:
            return None
        return ROWS if shape[1] == 1 else COLUMNS

    def is_vector(self, value: int) -> bool:
        """Whether it is a vector of data: index arithmetic is made wherever it is used."""
        return len(self.program.type_of(value).shape) == 1 and value not in self.uniformity.pure

    def repeatable(self, value: int) -> bool:
        """Whether it may be made twice: it is loaded, or computed of such vectors and numbers."""
        maker = self.uniformity.makers.get(value)
        if maker is None:
            return False
        if maker.kind == "tile_load":
            return all(operand in self.uniformity.pure or self.repeatable(operand) for operand in maker.operands)
        data = (o for o in maker.operands if o not in self.uniformity.uniform and o not in self.uniformity.pure)
        return maker.kind in ELEMENTWISE and all(map(self.repeatable, data))
