"""The order of K in which a result of 8 bits is an operand A, without an exchange between threads.

Of 16 columns of a result lane t of a row's four has 2t, 2t+1, 8+2t and 8+2t+1, of an 8-bit operand A 4t ... 4t+3
(`twill/codegen/print/cuda/byte_operands.py`). A product adds over K in any order: where the rows of B are in
the order that the first has them, a thread multiplies what it holds. Such products have the attribute QUADS; a kernel
says them as

    p = p.reshape([M, K // 16, 2, 4, 2]).permute(0, 1, 3, 2, 4).reshape([M, K])    (p of 8 bits)
    acc = tl.dot(p, b, acc)
"""

from __future__ import annotations

from typing import Any

from twill.tile.digits import digits_of
from twill.tile.interpret.arrays import np
from twill.tile.program import Op

QUADS = "quads"  # of a product: column `columns_in_order(K)[k]` of A meets row k of B
GROUP = 16  # columns


def columns_in_order(depth: int) -> Any:
    """Of each place along K, a multiple of GROUP, the column of the result that is there: 0 1 8 9 2 3 10 11 ..."""
    return np.arange(depth).reshape(-1, 2, 4, 2).transpose(0, 2, 1, 3).reshape(-1)


def is_in_quads(op: Op, shape: tuple[int, ...]) -> bool:
    """Whether a rearrangement of a matrix of that shape puts its columns in that order."""
    if op.kind != "rearrange" or len(op.operands) != 1 or len(shape) != 2 or shape[1] % GROUP:
        return False
    places = np.arange(shape[0] * shape[1]).reshape(shape)[:, columns_in_order(shape[1])]
    said = tuple(op.attribute(name) for name in ("first", "extents", "steps"))
    return said == digits_of(places)
