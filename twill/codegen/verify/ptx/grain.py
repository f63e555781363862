"""Bytes of shared memory that nothing tells apart: whoever touches one of them touches all of them.

Accesses are aligned to their size, and all sizes are powers of two. So where the smallest access of a function has four
bytes, who read or wrote a byte last (`twill.codegen.verify.ptx.order.Shadow`) is the same for each aligned four.
"""

from __future__ import annotations

from collections.abc import Iterable

from twill.codegen.verify.ptx.accesses import space_of
from twill.ptx.program import Immediate, PtxInstruction, Vector, width
from twill.ptx.registers import types_of

LARGEST = 16  # bytes: copies, and the rows of matrices, have no less
_BY_NAME = {"mbarrier": 8, "tcgen05": 4}  # of the second, `alloc` stores an address


def grain_of(instructions: Iterable[PtxInstruction]) -> int:
    """Bytes of the smallest access of shared memory that one of them may make, `LARGEST` at most."""
    return min((_accessed(instruction) for instruction in instructions), default=LARGEST)


def _accessed(instruction: PtxInstruction) -> int:
    """Bytes that a thread accesses at once; `LARGEST` if it is none of shared memory, or one of so many or more."""
    name = instruction.name
    if name in ("ld", "ldu", "st"):
        if space_of(instruction) not in ("shared", ""):
            return LARGEST
        moved = instruction.operands[1 if name == "st" else 0]
        return min(LARGEST, width(types_of(instruction)[-1]) * (len(moved.parts) if isinstance(moved, Vector) else 1))
    if name in ("atom", "red"):
        return width(types_of(instruction)[-1]) if space_of(instruction) in ("shared", "") else LARGEST
    if name == "cp" and "bulk" not in instruction.modifiers:  # by threads; the third operand is how many bytes
        sizes = [one.value for one in instruction.operands[2:3] if isinstance(one, Immediate)]
        return min([LARGEST, *sizes])
    return _BY_NAME.get(name, LARGEST)
