"""Fences between threads that read a tile and the TMA that overwrites it.

A slot that the TMA filled and threads read goes back to the TMA. Threads read through the generic proxy, the TMA writes
through the asynchronous one, and an arrival on an mbarrier orders accesses of one proxy only (PTX ISA, memory
consistency model, proxies): without a proxy fence behind the reads, the copy of a later iteration may land before a
load that was issued earlier has been served. On an H200 an MMA in six parts, which loads right in front of the arrival,
was wrong in 7 of 60 launches of 32 iterations: the last columns of a row were of a later tile. MMAs read through the
asynchronous proxy themselves and need no fence.

A fence takes tens of cycles of all threads. Where an iteration has another one further down, for a tile that threads
store, slots of vectors go back behind that one: 2 % of the cycles of attention backward. Whoever waits for something in
between waits for what was loaded earlier: no group is ahead of the others by an iteration where no loop has stages, and
rings have a slot for the next iteration. (Matrices go back as soon as they can: their copies take longer.)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.program import (
    Advance,
    Consumed,
    If,
    LoadShared,
    Pipeline,
    ProxyFence,
    Stmt,
    WarpGroup,
    WarpProgram,
    walk,
    with_blocks,
)


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    filled = {aref.id for aref in program.arefs if aref.transport == "tma"}
    loops = (stmt for group in program.groups for stmt in walk(group.body) if isinstance(stmt, Pipeline))
    level = all(not loop.stages for loop in loops)
    vectors = {buffer.id for buffer in program.buffers if len(buffer.shape) == 1} if level else set[int]()
    ahead = {aref.id for aref in program.arefs if aref.depth > 1 and vectors.issuperset(aref.buffers)}
    return each_body(program, lambda group: with_fences(group, filled, ahead & filled))


def with_fences(group: WarpGroup, filled: set[int], ahead: Collection[int] = ()) -> tuple[Stmt, ...]:
    """The body of a group with a proxy fence in front of every release of a slot that its threads read. filled: rings
    that the TMA fills. ahead: those of them whose slots may go back later in an iteration."""
    ring = {cursor.id: cursor.aref for cursor in group.cursors}
    read = {ring[stmt.source.cursor] for stmt in group.stmts
            if isinstance(stmt, LoadShared) and stmt.source.cursor is not None} & filled  # fmt: skip
    released = {cursor for cursor, aref in ring.items() if aref in read}
    late = {cursor for cursor in released if ring[cursor] in ahead}

    def later(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Pipeline):
            return replace(stmt, steady=_behind_fences(stmt.steady, late), later=_behind_fences(stmt.later, late))
        return with_blocks(stmt, lambda block: map(later, block))

    return tuple(_fenced(map(later, group.body), released))


def _behind_fences(block: tuple[Stmt, ...], late: set[int]) -> tuple[Stmt, ...]:
    """An iteration in which slots go back behind the next proxy fence, if there is one: of the same way, where the
    iteration has two. late: their cursors."""
    block = tuple(
        with_blocks(stmt, lambda way: _behind_fences(way, late)) if isinstance(stmt, If) else stmt for stmt in block
    )
    made: list[Stmt] = []
    held: list[Stmt] = []
    for at, stmt in enumerate(block):
        before = block[at - 1] if at else None
        goes = isinstance(stmt, Consumed) and stmt.cursor in late and not isinstance(before, ProxyFence | Advance)
        follows = isinstance(stmt, Advance) and held and before is held[-1] and stmt.cursor == _cursor(held[-1])
        if follows or (goes and _fence_follows(block, at)):
            held.append(stmt)
            continue
        made.append(stmt)
        if isinstance(stmt, ProxyFence):
            made += held
            held = []
    return tuple(made)


def _fence_follows(block: tuple[Stmt, ...], at: int) -> bool:
    """Whether a proxy fence is behind the release at `at`, and its cursor is advanced next and not used before that."""
    cursor = _cursor(block[at])
    if at + 1 == len(block) or not isinstance(block[at + 1], Advance) or _cursor(block[at + 1]) != cursor:
        return False
    for stmt in block[at + 2 :]:
        if isinstance(stmt, ProxyFence):
            return True
        if _nested(stmt) or _cursor(stmt) == cursor:
            return False
    return False


def _cursor(stmt: Stmt) -> int | None:
    """The cursor that a statement is about, or loads through."""
    if isinstance(stmt, LoadShared):
        return stmt.source.cursor
    return getattr(stmt, "cursor", None)


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
