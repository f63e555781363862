"""What may be so at each statement of a body, on some way there: the walk that passes share which put in waits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from twill.codegen.warp.program import If, Pipeline, Stmt

Fact = TypeVar("Fact")


class PathAnalysis(ABC, Generic[Fact]):
    """Facts are kept on the ways through branches and loops, and joined where ways meet. `simple` says what a statement
    without blocks makes of them."""

    @abstractmethod
    def simple(self, stmt: Stmt, before: frozenset[Fact]) -> frozenset[Fact]:
        """Behind a statement without blocks."""

    def block(self, stmts: Iterable[Stmt], before: frozenset[Fact]) -> frozenset[Fact]:
        """Behind some statements."""
        for stmt in stmts:
            match stmt:
                case If():
                    before = self.block(stmt.body, before) | self.block(stmt.otherwise, before)
                case Pipeline():
                    before = self.pipeline(stmt, before)
                case _:
                    before = self.simple(stmt, before)
        return before

    def pipeline(self, loop: Pipeline, before: frozenset[Fact]) -> frozenset[Fact]:
        """No iteration; or the prologue, the steady state any number of times, the epilogue."""
        inside = before
        for block in loop.prologue:
            inside = self.block(block, inside)
        for steady in loop.steadies:
            while (again := inside | self.block(steady, inside)) != inside:
                inside = again
        for block in loop.epilogue:
            inside = self.block(block, inside)
        return before | inside
