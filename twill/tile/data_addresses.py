"""Accesses of memory at addresses that are computed from data: by whoever has that data in registers."""

from __future__ import annotations

from collections.abc import Iterator

from twill.tile.program import Op, TileProgram
from twill.tile.uniformity import Uniformity, classify


def accesses_by_data(program: TileProgram) -> Iterator[Op]:
    """The accesses whose elements have addresses that are neither looked up nor index arithmetic."""
    uniformity = classify(program)
    for op in program.ops():
        if op.access is not None and any(
            op.operands[position] in by_data(op, uniformity) for position in op.index_operands
        ):
            yield op


def loads_by_data(program: TileProgram) -> Iterator[Op]:
    """The loads whose elements have such addresses, or addresses of their own and a mask that is made of data."""
    uniformity = classify(program)
    yield from (op for op in program.ops() if op.kind == "tile_load" and by_data(op, uniformity))


def by_data(op: Op, uniformity: Uniformity) -> frozenset[int]:
    """What is computed from data among the indices of an access, and its mask if it has indices."""
    masks = [op.mask_operand] if op.index_operands and op.mask_operand is not None else []
    return frozenset(op.operands[n] for n in (*op.index_operands, *masks)) - uniformity.uniform - uniformity.pure
