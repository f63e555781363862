"""Products of fewer rows than an instruction into tensor memory has are made with their rows repeated.

::

    c = dot(a, b, acc)     of 16 x 32, becomes     r = the rows of a, four times;  t = dot(r, b)     of 64 x 32
                                                   c = acc + the first 16 rows of t

Instructions into tensor memory have few numbers of rows (here 64). Products of so many columns are transposed instead
(`twill.tile.rewrite.short_products`). Results of the repeated rows are computed and not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twill.tile.program import Op, TileProgram, TileType
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.rewrite.straight_products import is_zero

PRODUCT, RANK = "dot", 2


def repeat_rows(program: TileProgram, possible: Sequence[int]) -> TileProgram:
    """The program with such products; the same one if there are none. possible: rows that results can have."""
    return _Repeater(program, possible=sorted(possible)).rewritten()


@dataclass
class _Repeater(OpRewriter):
    possible: Sequence[int] = ()

    def instead(self, op: Op) -> list[Op]:
        """A product, or what it becomes."""
        kind = self.program.type_of(op.results[0]) if op.kind == PRODUCT else TileType((), "i1")
        rows = self.rows(kind.shape[0]) if len(kind.shape) == RANK else None
        if rows is None:
            return [op]
        columns = kind.shape[1]
        operands = (self.repeated(op, rows), op.operands[1])
        wide = TileType((rows, columns), kind.element)
        total = self.write.op(PRODUCT, operands, wide, op.line, op.name, **dict(op.attributes))
        added = [value for value in op.operands[2:3] if not is_zero(self.write, value)]
        said: dict[str, int | tuple[int, ...]] = {"first": 0, "extents": kind.shape, "steps": (columns, 1)}
        if not added:
            last = Op(op.id, "rearrange", (total,), op.results, tuple(said.items()), op.line, op.name)
            return [*self.write.made, last]
        part = self.write.op("rearrange", (total,), kind, op.line, op.name, **said)
        return [*self.write.made, Op(op.id, "add", (added[0], part), op.results, (), op.line, op.name)]

    def rows(self, rows: int) -> int | None:
        """The fewest possible rows that are a multiple of these; None if there are none, or these are possible."""
        return None if rows in self.possible else next((count for count in self.possible if count % rows == 0), None)

    def repeated(self, op: Op, rows: int) -> int:
        """The left operand with its rows repeated; of a transposed tile, the columns of that."""
        value = op.operands[0]
        kind = self.program.type_of(value)
        count, depth = kind.shape
        maker = self.write.makers.get(value)
        steps: tuple[int, ...] = (0, depth, 1)
        if maker is not None and maker.kind == "transpose" and maker.attribute("order") == (1, 0):
            value, steps = maker.operands[0], (0, 1, count)
        said: dict[str, int | tuple[int, ...]] = {"first": 0, "extents": (rows // count, count, depth), "steps": steps}
        return self.write.op("rearrange", (value,), TileType((rows, depth), kind.element), op.line, "", **said)
