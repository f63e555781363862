"""What the streams of warp groups do otherwise because two CTAs work together: slots go back to both, and an instance
that only repeats its neighbour's stores nothing and is no part of a sum. Where they multiply together, the first one
issues the products, and alone expects the bytes of their operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Apply, Expr, Local, Number
from twill.codegen.warp.program import (
    PRESENT,
    RANK,
    Acquire,
    Advance,
    Aref,
    Consumed,
    Expect,
    If,
    Let,
    Stmt,
    StoreGlobal,
    SumParts,
    TensorMultiply,
    TmaLoad,
    TmaStore,
    WarpGroup,
    WarpProgram,
    walk,
    with_blocks,
)

_EQUAL = (("predicate", "eq"), ("signed", 0))
TOGETHER = "together"  # a scalar: whether the neighbours are one pair
FIRST = Apply("compare", (Local(RANK, "u32"), Number(0, "u32")), "i1", _EQUAL)
"""Whether a CTA is the first of its cluster."""


def clustered(groups: Sequence[WarpGroup], arefs: Sequence[Aref]) -> list[WarpGroup]:
    """The groups as those of a CTA in a cluster."""
    late = given_back_late(groups, arefs)
    return [in_cluster(group, arefs, late) for group in groups]


def given_back_late(groups: Sequence[WarpGroup], arefs: Sequence[Aref]) -> frozenset[int]:
    """The rings that CTAs share, and whose slots go back behind products: nobody has waited for these."""
    behind = ((group, stmt) for group in groups for stmt in group.stmts if isinstance(stmt, Consumed) and stmt.behind)
    rings = {group.cursor(stmt.cursor).aref for group, stmt in behind}
    return frozenset(ring for ring in rings if arefs[ring].shared)


def in_cluster(group: WarpGroup, arefs: Sequence[Aref], late: frozenset[int]) -> WarpGroup:
    """One of them. late: see `given_back_late`."""
    shared = frozenset(cursor.id for cursor in group.cursors if arefs[cursor.aref].shared)
    pairs = frozenset(cursor.id for cursor in group.cursors if arefs[cursor.aref].pair)
    awaited = pairs | {cursor.id for cursor in group.cursors if cursor.aref in late}

    def changed(block: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(changes(block))

    def changes(block: Sequence[Stmt]) -> Iterator[Stmt]:
        stores: list[Stmt] = []
        for stmt in block:
            if isinstance(stmt, TmaStore | StoreGlobal):
                stores.append(stmt)
                continue
            if stores:
                yield If(Local(PRESENT, "i1"), tuple(stores))
                stores = []
            if isinstance(stmt, Consumed) and stmt.cursor in shared:
                yield replace(stmt, everywhere=True)
            elif isinstance(stmt, Expect) and stmt.cursor in pairs:
                yield If(FIRST, (stmt,))
            elif isinstance(stmt, SumParts):  # who repeats an instance is not counted among its parts
                parts = Apply("select", (Local(PRESENT, "i1"), stmt.parts, Number(1)), "i32")
                yield replace(stmt, parts=parts)
            else:
                yield with_blocks(stmt, changed)
        if stores:
            yield If(Local(PRESENT, "i1"), tuple(stores))

    body, filled = changed(group.body), frozenset(s.cursor for s in group.stmts if isinstance(s, TmaLoad))
    if any(isinstance(stmt, TensorMultiply) and stmt.target.cursor in pairs for stmt in group.stmts):
        body = tuple(by_first(body, filled))
    finish = (*changed(group.finish), *given_back(sorted(filled & awaited), group, arefs))
    return replace(group, start=changed(group.start), body=body, finish=finish)


def given_back(cursors: Sequence[int], group: WarpGroup, arefs: Sequence[Aref]) -> Iterator[Stmt]:
    """Waits until all slots of rings are given back: an arrival that comes behind products of one CTA must not come
    when the other one has ended."""
    for cursor in cursors:
        for _ in range(arefs[group.cursor(cursor).aref].depth):
            yield Acquire(cursor)
            yield Advance(cursor)


def by_first(block: Sequence[Stmt], filled: frozenset[int]) -> Iterator[Stmt]:
    """A block of a group that issues the products of a pair, as the first CTA alone executes it, but for how its rings
    are filled. filled: the cursors at which the group fills rings by the TMA."""
    alone: list[Stmt] = []
    for stmt in block:
        if not isinstance(stmt, Let) and not any(getattr(s, "cursor", -1) in filled for s in walk((stmt,))):
            alone.append(stmt)
            continue
        if alone:
            yield If(FIRST, tuple(alone))
            alone = []
        yield with_blocks(stmt, lambda inner: by_first(inner, filled))
    if alone:
        yield If(FIRST, tuple(alone))


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    if program.cluster is None:
        return program
    groups = clustered(program.groups, program.arefs)
    if program.cluster.together is not None:
        groups = [replace(group, body=in_its_turn(group.body, program.cluster.together)) for group in groups]
    return replace(program, groups=tuple(groups))


def in_its_turn(body: tuple[Stmt, ...], together: Expr) -> tuple[Stmt, ...]:
    """The body of a group, but not in the second turn of a pair whose instances were together in the first."""
    turn = Apply("select", (Local(TOGETHER, "i1"), Local("turn", "u32"), Number(0, "u32")), "u32")
    return Let(TOGETHER, together), If(Apply("compare", (turn, Number(0, "u32")), "i1", _EQUAL), body)
