"""Buffers of shared memory that have bytes in common: which may, and what an access of one means for the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from twill.codegen.warp.program import Buffer, SlotRef, Stmt, WarpGroup, WarpProgram, walk
from twill.codegen.warp.verifier import named, own_nodes

Slot = tuple[int, int]
"""(buffer, slot)."""


def slots_beside(buffers: Sequence[Buffer]) -> dict[Slot, tuple[Slot, ...]]:
    """The slots of other buffers that have bytes in common with a slot, for each that has some."""
    found: dict[Slot, list[Slot]] = {}
    for one, other in overlapping(buffers):
        for mine in range(one.slots):
            for theirs in range(other.slots):
                if _meet(_span(one, mine), _span(other, theirs)):
                    found.setdefault((one.id, mine), []).append((other.id, theirs))
                    found.setdefault((other.id, theirs), []).append((one.id, mine))
    return {slot: tuple(beside) for slot, beside in found.items()}


def overlapping(buffers: Sequence[Buffer]) -> Iterator[tuple[Buffer, Buffer]]:
    """Pairs of buffers in shared memory that have bytes in common."""
    for one, other in combinations([b for b in buffers if not b.tensor], 2):
        if _meet(
            (one.offset, one.offset + one.slots * one.bytes), (other.offset, other.offset + other.slots * other.bytes)
        ):
            yield one, other


def _span(buffer: Buffer, slot: int) -> tuple[int, int]:
    begin = buffer.offset + slot * buffer.bytes
    return begin, begin + buffer.bytes


def _meet(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def take_turns(program: WarpProgram, one: int, other: int) -> bool:
    """Whether every warp group has done all that it does with one of two buffers in a program instance before it does
    anything with the other one, the same one first in all groups."""
    first: set[bool] = set()
    for group in program.groups:
        if any(touches(program, group, stmt) & {one, other} for stmt in _outside(group)):
            return False
        inside = [{b for s in walk((stmt,)) for b in touches(program, group, s)} for stmt in group.body]
        mine = [place for place, found in enumerate(inside) if one in found]
        theirs = [place for place, found in enumerate(inside) if other in found]
        if mine and theirs:
            if mine[0] <= theirs[-1] and theirs[0] <= mine[-1]:
                return False
            first.add(mine[0] < theirs[0])
    return len(first) < 2  # of none that has both, what waits for whom says it


def _outside(group: WarpGroup) -> Iterator[Stmt]:
    """Statements besides those of the body."""
    for block in (group.start, group.next, group.skip, group.finish):
        yield from walk(block)


def touches(program: WarpProgram, group: WarpGroup, stmt: Stmt) -> set[int]:
    """Buffers that a statement alone accesses, or whose ring it names."""
    refs = [node for node in own_nodes(stmt) if isinstance(node, SlotRef)]
    names = list(named(stmt))
    rings = {cursor.id: cursor.aref for cursor in group.cursors}
    held = {
        b
        for kind, number in names
        if kind == "cursor" and number in rings
        for b in program.arefs[rings[number]].buffers
    }
    return held | {ref.buffer for ref in refs} | {number for kind, number in names if kind == "buffer"}
