"""What may be so at each statement of a body, on some way there: the walk through branches and loops."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from twill.codegen.warp.program import If, Pipeline, Stmt

State = TypeVar("State")
Fact = TypeVar("Fact")


class PathAnalysis(ABC, Generic[State]):
    """A state is kept on the ways through branches and loops, and joined where ways meet."""

    @abstractmethod
    def simple(self, stmt: Stmt, before: State) -> State:
        """Behind a statement without blocks."""

    @abstractmethod
    def joined(self, one: State, other: State) -> State:
        """Where two ways meet."""

    def block(self, stmts: Iterable[Stmt], before: State) -> State:
        """Behind some statements."""
        for stmt in stmts:
            match stmt:
                case If():
                    before = self.joined(self.block(stmt.body, before), self.block(stmt.otherwise, before))
                case Pipeline():
                    before = self.joined(before, self.pipeline(stmt, before))
                case _:
                    before = self.simple(stmt, before)
        return before

    def pipeline(self, loop: Pipeline, state: State) -> State:
        """Behind a loop that has iterations: the prologue, the steady state any number of times, the epilogue."""
        for block in loop.prologue:
            state = self.block(block, state)
        for steady in loop.steadies:
            while (again := self.joined(state, self.block(steady, state))) != state:
                state = again
            self.repeated(loop, steady, state)
        for block in loop.epilogue:
            state = self.block(block, state)
        return state

    def repeated(self, loop: Pipeline, steady: Iterable[Stmt], state: State) -> None:
        """A steady state, in front of which nothing else may be so any more."""


class FactAnalysis(PathAnalysis[frozenset[Fact]], Generic[Fact]):
    """What may be so are facts, each on its own."""

    def joined(self, one: frozenset[Fact], other: frozenset[Fact]) -> frozenset[Fact]:
        """What is so on either way."""
        return one | other
