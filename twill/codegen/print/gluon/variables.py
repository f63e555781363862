"""Which fragments can be one variable: those of which none is read behind a place where another is written.

A variable of a kernel that is assigned again (`qk = tanh(qk)`) is several fragments of the warp program. As long as
they are of one type and never needed at once, they are one variable in the module, too, and none is called `qk_2`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from twill.codegen.print.gluon.in_flight import ProductsInFlight
from twill.codegen.print.gluon.role_names import identifier
from twill.codegen.warp.effects import effects
from twill.codegen.warp.program import Compute, If, Pipeline, Reg, Stmt, WaitGroups, WarpGroup

Live = frozenset[int]
_NUMBERS = re.compile(r"(_\d+)+$")


def needed_at_once(stream: WarpGroup, products: ProductsInFlight) -> dict[int, set[int]]:
    """For each fragment, those that are still read somewhere behind a place where it is written."""
    lives = _Lives(products)
    live = lives.block(stream.finish, frozenset())
    while (before := lives.block(stream.body, live)) - live:
        live |= before
    lives.block(stream.start, live)
    return lives.found


class _Lives:
    """Backwards through a warp group."""

    def __init__(self, products: ProductsInFlight) -> None:
        self.products = products
        self.found: dict[int, set[int]] = defaultdict(set)

    def block(self, stmts: Iterable[Stmt], live: Live) -> Live:
        """What is read from the beginning of a block on. live: what is behind it."""
        for stmt in reversed([*stmts]):
            live = self.statement(stmt, live)
        return live

    def statement(self, stmt: Stmt, live: Live) -> Live:
        """The same of one statement."""
        match stmt:
            case If(_, body, otherwise):
                return self.block(body, live) | self.block(otherwise, live)
            case Pipeline():
                return live | self.loop(stmt, live)
            case WaitGroups():
                found = self.products.waits.get(id(stmt))
                return live | (found.ready if found is not None else frozenset())
        written, read = effects(stmt)
        for one in written:
            for other in live - {one}:
                self.found[one].add(other)
                self.found[other].add(one)
        return live - written | read

    def loop(self, loop: Pipeline, live: Live) -> Live:
        """Epilogue, steady states as often as there is news, prologue."""
        for block in reversed(loop.epilogue):
            live = self.block(block, live)
        for steady in reversed(loop.steadies):
            while more := self.block(steady, live) - live:
                live |= more
        for block in reversed(loop.prologue):
            live = self.block(block, live)
        return live


# ---------------------------------------------------------------- names
def named_after(stream: WarpGroup, nameless: Iterable[str]) -> dict[int, str]:
    """Fragments that the kernel has no name for -> the name of what they are made of: of their first operand that has
    one. nameless: names that only say which operation it was."""
    plain, names = frozenset(nameless), {one.id: _NUMBERS.sub("", identifier(one.name)) for one in stream.fragments}
    made: dict[int, str] = {}
    for stmt in stream.stmts:
        if isinstance(stmt, Compute) and names[stmt.result] in plain and stmt.result not in made:
            given = (o.fragment for o in stmt.operands if isinstance(o, Reg))
            found = next((n for one in given if (n := made.get(one, names[one])) not in plain), "")
            if found:
                made[stmt.result] = found
    return made
