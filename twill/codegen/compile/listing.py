"""A function's instructions, SASS or PTX, with the emitted lines they come from and the loops around them.

Both forms are read into one `Listing`, so that whatever is counted can be counted without a disassembler, on PTX.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from twill.codegen.compile.flow_loops import natural_loops
from twill.codegen.print.cuda import compiled
from twill.codegen.print.kernel_lines import SourceLine


@dataclass(frozen=True)
class ListedInstruction:
    """One instruction. text_line: its line in the listing's text. jump: index of the entry that it branches to, -1 if
    none. falls_through: whether the next entry may follow."""

    opcode: str
    place: SourceLine | None
    text_line: int
    jump: int = -1
    falls_through: bool = True


@dataclass(frozen=True)
class ListedLoop:
    """A natural loop. header: index of the entry where it is entered. entries: indices of all its entries."""

    header: int
    entries: frozenset[int]


@dataclass(frozen=True)
class Listing:
    """The entries of one function in order."""

    function: str
    entries: tuple[ListedInstruction, ...]

    def loops(self) -> tuple[ListedLoop, ...]:
        """Its natural loops, by their place in the text. (A wait that spins out of line is no loop around the rest.)"""
        successors = [
            [i + 1] * (e.falls_through and i + 1 < len(self.entries)) + [e.jump] * (e.jump >= 0)
            for i, e in enumerate(self.entries)
        ]
        return tuple(ListedLoop(header, frozenset(body)) for header, body in sorted(natural_loops(successors).items()))

    def mmas(self, loop: ListedLoop | None = None) -> Counter[str]:
        """How many multiplies of each shape, such as "m64n128k16", lie in a loop or in the whole function."""
        chosen = self.entries if loop is None else [self.entries[i] for i in sorted(loop.entries)]
        return Counter(shape for entry in chosen if (shape := mma_shape(entry)))

    def first_place(self, opcodes: re.Pattern[str]) -> SourceLine | None:
        """Where the first instruction comes from whose opcode matches."""
        return next((e.place for e in self.entries if e.place and opcodes.match(e.opcode)), None)

    def most_frequent_place(self, opcodes: re.Pattern[str]) -> SourceLine | None:
        """Where most of the instructions come from whose opcode matches; the first such place of equal ones."""
        places = Counter(e.place for e in self.entries if e.place and opcodes.match(e.opcode))
        return max(places, key=lambda place: places[place], default=None)


def mma_shape(entry: ListedInstruction) -> str:
    """The shape of a multiply, "" for any other instruction."""
    if found := compiled.SASS_SHAPE.match(entry.opcode):
        return "m{}n{}k{}".format(*found.groups())
    found = compiled.PTX_SHAPE.match(entry.opcode)
    return found.group(1) if found else ""


# ---------------------------------------------------------------- SASS

_SECTION = re.compile(r"\s*\.section\s+\.text\.([\w$.]+)")
_SASS_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_SASS_ENTRY = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)\s*([^;]*);")
_SASS_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_SASS_BRANCH = re.compile(r"(?:BRA|JMP)\b")
_SASS_ENDS = re.compile(r"(?:EXIT|RET|BRX|JMX)\b")
_SASS_TARGET = re.compile(r"(.*)`\((\.L_x_\d+)\)")


def read_sass(text: str) -> tuple[Listing, ...]:
    """Functions of a disassembly (`nvdisasm -c -gi`). Of inlined code the place is that of the outermost call."""
    return tuple(_resolved(name, raw) for name, raw in _split(_sass_events(text)).items())


def _sass_events(text: str) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if found := _SECTION.match(line):
            yield "function", number, (found.group(1),)
        elif found := _SASS_LINE.match(line):
            yield "place", number, found.groups()  # inner frames first, the outermost last
        elif found := _SASS_LABEL.match(line):
            yield "label", number, (found.group(1),)
        elif found := _SASS_ENTRY.match(line):
            predicate, opcode, operands = found.groups()
            branch = _SASS_TARGET.match(operands) if _SASS_BRANCH.match(opcode) else None
            always = not predicate and not (branch and branch.group(1).strip())  # as in BRA P6, `(target)
            stops = always and bool(branch or _SASS_ENDS.match(opcode))
            yield "entry", number, (opcode, branch.group(2) if branch else "", "stops" * stops)


# ---------------------------------------------------------------- PTX

_ENTRY = re.compile(r"\s*(?:\.visible\s+|\.weak\s+)?\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)")
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)(?:.*inlined_at\s+(\d+)\s+(\d+))?")
_PTX_LABEL = re.compile(r"\s*([$\w]+):\s*$")
_PTX_ENTRY = re.compile(r"\s*(@!?%?\w+\s+)?([a-z][\w.:]*)(?:\s+[^;]*)?;")
_PTX_BRANCH = re.compile(r"\s*(?:@!?%?\w+\s+)?bra(?:\.uni)?\s+([$\w]+);")
_PTX_STOPS = re.compile(r"(?:bra|brx|ret|exit)\b")
_NO_INSTRUCTION = frozenset({"", "//", "{", "}", ")"})  # what other lines begin with


def read_ptx(text: str) -> tuple[Listing, ...]:
    """Functions of a PTX text compiled with line information."""
    return tuple(_resolved(name, raw) for name, raw in _split(_ptx_events(text)).items())


def _ptx_events(text: str) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    names = {number: name for number, name in re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.MULTILINE)}
    labels = _scoped_labels(text)
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line.startswith("."):
            if found := _LOC.match(line):
                file, at = (found.group(3), found.group(4)) if found.group(3) else (found.group(1), found.group(2))
                if at != "0":  # the compiler's own code
                    yield "place", number, (names.get(file, ""), at)
            elif found := _ENTRY.match(line):
                yield "function", number, (found.group(1),)
        elif line.endswith(":") and _PTX_LABEL.match(line):
            yield "label", number, (labels[number],)
        elif line[:2] not in _NO_INSTRUCTION and (found := _PTX_ENTRY.match(line)):
            predicate, opcode = found.groups()
            stops = not predicate and bool(_PTX_STOPS.match(opcode))
            yield "entry", number, (opcode, labels.get(number, ""), "stops" * stops)


def _scoped_labels(text: str) -> dict[int, str]:
    """Line -> the label that it defines or branches to, made unique: braces of inline PTX are scopes of their own."""
    scopes: list[int] = []
    branches: list[tuple[int, str, tuple[int, ...]]] = []
    defined: dict[tuple[str, int], str] = {}
    out: dict[int, str] = {}
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line.startswith("{") and "}" not in line:
            scopes.append(number)
        elif line.startswith("}") and scopes:
            scopes.pop()
        if line.endswith(":") and (found := _PTX_LABEL.match(line)):
            out[number] = defined[found.group(1), scopes[-1] if scopes else 0] = f"{found.group(1)}@{number}"
        elif "bra" in line and (found := _PTX_BRANCH.match(line)):
            branches.append((number, found.group(1), tuple(reversed(scopes))))
    for number, target, inside in branches:
        known = (defined.get((target, scope)) for scope in inside)
        out[number] = next((label for label in known if label), "")
    return out


# ---------------------------------------------------------------- both


@dataclass
class _Raw:
    """A function being read: of each entry opcode, place, line, the label that it jumps to, and whether the next one
    may follow; and where labels point."""

    entries: list[tuple[str, SourceLine | None, int, str, bool]]
    labels: dict[str, int]


def _split(events: Iterator[tuple[str, int, tuple[str, ...]]]) -> dict[str, _Raw]:
    """The events, function by function."""
    functions: dict[str, _Raw] = {}
    current: _Raw | None = None
    place: SourceLine | None = None
    for kind, number, values in events:
        if kind == "function":
            current, place = functions.setdefault(values[0], _Raw([], {})), None
        elif current is None:
            continue
        elif kind == "place":
            place = SourceLine(values[0], int(values[1]))
        elif kind == "label":
            current.labels[values[0]] = len(current.entries)
        else:
            current.entries.append((values[0], place, number, values[1], not values[2]))
    return functions


def _resolved(name: str, raw: _Raw) -> Listing:
    """Labels replaced by the entries they stand before."""
    entries = (
        ListedInstruction(opcode, place, line, raw.labels.get(label, -1), follows)
        for opcode, place, line, label, follows in raw.entries
    )
    return Listing(name, tuple(entries))
