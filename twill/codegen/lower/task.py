"""What a warp group has to do, and where operands come from: the nouns of a plan (`twill.codegen.lower.plan`)."""

from __future__ import annotations

from dataclasses import dataclass

from twill.graph.dependence import Node

Place = tuple[int, int, int]  # region, node, row block (-1: shared by all)


@dataclass(frozen=True)
class Task:
    """A node of one row block. groups: one in a loop; in straight-line code every group that needs a copy.
    start, latency, hold: cycles, of the schedule; busy: of its unit (0 in straight-line code)."""

    place: Place
    node: Node
    steps: tuple[int, ...]
    groups: tuple[int, ...]
    start: int = 0
    latency: int = 0
    hold: int = 0
    busy: int = 0

    @property
    def region(self) -> int:
        """The region of the dependence graph."""
        return self.place[0]

    @property
    def block(self) -> int:
        """The row block, -1 if shared by all."""
        return self.place[2]

    @property
    def made(self) -> tuple[int, int]:
        """The value that it makes: (step of the flat program, row block)."""
        return self.steps[-1], self.block


@dataclass(frozen=True)
class Source:
    """Where an operand comes from. step: of `Flat.steps` that makes it, in row block `block`, `distance` iterations
    ago; cell: the result of that step that the operand shows."""

    step: int
    block: int
    distance: int
    cell: int

    @property
    def made(self) -> tuple[int, int]:
        """The value, as `Task.made`."""
        return self.step, self.block
