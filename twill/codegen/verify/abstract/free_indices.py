"""Tensors whose boxes may begin anywhere, since the kernel's own do.

A tensor map is read or written from an innermost index that is a multiple of 16 bytes. What a kernel with descriptors
takes for an index is its caller's to choose, so a box of a descriptor is held against that only if the kernel's own
indices are multiples whatever its arguments are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from twill.graph.work import BITS
from twill.tile.program import Access, TileProgram, loops_of

ALIGNMENT = 16  # bytes of an innermost index of a tensor map


def free_indices(program: TileProgram) -> frozenset[str]:
    """Names of descriptors of which some access is not known to begin at a multiple of 16 bytes."""
    descriptors = {one.name for one in program.arguments if one.type.element.startswith("desc")}
    known = dict(_divisors(program))
    return frozenset(
        access.base for _, access in program.accesses if access.base in descriptors and not _aligned(access, known)
    )


def _aligned(access: Access, known: Mapping[int, int]) -> bool:
    return not access.axes or access.axes[-1].offset.divisor(known) * BITS[access.element] % (8 * ALIGNMENT) == 0


def _divisors(program: TileProgram) -> Iterator[tuple[int, int]]:
    """Scalars, and numbers that they are multiples of."""
    yield from ((one.value, one.divisibility) for one in program.arguments)
    constants = {op.results[0]: value for op in program.ops() if op.kind == "constant"
                 and isinstance(value := op.attribute("value"), int)}  # fmt: skip
    for loop in loops_of(program.body):
        if loop.lower in constants and loop.step in constants:
            yield loop.induction, math.gcd(constants[loop.lower], constants[loop.step])
