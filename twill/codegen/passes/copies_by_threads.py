"""Vectors that threads bring to a ring in a loop are copied past their registers.

A group that loads elements, stores them into a slot and publishes it waits for global memory in every iteration, and
with it whatever else it brings. Copies need no register: the group goes on to the next slot, and the slot is full when
its copies have landed. Possible for elements of 4 and 8 bytes, of which those outside of the tensor are 0, that nothing
but threads reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest

from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Number
from twill.codegen.warp.program import (
    COPIES,
    Acquire,
    Aref,
    CopyGlobal,
    LoadGlobal,
    LoadShared,
    Pipeline,
    Publish,
    SlotRef,
    Stmt,
    StoreShared,
    WarpGroup,
    WarpProgram,
    walk,
    with_blocks,
)

BYTES = {"f32": 4, "i32": 4, "f64": 8, "i64": 8}
"""Of the elements that threads copy asynchronously (PTX ISA, "cp.async"), and that vectors of kernels have."""


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    rings = {aref.id for aref in program.arefs if _copied(program, aref)}
    if not rings:
        return program
    arefs = tuple(
        replace(aref, transport=COPIES, full_count=program.groups[aref.producer].threads) if aref.id in rings else aref
        for aref in program.arefs
    )
    groups = tuple(_with_copies(group, rings) for group in program.groups)
    return replace(program, arefs=arefs, groups=groups)


def _copied(program: WarpProgram, aref: Aref) -> bool:
    """Whether all that a ring gets are vectors from global memory in loops, and all that is done with it is to load
    them."""
    producer = program.groups[aref.producer]
    if aref.transport != "registers" or producer.issuer or len(aref.buffers) != 1:
        return False
    if len(program.buffers[aref.buffers[0]].shape) != 1:
        return False
    cursors = {cursor.id for cursor in producer.cursors if cursor.aref == aref.id}
    filled = [stmt for stmt in producer.stmts if isinstance(stmt, Publish | StoreShared) and _cursor(stmt) in cursors]
    inside = [one for stmt in producer.stmts if isinstance(stmt, Pipeline) for one in _puts(_nested(stmt), cursors)]
    if not inside or 2 * len(inside) != len(filled):
        return False
    users = (stmt for group in program.groups for stmt in group.stmts if aref.buffers[0] in _buffers(stmt))
    return all(isinstance(stmt, LoadShared | StoreShared) for stmt in users)


def _nested(loop: Pipeline) -> Iterator[tuple[Stmt, ...]]:
    """The blocks of a loop, and those inside of them."""
    for block in (*loop.prologue, *loop.steadies, *loop.epilogue):
        yield block
        for stmt in walk(block):
            yield from (getattr(stmt, name) for name in ("body", "otherwise") if hasattr(stmt, name))


def _puts(blocks: Iterable[tuple[Stmt, ...]], cursors: set[int]) -> Iterator[StoreShared]:
    """The stores of some rings that a copy can stand for."""
    for block in blocks:
        for load, store, publish in zip(block, block[1:], block[2:], strict=False):
            if isinstance(publish, Publish) and publish.cursor in cursors and _is_put(load, store, publish):
                assert isinstance(store, StoreShared)
                yield store


def _is_put(load: Stmt, store: Stmt, publish: Publish) -> bool:
    """Whether three statements are a vector's way into a slot."""
    return (
        isinstance(load, LoadGlobal)
        and isinstance(store, StoreShared)
        and load.result == store.operand
        and store.target.cursor == publish.cursor
        and not (store.columns or store.transposed or store.target.rows or store.target.columns)
        and not (load.transposed or load.mask is not None)
        and load.window.element in BYTES
        and load.window.pad in (0, Number(0, load.window.element))
    )


def _cursor(stmt: Publish | StoreShared) -> int | None:
    return stmt.cursor if isinstance(stmt, Publish) else stmt.target.cursor


def _buffers(stmt: Stmt) -> set[int]:
    """Buffers whose tiles a statement names."""
    found = (getattr(stmt, name, None) for name in ("a", "b", "target", "source"))
    return {ref.buffer for ref in found if isinstance(ref, SlotRef)}


def _with_copies(group: WarpGroup, rings: set[int]) -> WarpGroup:
    """A group that copies what it loads for some rings."""
    cursors = {cursor.id for cursor in group.cursors if cursor.aref in rings}
    if not any(isinstance(stmt, Acquire) and stmt.cursor in cursors for stmt in group.stmts):
        return group
    body = tuple(_copying(group.body, cursors))
    passed = {stmt.operand for stmt in group.stmts if isinstance(stmt, StoreShared) and stmt.target.cursor in cursors}
    fragments = tuple(fragment for fragment in group.fragments if fragment.id not in passed)
    return replace(group, body=body, fragments=fragments)


def _copying(block: tuple[Stmt, ...], cursors: set[int]) -> Iterator[Stmt]:
    stores = {id(store) for store in _puts((block,), cursors)}
    for stmt, behind in zip_longest(block, block[1:]):
        if isinstance(stmt, LoadGlobal) and isinstance(behind, StoreShared) and id(behind) in stores:
            cursor = behind.target.cursor
            assert cursor is not None
            yield CopyGlobal(stmt.window, behind.target, cursor, line=stmt.line)
        elif id(stmt) not in stores:
            yield with_blocks(stmt, lambda inner: _copying(tuple(inner), cursors))
