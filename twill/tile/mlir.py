"""Generic MLIR text -> a small frozen tree of operations, independent of Triton and of xDSL.

MLIR prints an operation in a line of its own, but for the regions in it:

    %0:2 = "scf.if"(%cond) <{properties}> ({
      ...
    }, {
    ^bb0(%x: f32 loc("x"(#loc1))):
      ...
    }) {attributes} : (i1) -> (f32, f32) loc(#loc2)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twill.tile.mlir_attributes import Attributes, Dense, Python, ValueType, spell_constants
from twill.tile.mlir_locations import Locations
from twill.tile.program import TileType

_ALIAS = re.compile(r"\s*([#!]\w+) = (.*)")
_NAME = r"%([\w$.-]+)"
_OPERATION = re.compile(r'\s*(?:(%[^="]*?) = )?"([^"]*)"\(([^)]*)\)(?:\[([^\]]*)\])?')
_RESULT = re.compile(_NAME + r"(?::(\d+))?")
_OPERAND = re.compile(_NAME + r"(?:#(\d+))?")
_BLOCK = re.compile(r"\s*(\^[\w$.-]+)(?:\((.*)\))?:(?: *//.*)?$", re.MULTILINE)
_ARGUMENT = re.compile(rf"(?:^|, ){_NAME}: ")
_SUCCESSOR = re.compile(r"\^[\w$.-]+")
_END = re.compile(r"\s*\}")


@dataclass(frozen=True)
class RawValue:
    """An SSA value with the line and the Python variable it was made for (0 and "" if unknown).

    unsigned: it is a descriptor of unsigned integers.
    """

    id: int
    type: TileType
    line: int
    name: str
    unsigned: bool = False


@dataclass(frozen=True)
class RawOp:
    """One operation. line and name as of the innermost frame in the kernel's own file. successors: of a branch, the
    blocks that it leads to, by their number in the region."""

    name: str  # "arith.addf", "tt.load"
    operands: tuple[int, ...]
    results: tuple[RawValue, ...]
    attributes: Mapping[str, Python]
    regions: tuple[tuple[RawBlock, ...], ...]
    line: int
    variable: str
    successors: tuple[int, ...] = ()


@dataclass(frozen=True)
class RawBlock:
    """A block: its arguments, and its operations with the terminator last."""

    arguments: tuple[RawValue, ...]
    operations: tuple[RawOp, ...]


def every(blocks: Sequence[RawBlock]) -> Iterator[RawOp]:
    """Every operation of some blocks, one before those in its regions."""
    for op in (op for block in blocks for op in block.operations):
        yield op
        for region in op.regions:
            yield from every(region)


def parse(text: str, file: str) -> RawOp:
    """The module's operation tree. `file`: the absolute path whose lines locations are wanted for."""
    return _Reader(spell_constants(text), file).module()


class _Reader:
    """Reads one module. SSA values are numbered in the order of their definition."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.at = 0
        aliases = self.aliases()
        places = {name: value[len("loc(") : -1] for name, value in aliases.items() if value.startswith("loc(")}
        self.locations = Locations(places, file)
        self.attributes = Attributes({name: value for name, value in aliases.items() if name not in places})
        self.values: dict[str, int] = {}  # name -> number, in the present region and those around it
        self.count = 0

    def aliases(self) -> dict[str, str]:
        """The definitions that a module begins with: "#loc1" -> `loc("x"(#loc))`."""
        found: dict[str, str] = {}
        while alias := _ALIAS.match(self.text, self.at):
            found[alias[1]] = alias[2].rstrip()
            self.at = alias.end()
        return found

    def module(self) -> RawOp:
        operation, _ = self.operation()
        return operation

    def operation(self) -> tuple[RawOp, tuple[str, ...]]:
        """The next operation, and the labels of its successors."""
        head = _OPERATION.match(self.text, self.at)
        if head is None:
            raise ValueError(f"no operation in MLIR: {self.text[self.at :].lstrip().partition(chr(10))[0]}")
        names, name, operands, successors = head.groups(default="")
        self.at = head.end()
        rest = self.line()
        regions: tuple[tuple[RawBlock, ...], ...] = ()
        if rest.endswith("({"):
            regions = self.regions()
            rest = f"{rest[:-2]} {self.line()}"
        signature, location = _located(rest.strip())
        known = self.attributes.signature(signature)
        line, variable = self.locations.locate(location)
        used = tuple(self.values[one[1]] + int(one[2] or 0) for one in _OPERAND.finditer(operands))
        results = tuple(self.value(kind, line, variable) for kind in known.results)
        self.bind(names, results)
        labels = tuple(_SUCCESSOR.findall(successors))
        return RawOp(name, used, results, known.attributes, regions, line, variable), labels

    def line(self) -> str:
        """What is left of the present line, which is read with it."""
        begin, end = self.at, self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end
        return self.text[begin : self.at].rstrip()

    def regions(self) -> tuple[tuple[RawBlock, ...], ...]:
        """The regions of an operation up to the parenthesis that ends them; the first one's brace is read."""
        found = [self.region()]
        while self.text.startswith(", {", self.at):
            self.at += len(", {")
            found.append(self.region())
        self.at += len(")")
        return tuple(found)

    def region(self) -> tuple[RawBlock, ...]:
        """The blocks up to the brace that ends a region. Names that are defined in it mean nothing behind it."""
        outside = dict(self.values)
        labels: dict[str, int] = {}
        blocks: list[tuple[RawBlock, tuple[str, ...]]] = []
        while not (end := _END.match(self.text, self.at)):
            label = _BLOCK.match(self.text, self.at)
            arguments: tuple[RawValue, ...] = ()
            if label:
                self.at = label.end()
                labels[label[1]] = len(blocks)
                arguments = self.arguments(label[2] or "")
            blocks.append(self.block(arguments))
        self.at = end.end()
        self.values = outside
        return tuple(_leading_to(block, tuple(labels[name] for name in names)) for block, names in blocks)

    def arguments(self, text: str) -> tuple[RawValue, ...]:
        """Of `%x: f32 loc("x"(#loc1)), %y: i32`."""
        _, *pieces = _ARGUMENT.split(text)
        found: list[RawValue] = []
        for name, piece in zip(pieces[::2], pieces[1::2], strict=True):
            kind, location = _located(piece)
            found.append(self.value(self.attributes.type(kind), *self.locations.locate(location)))
            self.values[name] = found[-1].id
        return tuple(found)

    def block(self, arguments: tuple[RawValue, ...]) -> tuple[RawBlock, tuple[str, ...]]:
        """The operations up to the next label or brace, and the labels of its terminator's successors."""
        operations: list[RawOp] = []
        names: tuple[str, ...] = ()
        while not (_END.match(self.text, self.at) or _BLOCK.match(self.text, self.at)):
            operation, names = self.operation()
            operations.append(operation)
        return RawBlock(arguments, tuple(operations)), names

    def value(self, known: ValueType, line: int, name: str) -> RawValue:
        """A new value."""
        self.count += 1
        return RawValue(self.count - 1, known.type, line, name, known.unsigned)

    def bind(self, names: str, results: tuple[RawValue, ...]) -> None:
        """The names of an operation's results, `%a, %b:2`, mean them from here on."""
        number = 0
        for one in _RESULT.finditer(names):
            self.values[one[1]] = results[number].id
            number += int(one[2] or 1)


def _located(text: str) -> tuple[str, str]:
    """A text without its location, and what stands in `loc(...)`, "" if there is none."""
    before, found, location = text.rpartition(" loc(")
    return (before, location[:-1]) if found else (text, "")


def _leading_to(block: RawBlock, successors: tuple[int, ...]) -> RawBlock:
    if not successors:
        return block
    *others, last = block.operations
    return replace(block, operations=(*others, replace(last, successors=successors)))


__all__ = ["Dense", "Python", "RawBlock", "RawOp", "RawValue", "parse"]
