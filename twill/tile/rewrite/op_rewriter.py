"""A rewrite that makes single operations anew, each by what it says of itself, in loops and out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill.tile.dead_code import compact
from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.rewrite.writer import OpWriter


@dataclass
class OpRewriter:
    """changed: whether an operation was made anew; `instead` says so."""

    program: TileProgram
    changed: bool = False

    def __post_init__(self) -> None:
        self.write = OpWriter(self.program)

    def rewritten(self) -> TileProgram:
        """The program with the operations made anew, without what nothing reads any more; the same one if none was."""
        body = self.block(self.program.body)
        if not self.changed:
            return self.program
        return compact(replace(self.program, body=body, values=tuple(self.write.values)))

    def block(self, items: Items) -> Items:
        """The items of a block."""
        found: list[Op | Loop] = []
        for item in items:
            if isinstance(item, Loop):
                found.append(replace(item, body=self.block(item.body)))
            else:
                found += self.instead(item)
        return tuple(found)

    def instead(self, op: Op) -> Sequence[Op]:
        """The operation, or what stands in its place."""
        raise NotImplementedError
