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

from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices, each_body


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    filled = {aref.id for aref in program.arefs if aref.transport == "tma"}
    loops = (stmt for group in program.groups for stmt in ir.walk(group.body) if isinstance(stmt, ir.Pipeline))
    level = all(not loop.stages for loop in loops)
    vectors = {buffer.id for buffer in program.buffers if len(buffer.shape) == 1} if level else set[int]()
    ahead = {aref.id for aref in program.arefs if aref.depth > 1 and vectors.issuperset(aref.buffers)}
    return each_body(program, lambda group: with_fences(group, filled, ahead & filled))


def with_fences(group: ir.WarpGroup, filled: set[int], ahead: Collection[int] = ()) -> tuple[ir.Stmt, ...]:
    """The body of a group with a proxy fence in front of every release of a slot that its threads read. filled: rings
    that the TMA fills. ahead: those of them whose slots may go back later in an iteration."""
    ring = {cursor.id: cursor.aref for cursor in group.cursors}
    read = {ring[stmt.source.cursor] for stmt in group.stmts
            if isinstance(stmt, ir.LoadShared) and stmt.source.cursor is not None} & filled  # fmt: skip
    released = {cursor for cursor, aref in ring.items() if aref in read}
    late = {cursor for cursor in released if ring[cursor] in ahead}

    def later(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.Pipeline):
            return replace(stmt, steady=_behind_fences(stmt.steady, late), later=_behind_fences(stmt.later, late))
        return ir.with_blocks(stmt, lambda block: map(later, block))

    return tuple(_fenced(map(later, group.body), released))


def _behind_fences(block: tuple[ir.Stmt, ...], late: set[int]) -> tuple[ir.Stmt, ...]:
    """An iteration in which slots go back behind the next proxy fence, if there is one: in the same branch, where the
    iteration has two, with a mask and without. late: their cursors."""
    block = tuple(
        ir.with_blocks(stmt, lambda branch: _behind_fences(branch, late)) if isinstance(stmt, ir.If) else stmt
        for stmt in block
    )
    made: list[ir.Stmt] = []
    held: list[ir.Stmt] = []
    for at, stmt in enumerate(block):
        before = block[at - 1] if at else None
        fenced = isinstance(before, ir.ProxyFence | ir.Advance)
        goes = isinstance(stmt, ir.Consumed) and stmt.cursor in late and not fenced
        follows = isinstance(stmt, ir.Advance) and held and before is held[-1] and stmt.cursor == _cursor(held[-1])
        if follows or (goes and _fence_follows(block, at)):
            held.append(stmt)
            continue
        made.append(stmt)
        if isinstance(stmt, ir.ProxyFence):
            made += held
            held = []
    return tuple(made)


def _fence_follows(block: tuple[ir.Stmt, ...], at: int) -> bool:
    """Whether a proxy fence is behind the release at `at`, and its cursor is advanced next and not used before that."""
    cursor = _cursor(block[at])
    if at + 1 == len(block) or not isinstance(block[at + 1], ir.Advance) or _cursor(block[at + 1]) != cursor:
        return False
    for stmt in block[at + 2 :]:
        if isinstance(stmt, ir.ProxyFence):
            return True
        if _nested(stmt) or _cursor(stmt) == cursor:
            return False
    return False


def _cursor(stmt: ir.Stmt) -> int | None:
    """The cursor that a statement is about, or loads through."""
    if isinstance(stmt, ir.LoadShared):
        return stmt.source.cursor
    return getattr(stmt, "cursor", None)


def _fenced(block: Iterable[ir.Stmt], released: set[int]) -> Iterator[ir.Stmt]:
    """released: cursors whose slots go back to the TMA. One fence does for releases that follow one another."""
    ordered = False  # whether nothing was read since the last fence
    for stmt in block:
        if isinstance(stmt, ir.Consumed) and stmt.cursor in released:
            if not ordered:
                yield ir.ProxyFence(line=stmt.line)
            ordered = True
            yield stmt
            continue
        ordered = isinstance(stmt, ir.ProxyFence) or (
            ordered and not isinstance(stmt, ir.LoadShared) and not _nested(stmt)
        )
        yield ir.with_blocks(stmt, lambda inner: _fenced(inner, released))


def _nested(stmt: ir.Stmt) -> bool:
    """Whether a statement has statements of its own, which may read."""
    return hasattr(stmt, "body") or hasattr(stmt, "steady")
