"""What the streams of warp groups do otherwise because two CTAs work together: slots go back to both, and an instance
that only repeats its neighbour's stores nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from twill import exc
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Local
from twill.codegen.warp.program import (
    PRESENT,
    Aref,
    Consumed,
    If,
    Stmt,
    StoreGlobal,
    TmaStore,
    WarpGroup,
    WarpProgram,
    with_blocks,
)


def clustered(groups: Sequence[WarpGroup], arefs: Sequence[Aref]) -> list[WarpGroup]:
    """The groups as those of a CTA in a cluster."""
    return [in_cluster(group, arefs) for group in groups]


def in_cluster(group: WarpGroup, arefs: Sequence[Aref]) -> WarpGroup:
    """One of them."""
    shared = frozenset(cursor.id for cursor in group.cursors if arefs[cursor.aref].shared)

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
            else:
                yield with_blocks(stmt, changed)
        if stores:
            yield If(Local(PRESENT, "i1"), tuple(stores))

    return replace(group, start=changed(group.start), body=changed(group.body), finish=changed(group.finish))


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    if program.cluster is None:
        return program
    if program.program.split is not None:  # an instance that repeats its neighbour's would be counted twice
        raise exc.UnsupportedInKernel(
            "K is split, and CTAs of a cluster may repeat an instance", file=program.program.file,
            hint="--split or --cluster, not both",
        )  # fmt: skip
    return replace(program, groups=tuple(clustered(program.groups, program.arefs)))
