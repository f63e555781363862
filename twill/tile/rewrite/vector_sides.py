"""A vector that is used along the rows and along the columns of matrices is made once for each.

`g[:, None] - g[None, :]`: beside matrix multiplications the registers of a thread hold some rows and some columns of a
matrix, and of a vector those elements that belong to them: other ones along rows than along columns. What is loaded, or
computed of such vectors element by element, is cheap to make twice (a vector, where its users have matrices), which
needs no exchange between threads. What a matrix is reduced to, or a loop carries, is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.rewrite.writer import OpWriter
from twill.tile.uniformity import Uniformity, classify
from twill.tile.vocabulary import ELEMENTWISE

ROWS, COLUMNS = "rows", "columns"


def separate_sides(program: TileProgram) -> TileProgram:
    """The program with such vectors made twice; the same one if there are none. Raises `NestedLoop`."""
    if not any(op.kind == "dot" for op in program.ops()):
        return program
    sides = _Sides(program, classify(program))
    twice = {value for value, wanted in sides.wanted.items() if len(wanted) == 2 and sides.repeatable(value)}
    if not twice:
        return program
    write = OpWriter(program)
    copies = {value: write.value_like(value) for value in sorted(twice)}
    body = _block(program.body, sides, copies, write)
    return replace(program, body=body, values=tuple(write.values))


@dataclass
class _Sides:
    """wanted: along which sides of matrices each vector of data is used, itself or what is computed of it."""

    program: TileProgram
    uniformity: Uniformity

    def __post_init__(self) -> None:
        self.wanted: dict[int, set[str]] = {}
        for op in reversed(list(self.program.ops())):
            side = self.side(op)
            for operand in op.operands:
                if side is not None:
                    self.wanted.setdefault(operand, set()).add(side)
                elif op.kind in ELEMENTWISE and op.results[0] in self.wanted and self.is_vector(operand):
                    self.wanted.setdefault(operand, set()).update(self.wanted[op.results[0]])

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


def _block(items: Items, sides: _Sides, copies: dict[int, int], write: OpWriter) -> Items:
    made: list[Op | Loop] = []
    for item in items:
        if isinstance(item, Loop):
            made.append(replace(item, body=_block(item.body, sides, copies, write)))
            continue
        if sides.side(item) == COLUMNS:
            item = replace(item, operands=tuple(copies.get(operand, operand) for operand in item.operands))  # noqa: PLW2901
        made.append(item)
        if item.results and item.results[0] in copies:
            operands = tuple(copies.get(operand, operand) for operand in item.operands)
            made.append(replace(item, id=write.fresh(), operands=operands, results=(copies[item.results[0]],)))
        elif item.kind in ELEMENTWISE and sides.wanted.get(item.results[0]) == {COLUMNS}:
            made[-1] = replace(item, operands=tuple(copies.get(operand, operand) for operand in item.operands))
    return tuple(made)
