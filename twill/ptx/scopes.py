"""What names mean in the braces of a function, and instructions that were read before.

Texts that differ in few places, as one with a fault from the one without, have the other instructions in common, as
objects, too: what is made of them is made once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from twill.ptx.program import Operand, PtxInstruction, Variable, Vector

InstructionKey = tuple[int, str, int, str, int]
"""What names mean (`Body.naming`), the text, its line, and the file and line of the source."""

_MANY = 100_000  # instructions that are remembered
_read: dict[InstructionKey, PtxInstruction] = {}
_naming: dict[tuple[int, str, str], int] = {}  # what names meant before, and a declaration -> what they mean since
_numbers = count(1)


@dataclass
class Scope:
    """Braces: names that are declared in them, as the function calls them. outside: what names mean around them."""

    names: dict[str, str] = field(default_factory=dict)
    outside: int = 0


@dataclass
class Body:
    """A function while it is read. operands: as they were read since the last brace or register. naming: a number for
    what names mean here."""

    registers: dict[str, str] = field(default_factory=dict)
    instructions: list[PtxInstruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    opened: int = 0
    tables: dict[str, Vector] = field(default_factory=dict)
    operands: dict[str, Operand] = field(default_factory=dict)
    naming: int = 0

    def declare(self, kind: str, names: str) -> None:
        """Names mean something else from here on."""
        self.operands.clear()
        self.naming = _naming.setdefault((self.naming, kind, names), next(_numbers))


def named(body: Body, name: str) -> str:
    """What the function calls what the innermost braces call `name`."""
    for scope in reversed(body.scopes):
        if name in scope.names:
            return scope.names[name]
    return name


def remembered(key: InstructionKey, read: Callable[[], PtxInstruction]) -> PtxInstruction:
    """The instruction as it was read before, or is read now."""
    known = _read.get(key)
    if known is None:
        if len(_read) >= _MANY:
            _read.clear()
            _naming.clear()
        known = _read[key] = read()
    return known
