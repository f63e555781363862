"""Fences between threads that read a tile and the TMA that overwrites it.

A slot that the TMA filled and threads read goes back to the TMA. Threads read through the generic proxy, the TMA writes
through the asynchronous one, and an arrival on an mbarrier orders accesses of one proxy only (PTX ISA, memory
consistency model, proxies): without a proxy fence behind the reads, the copy of a later iteration may land before a
load that was issued earlier has been served. On an H200 an MMA in six parts, which loads right in
front of the arrival, was wrong in 7 of 60 launches of 32 iterations: the last columns of a row were of a later tile.
MMAs read
through the asynchronous proxy themselves and need no fence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.program import Consumed, LoadShared, ProxyFence, Stmt, WarpGroup, WarpProgram, with_blocks


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    filled = {aref.id for aref in program.arefs if aref.transport == "tma"}
    return each_body(program, lambda group: with_fences(group, filled))


def with_fences(group: WarpGroup, filled: set[int]) -> tuple[Stmt, ...]:
    """The body of a group with a proxy fence in front of every release of a slot that its threads read. filled: rings
    that the TMA fills."""
    ring = {cursor.id: cursor.aref for cursor in group.cursors}
    read = {ring[stmt.source.cursor] for stmt in group.stmts
            if isinstance(stmt, LoadShared) and stmt.source.cursor is not None} & filled  # fmt: skip
    released = {cursor for cursor, aref in ring.items() if aref in read}
    return tuple(_fenced(group.body, released))


def _fenced(block: Iterable[Stmt], released: set[int]) -> Iterator[Stmt]:
    """released: cursors whose slots go back to the TMA. One fence does for releases that follow one another."""
    ordered = False  # whether nothing was read since the last fence
    for stmt in block:
        if isinstance(stmt, Consumed) and stmt.cursor in released:
            if not ordered:
                yield ProxyFence(line=stmt.line)
            ordered = True
            yield stmt
            continue
        ordered = isinstance(stmt, ProxyFence) or (ordered and not isinstance(stmt, LoadShared) and not _nested(stmt))
        yield with_blocks(stmt, lambda inner: _fenced(inner, released))


def _nested(stmt: Stmt) -> bool:
    """Whether a statement has statements of its own, which may read."""
    return hasattr(stmt, "body") or hasattr(stmt, "steady")
