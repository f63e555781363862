"""What the streams of warp groups do otherwise because two CTAs work together: slots go back to both, and an instance
that only repeats its neighbour's stores nothing and is no part of a sum. Where they multiply together, the first one
issues the products, and alone expects the bytes of their operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Apply, Expr, Local, Number

_EQUAL = (("predicate", "eq"), ("signed", 0))
TOGETHER = "together"  # a scalar: whether the neighbours are one pair
FIRST = Apply("compare", (Local(ir.RANK, "u32"), Number(0, "u32")), "i1", _EQUAL)
"""Whether a CTA is the first of its cluster."""


def clustered(groups: Sequence[ir.WarpGroup], arefs: Sequence[ir.Aref]) -> list[ir.WarpGroup]:
    """The groups as those of a CTA in a cluster."""
    late = given_back_late(groups, arefs)
    return [in_cluster(group, arefs, late) for group in groups]


def given_back_late(groups: Sequence[ir.WarpGroup], arefs: Sequence[ir.Aref]) -> frozenset[int]:
    """The rings that CTAs share, and whose slots go back behind products: nobody has waited for these."""
    behind = (
        (group, stmt) for group in groups for stmt in group.stmts if isinstance(stmt, ir.Consumed) and stmt.behind
    )
    rings = {group.cursor(stmt.cursor).aref for group, stmt in behind}
    return frozenset(ring for ring in rings if arefs[ring].shared)


def in_cluster(group: ir.WarpGroup, arefs: Sequence[ir.Aref], late: frozenset[int]) -> ir.WarpGroup:
    """One of them. late: see `given_back_late`."""
    shared = frozenset(cursor.id for cursor in group.cursors if arefs[cursor.aref].shared)
    pairs = frozenset(cursor.id for cursor in group.cursors if arefs[cursor.aref].pair)
    awaited = pairs | {cursor.id for cursor in group.cursors if cursor.aref in late}

    def changed(block: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...]:
        return tuple(changes(block))

    def changes(block: Sequence[ir.Stmt]) -> Iterator[ir.Stmt]:
        stores: list[ir.Stmt] = []
        for stmt in block:
            if isinstance(stmt, ir.TmaStore | ir.StoreGlobal):
                stores.append(stmt)
                continue
            if stores:
                yield ir.If(Local(ir.PRESENT, "i1"), tuple(stores))
                stores = []
            if isinstance(stmt, ir.Consumed) and stmt.cursor in shared:
                yield replace(stmt, everywhere=True)
            elif isinstance(stmt, ir.Expect) and stmt.cursor in pairs:
                yield ir.If(FIRST, (stmt,))
            elif isinstance(stmt, ir.SumParts):  # who repeats an instance is not counted among its parts
                parts = Apply("select", (Local(ir.PRESENT, "i1"), stmt.parts, Number(1)), "i32")
                yield replace(stmt, parts=parts)
            else:
                yield ir.with_blocks(stmt, changed)
        if stores:
            yield ir.If(Local(ir.PRESENT, "i1"), tuple(stores))

    body, filled = changed(group.body), frozenset(s.cursor for s in group.stmts if isinstance(s, ir.TmaLoad))
    if any(isinstance(stmt, ir.TensorMultiply) and stmt.target.cursor in pairs for stmt in group.stmts):
        body = tuple(by_first(body, filled))
    finish = (*changed(group.finish), *given_back(sorted(filled & awaited), group, arefs))
    return replace(group, start=changed(group.start), body=body, finish=finish)


def given_back(cursors: Sequence[int], group: ir.WarpGroup, arefs: Sequence[ir.Aref]) -> Iterator[ir.Stmt]:
    """Waits until all slots of rings are given back: an arrival that comes behind products of one CTA must not come
    when the other one has ended."""
    for cursor in cursors:
        for _ in range(arefs[group.cursor(cursor).aref].depth):
            yield ir.Acquire(cursor)
            yield ir.Advance(cursor)


def by_first(block: Sequence[ir.Stmt], filled: frozenset[int]) -> Iterator[ir.Stmt]:
    """A block of a group that issues the products of a pair, as the first CTA alone executes it, but for how its rings
    are filled. filled: the cursors at which the group fills rings by the TMA."""
    alone: list[ir.Stmt] = []
    for stmt in block:
        if not isinstance(stmt, ir.Let) and not any(getattr(s, "cursor", -1) in filled for s in ir.walk((stmt,))):
            alone.append(stmt)
            continue
        if alone:
            yield ir.If(FIRST, tuple(alone))
            alone = []
        yield ir.with_blocks(stmt, lambda inner: by_first(inner, filled))
    if alone:
        yield ir.If(FIRST, tuple(alone))


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    if program.cluster is None:
        return program
    groups = clustered(program.groups, program.arefs)
    if program.cluster.together is not None:
        groups = [replace(group, body=in_its_turn(group.body, program.cluster.together)) for group in groups]
    return replace(program, groups=tuple(groups))


def in_its_turn(body: tuple[ir.Stmt, ...], together: Expr) -> tuple[ir.Stmt, ...]:
    """The body of a group, but not in the second turn of a pair whose instances were together in the first."""
    turn = Apply("select", (Local(TOGETHER, "i1"), Local("turn", "u32"), Number(0, "u32")), "u32")
    return ir.Let(TOGETHER, together), ir.If(Apply("compare", (turn, Number(0, "u32")), "i1", _EQUAL), body)
