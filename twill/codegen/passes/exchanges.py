"""Where a warp group waits before a reduction overwrites scratch memory that some of its threads may still read.

A reduction over warps writes its scratch, waits for all threads of the group, and reads. The next one may write the
same scratch only when all have read. Where another scratch was used in between, the wait of that reduction has done
the work: reductions that take turns between two need one wait each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.paths import FactAnalysis

Unsettled = frozenset[int]
"""Scratch buffers that were read, on some way here, since the group's threads last waited for one another."""


def with_waits(body: tuple[ir.Stmt, ...]) -> tuple[ir.Stmt, ...]:
    """The body of a warp group, which runs again and again, with a Sync before all that needs one."""
    needing: set[int] = set()
    search = ScratchAnalysis(needing)
    before: Unsettled = frozenset()
    while (again := before | search.block(body, before)) != before:
        before = again
    return tuple(_waiting(body, needing))


class ScratchAnalysis(FactAnalysis[int]):
    """Goes through a body. needing: the identities of the reductions that need a wait."""

    def __init__(self, needing: set[int]) -> None:
        self.needing = needing

    def simple(self, stmt: ir.Stmt, before: Unsettled) -> Unsettled:
        """Behind a statement without blocks."""
        match stmt:
            case ir.Sync():
                return frozenset()
            case (
                ir.Reduce(scratch=int(scratch))
                | ir.Scan(scratch=scratch)
                | ir.Rearrange(scratch=int(scratch))
                | ir.Histogram(scratch=scratch)
            ):
                if scratch in before:
                    self.needing.add(id(stmt))
                return frozenset([scratch])
            case ir.Elect(scratch=scratch):
                return frozenset() if scratch is None else frozenset([scratch])
            case ir.SumParts(scratch=scratch):
                return frozenset([scratch])  # it waits itself before it writes
        return before


def _waiting(stmts: Iterable[ir.Stmt], needing: set[int]) -> Iterator[ir.Stmt]:
    for stmt in stmts:
        if id(stmt) in needing:
            assert isinstance(stmt, ir.Reduce | ir.Scan | ir.Rearrange | ir.Histogram) and stmt.barrier is not None
            yield ir.Sync(stmt.barrier, line=stmt.line)
        yield ir.with_blocks(stmt, lambda block: _waiting(block, needing))


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    return each_body(program, lambda group: with_waits(group.body))
