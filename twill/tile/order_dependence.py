"""Whether what program instances do depends on their order: whether anything reads what an atomic operation gives."""

from __future__ import annotations

from functools import lru_cache

from twill.tile.program import TileProgram, loops_of, reads
from twill.tile.vocabulary import ELECTED


def depends_on_order(program: TileProgram) -> bool:
    """Whether one thread does something to memory for all, or the old values of a tile are read."""
    return any(op.kind == ELECTED for op in program.ops()) or bool(old_values_read(program))


@lru_cache(maxsize=64)
def old_values_read(program: TileProgram) -> frozenset[int]:
    """The atomic operations on tiles of which something reads the old values, by their id."""
    every = {op.id: op.results for op in program.ops() if op.kind in ("tile_reduce", "atomic_add") and op.results}
    if not every:
        return frozenset()
    read = {value for op in program.ops() for value in reads(op)}
    for loop in loops_of(program.body):
        read |= {value for carry in loop.carried for value in (carry.init, carry.yielded)}
    return frozenset(number for number, results in every.items() if read.intersection(results))
