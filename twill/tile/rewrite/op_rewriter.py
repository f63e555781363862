"""A rewrite that makes single operations anew, each by what it says of itself, in loops and out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill.tile.dead_code import compact
from twill.tile.program import Items, Loop, Op, TileProgram
from twill.tile.rewrite.writer import OpWriter


@dataclass
class OpRewriter:
    """changed: whether anything was made anew."""

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
                found += self.loop(item)
                continue
            self.write.made = []
            made = self.instead(item)
            self.changed |= len(made) != 1 or made[0] is not item
            found += made
        return tuple(found)

    def loop(self, loop: Loop) -> Items:
        """The loop with its body made anew, or what stands in its place; who changes more than the body says so in
        `changed`."""
        return (replace(loop, body=self.block(loop.body)),)

    def instead(self, op: Op) -> Sequence[Op]:
        """The operation, or what stands in its place; what it writes begins with an empty `write.made`."""
        raise NotImplementedError
