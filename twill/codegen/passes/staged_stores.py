"""Stores by the TMA in what follows a loop: the statements of one, and which must wait for one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from twill.codegen.warp.program import BulkCommit, BulkWait, If, ProxyFence, Stmt, StoreShared, Sync, TmaStore

Read = tuple[int, tuple[int, int] | None]
"""A buffer, and its columns that copies read; None for all."""


class Whole(Exception):
    """What follows a loop cannot be cut."""


@dataclass(frozen=True)
class StagedStore:
    """A tile, or a panel of it, that leaves by the TMA. sends: copies, or what they stand in."""

    wait: BulkWait
    barrier: Sync
    store: StoreShared
    sends: tuple[Stmt, ...]

    @property
    def panel(self) -> tuple[int, int] | None:
        """Columns of the accumulator; None for all."""
        return self.store.columns


@dataclass
class Staged:
    """The bulk groups of an instance so far, by the part of a buffer that they read. settled: whether those of the
    instances before are known to have read theirs."""

    committed: list[Read] = field(default_factory=list)
    settled: bool = False

    def waits(self, store: StagedStore, part: Read) -> Iterator[Stmt]:
        """What stands in front of a store, where it must wait for one before."""
        known = part in self.committed
        pending = self.committed[::-1].index(part) if known else len(self.committed)
        if known or not self.settled:
            yield replace(store.wait, pending=pending)
            yield store.barrier
        self.settled = True
        self.committed.append(part)


def items(stmts: Sequence[Stmt]) -> list[Stmt | StagedStore]:
    """The statements of a block, with those of a store by the TMA as one."""
    made: list[Stmt | StagedStore] = []
    rest = list(stmts)
    while rest:
        match rest:
            case [BulkWait(read=True) as wait, Sync() as barrier, StoreShared() as store, ProxyFence(), Sync(), *_]:
                end = next((n for n, stmt in enumerate(rest) if isinstance(stmt, BulkCommit)), -1)
                if end < 0 or not all(_sends(stmt) for stmt in rest[5:end]):
                    raise Whole
                made.append(StagedStore(wait, barrier, store, tuple(rest[5:end])))
                rest = rest[end + 1 :]
            case _:
                made.append(rest.pop(0))
    return made


def _sends(stmt: Stmt) -> bool:
    """Whether a statement is a copy out of a staging buffer, or a condition for some."""
    if isinstance(stmt, If):
        return not stmt.otherwise and all(isinstance(inner, TmaStore) for inner in stmt.body)
    return isinstance(stmt, TmaStore)
