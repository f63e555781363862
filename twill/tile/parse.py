"""The tile program that a text says: `program_text(parse(text)) == text`.

Operations and loops are numbered in the order of the text; a value's line is that of the operation that makes it, and
its number is the one in the text. What a text leaves out (`original`, `regrouped`) is as in a program just written.
"""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from twill.exc import TileTextSyntax
from twill.tile.affine import Polynomial
from twill.tile.program import (
    Access,
    Argument,
    Attribute,
    Axis,
    Carry,
    Index,
    Loop,
    Op,
    Split,
    TileProgram,
    TileType,
    Value,
)
from twill.tile.scalar_region import ScalarRegion

INDENT = "  "
WALK = "walk | "
UNKNOWN = TileType((), "i32")  # of numbers that no line of the text gives to a value
NAME = r"[^\s,:*()\[\]]+"
REF = re.compile(rf"%(\d+)(?::({NAME}))?")
TYPE = re.compile(r"(?:(\d+(?:x\d+)*) )?((?:ptr:|desc:)?[a-z]\w*)")
NUMBER = re.compile(r"-?(?:inf|nan|\d+(?:\.\d*)?(?:e[+-]?\d+)?)(?![\w.])")


def parse(text: str) -> TileProgram:
    """The program of a text. Raises TileTextSyntax."""
    written = [TileTextLine(number, one) for number, one in enumerate(text.split("\n"), 1) if one.strip()]
    head, *others = written or [TileTextLine(1, "")]
    way = [one.removeprefix(WALK) for one in text.split("\n") if one.startswith(WALK)]
    others = [one for one in others if not one.text.startswith(WALK)]
    named = head.match(r"kernel (\S+) spec (\S+) file ([^\s,]+)", "`kernel NAME spec NAME file PATH`")
    strict, apart = bool(head.accept(", strict")), bool(head.accept(", no fp fusion"))
    parts = head.optional(r", (\d+) parts along axis (\d+)")
    head.finish()
    reader = TileTextReader(others)
    while (line := reader.peek()) is not None and line.accept("argument "):
        reader.argument(line)
    body = tuple(reader.block(""))
    if (line := reader.peek()) is not None:
        line.fail("an operation or a loop")
    values = tuple(
        reader.values.get(number, Value(number, UNKNOWN, "", 0)) for number in range(max(reader.values, default=-1) + 1)
    )
    return TileProgram(
        named[1], named[2], named[3], tuple(reader.arguments), values, body, fp_fusion=not apart, strict=strict,
        split=None if parts is None else Split(int(parts[2]), int(parts[1])),
        walk=parse("\n".join(way)) if way else None,
    )  # fmt: skip


@dataclass
class TileTextLine:
    """A line, and how much of it was read. at: where reading goes on, from 0. line: of the kernel, 0 without one."""

    number: int
    text: str
    at: int = 0
    line: int = 0

    def __post_init__(self) -> None:
        if remark := re.search(r"  # line (\d+)$", self.text):
            self.line, self.text = int(remark[1]), self.text[: remark.start()]
        self.at = self.indent

    @property
    def indent(self) -> int:
        """Spaces in front of it."""
        return len(self.text) - len(self.text.lstrip(" "))

    def fail(self, wanted: str) -> NoReturn:
        """Raises TileTextSyntax: here stands something else than what is wanted."""
        found = self.text[self.at :].split(" ")[0]
        here = f"`{found}`" if found else "the end of the line" if self.at >= len(self.text) else "a space"
        raise TileTextSyntax(here, (wanted,), line=self.number, column=self.at + 1)

    def optional(self, pattern: str | re.Pattern[str]) -> re.Match[str] | None:
        """What of the line the pattern matches next, if it does."""
        found = re.compile(pattern).match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def match(self, pattern: str | re.Pattern[str], wanted: str) -> re.Match[str]:
        """What of the line the pattern matches next. Raises TileTextSyntax."""
        return self.optional(pattern) or self.fail(wanted)

    def accept(self, words: str) -> bool:
        """Whether these stand next; they are then behind us."""
        return self.optional(re.escape(words)) is not None

    def expect(self, words: str) -> None:
        """These stand next. Raises TileTextSyntax."""
        self.match(re.escape(words), f"`{words.strip()}`")

    def finish(self) -> None:
        """Nothing is left. Raises TileTextSyntax."""
        if self.at < len(self.text):
            self.fail("the end of the line")

    def type(self) -> TileType:
        """`128x64 bf16`."""
        found = self.match(TYPE, "a type such as `f32` or `128x64 bf16`")
        return TileType(tuple(map(int, found[1].split("x"))) if found[1] else (), found[2])


@dataclass
class TileTextReader:
    """Walks over the lines; `values` grows with what they define."""

    lines: list[TileTextLine]
    at: int = 0
    items: int = 0
    values: dict[int, Value] = field(default_factory=dict)
    arguments: list[Argument] = field(default_factory=list)

    def peek(self) -> TileTextLine | None:
        """The next line."""
        return self.lines[self.at] if self.at < len(self.lines) else None

    def item(self) -> int:
        """The number of the next operation or loop."""
        self.items += 1
        return self.items - 1

    # -- values -------------------------------------------------------------------------------

    def new(self, line: TileTextLine) -> tuple[int, str]:
        """A value that is defined here: its number and name. Raises TileTextSyntax."""
        at = line.at
        found = line.match(REF, "a value such as `%3` or `%3:name`")
        if int(found[1]) in self.values:
            line.at = at
            line.fail("a value that is not defined yet")
        return int(found[1]), found[2] or ""

    def define(self, value: tuple[int, str], kind: TileType, line: int) -> int:
        """Its number, now that its type is known."""
        number, name = value
        self.values[number] = Value(number, kind, name, line)
        return number

    def ref(self, line: TileTextLine) -> int:
        """A value that was defined before. Raises TileTextSyntax."""
        at = line.at
        number = int(line.match(REF, "a value such as `%3` or `%3:name`")[1])
        if number not in self.values:
            line.at = at
            line.fail("a value that is defined above")
        return number

    def argument(self, line: TileTextLine) -> None:
        """`argument %3 N_CTX: i32, multiple of 16`. Raises TileTextSyntax."""
        number = int(line.match(r"%(\d+) ", "a value such as `%3`")[1])
        name = line.match(NAME, "a name")[0]
        line.expect(": ")
        kind = line.type()
        multiple = line.optional(r", multiple of (\d+)")
        positive = line.accept(", positive")
        line.finish()
        self.define((number, name), kind, 0)
        self.arguments.append(Argument(name, number, kind, int(multiple[1]) if multiple else 1, positive))
        self.at += 1

    # -- items --------------------------------------------------------------------------------

    def block(self, indent: str) -> Iterator[Op | Loop]:
        """The operations and loops that are indented so, up to the loop's `yield`s. Raises TileTextSyntax."""
        while (line := self.peek()) is not None and line.indent >= len(indent):
            if line.indent != len(indent):
                line.fail(f"an indentation of {len(indent)} spaces")
            if line.text.startswith("yield ", line.at):
                return
            self.at += 1
            yield self.loop(line, indent) if line.accept("for ") else self.op(line)

    def loop(self, line: TileTextLine, indent: str) -> Loop:
        """`for %3:i in range(%2, %1:n, %2)` and what is indented below it. Raises TileTextSyntax."""
        number, induction = self.item(), self.new(line)
        line.expect(" in range(")
        lower, upper, step = self.ref(line), self.next_ref(line), self.next_ref(line)
        line.expect(")")
        line.finish()
        self.define(induction, self.values[lower].type, line.line)
        inits = list(self.carries(line, indent + INDENT))
        body = tuple(self.block(indent + INDENT))
        carried = []
        for init, argument in inits:
            made = self.values[argument]
            below = self.peek()
            if below is None or not below.accept("yield "):
                (below or line).fail(f"`yield`: the loop carries {len(inits)} values")
            yielded = self.ref(below)
            below.expect(" -> ")
            result = self.define(self.new(below), made.type, line.line)
            below.finish()
            carried.append(Carry(made.name, init, argument, yielded, result))
            self.at += 1
        return Loop(number, induction[0], lower, upper, step, tuple(carried), body, line.line)

    def next_ref(self, line: TileTextLine) -> int:
        """A value behind a comma. Raises TileTextSyntax."""
        line.expect(", ")
        return self.ref(line)

    def carries(self, loop: TileTextLine, indent: str) -> Iterator[tuple[int, int]]:
        """`carry %4:acc from %2: 4x2 f32`: the initial value and the loop's own. Raises TileTextSyntax."""
        while (line := self.peek()) is not None and line.indent == len(indent) and line.accept("carry "):
            argument = self.new(line)
            line.expect(" from ")
            init = self.ref(line)
            line.expect(": ")
            yield init, self.define(argument, line.type(), loop.line)
            line.finish()
            self.at += 1

    def op(self, line: TileTextLine) -> Op:
        """`%6 = add %4:acc %5:x signed=1: 4x2 f32`. Raises TileTextSyntax."""
        made = []
        if line.text.startswith("%", line.at):
            made.append(self.new(line))
            while line.accept(", "):
                made.append(self.new(line))
            line.expect(" = ")
        kind = line.match(r"[a-z_]\w*", "an operation")[0]
        operands: list[int] = []
        attributes: list[tuple[str, Attribute]] = []
        while line.accept(" %"):
            line.at -= 1
            operands.append(self.ref(line))
        while found := line.optional(r' (\w+)=(\([^)]*\)|"(?:[^"\\]|\\.)*"|[^\s:]+)'):
            attributes.append((found[1], attribute(found[2])))
        results: list[int] = []
        for place, value in enumerate(made):
            line.expect(", " if place else ": ")
            results.append(self.define(value, line.type(), line.line))
        access = self.access(line) if line.accept(" at ") else None
        region = self.region(line) if line.accept(" region ") else None
        line.finish()
        name = made[0][1] if made else ""
        return Op(
            self.item(), kind, tuple(operands), tuple(results), tuple(attributes), line.line, name, access, region
        )

    def region(self, line: TileTextLine) -> ScalarRegion:
        """A loop over scalars, as tuples. Raises TileTextSyntax."""
        at = line.at
        said = line.match(r".*", "a region")[0]
        try:
            return ScalarRegion.of(literal_eval(said))
        except (ValueError, TypeError, SyntaxError):
            line.at = at
            line.fail("the tuples of a region")

    # -- accesses -----------------------------------------------------------------------------

    def access(self, line: TileTextLine) -> Access:
        """`out + 7 [4 from 4*%3:i by %1:n in ..%1:n, 2 from 0 by 1] pad 0.0 plain (why)`. Raises TileTextSyntax."""
        at = line.at
        base = line.match(NAME, "the name of an argument")[0]
        element = next((a.type.element for a in self.arguments if a.name == base), "")
        if not element:
            line.at = at
            line.fail("the name of an argument")
        constant = self.polynomial(line) if line.accept(" + ") else Polynomial()
        line.expect(" [")
        axes: list[Axis] = []
        while not line.accept("]"):
            if axes:
                line.expect(", ")
            axes.append(self.axis(line))
        indices: list[Index] = []
        while line.accept(" + index along "):
            along = line.match(r"\d+(?:, \d+)*", "the axes of an index")[0]
            line.expect(" by ")
            indices.append(Index(tuple(map(int, along.split(", "))), self.polynomial(line)))
        line.expect(" pad ")
        pad = float(line.match(NUMBER, "a number")[0])
        transport = line.match(r" (\w+)", "`tma`, `copy` or `plain`")[1]
        made = line.accept(" made")
        reason = line.optional(r" \((.*)\)$")
        why = reason[1] if reason else ""
        return Access(
            base, element.rpartition(":")[2], tuple(axes), constant, pad, transport, why, tuple(indices), made
        )

    def axis(self, line: TileTextLine) -> Axis:
        """`4 from 4*%3:i by %1:n in ..%1:n`. Raises TileTextSyntax."""
        extent = int(line.match(r"\d+", "the extent of an axis")[0])
        line.expect(" from ")
        offset = self.polynomial(line)
        line.expect(" by ")
        stride = self.polynomial(line)
        lower = upper = None
        if line.accept(" in "):
            lower = None if line.accept("..") else self.polynomial(line)
            if lower is not None:
                line.expect("..")
            upper = None if line.at >= len(line.text) or line.text[line.at] in ",]" else self.polynomial(line)
        return Axis(extent, stride, offset, lower, upper)

    def polynomial(self, line: TileTextLine) -> Polynomial:
        """`64*%3:i + %1:n - 1`. Raises TileTextSyntax."""
        negative = line.accept("-")
        total = -self.term(line) if negative else self.term(line)
        while sign := line.optional(r" ([+-]) (?!index )"):
            total += self.term(line) * (1 if sign[1] == "+" else -1)
        return total

    def term(self, line: TileTextLine) -> Polynomial:
        """A product of numbers and values. Raises TileTextSyntax."""
        made = Polynomial.constant_of(1)
        while True:
            number = line.optional(r"\d+")
            made *= int(number[0]) if number else Polynomial.symbol(self.ref(line))
            if not line.accept("*"):
                return made


def attribute(text: str) -> Attribute:
    """The value of an attribute, as Python prints it."""
    if text.startswith('"'):
        return str(json.loads(text))
    if text.startswith("("):
        return tuple(int(one) for one in text[1:-1].split(",") if one.strip())
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return float(text) if NUMBER.fullmatch(text) else text
