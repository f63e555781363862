"""Cursors that move on together, as one counter of slots.

A warp group has a cursor for each use of each ring. Where two always stand at the same count (they move on side by
side, and nothing in between looks at the one that moved first), one number says both: the slot is the count modulo the
depth of each ring, the parity the count divided by it.
"""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import Advance, Skip, Stmt, WarpGroup, with_blocks

Class = frozenset[int]


def merged(group: WarpGroup) -> tuple[WarpGroup, dict[int, int]]:
    """The group with the steps of one cursor for each counter, and for each cursor the one that stands for it."""
    classes: list[tuple[int, Class]] = []
    for cursor in group.cursors:
        for number, (shared, members) in enumerate(classes):
            try:
                group = _together(group, shared, members, cursor.id)
            except _Apart:
                continue
            classes[number] = (shared, members | {cursor.id})
            break
        else:
            classes.append((cursor.id, frozenset({cursor.id})))
    return group, {member: shared for shared, members in classes for member in members}


class _Apart(Exception):
    """Two cursors do not move on together."""


def _together(group: WarpGroup, shared: int, members: Class, gone: int) -> WarpGroup:
    """The group without the steps of `gone`. members: cursors that `shared` stands for. Raises _Apart."""
    parts = {name: _block(getattr(group, name), shared, members, gone) for name in ("start", "body", "skip", "finish")}
    return replace(group, **parts)  # type: ignore[arg-type]


def _block(stmts: tuple[Stmt, ...], shared: int, members: Class, gone: int) -> tuple[Stmt, ...]:
    """A block: each step of one cursor has one of the other beside it. The step that stays is the later one if the
    cursor that moved first is not used in between, else the earlier one."""
    made: list[Stmt] = []
    first: tuple[int, Advance | Skip] | None = None  # a step whose partner is still to come, and its place
    used: set[int] = set()  # since that step
    for stmt in stmts:
        if not isinstance(stmt, Advance | Skip) or stmt.cursor not in (shared, gone):
            made.append(with_blocks(stmt, lambda block: _block(block, shared, members, gone)))
            used |= {shared if c in members else c for c in _cursors(stmt)} & {shared, gone}
        elif first is None:
            first, used = (len(made), stmt), set()
        else:
            place, earlier = first
            if stmt.cursor == earlier.cursor or replace(stmt, cursor=earlier.cursor, line=earlier.line) != earlier:
                raise _Apart
            if earlier.cursor in used:
                if stmt.cursor in used:
                    raise _Apart
                made.insert(place, replace(stmt, cursor=shared))
            else:
                made.append(replace(stmt, cursor=shared))
            first = None
    if first is not None:
        raise _Apart
    return tuple(made)


def _cursors(stmt: Stmt) -> set[int]:
    """The cursors that a statement, or one in it, looks at."""
    return {node.cursor for node in nodes(stmt) if isinstance(getattr(node, "cursor", None), int)}
