"""Names and scalar expressions in a warp program's text, written and read back.

Things are called by name where the name is the only one of its kind, else by name and id: `acc`, `acc#7`, `#7`. Names
that are no words stand in quotes.

Expressions::

    Expr  ::= number | "$" argument | local | "%" fragment | program_id "(" axis ")" | num_programs "(" axis ")"
            | cta "(" ")" | ctas "(" ")" | rank "(" ")"
            | "(" Expr sign Expr ")" | "(" Expr ")" | kind "(" (Expr | attribute "=" value)* ")"
            | lookup "(" argument "," Expr ("," Expr)? "," pad "=" number ")"
    any of them with (":" element)? behind it

The element is written where it is not the usual one: i32 of integers, f32 of other numbers, that of the argument or
the fragment, i1 of comparisons, that of the first operand (of a `select`, the second). Between signs stand operations
with the attributes that they have on signed integers (`_SIGNED`).

Unsigned arithmetic of the tile scheduler (`twill.codegen.warp.expression.is_unsigned`) is written in the same way where
it is expected (`write_count`): u32 is then the usual element of integers and names, operations are those of unsigned
numbers, and any other expression stands in brackets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from twill.codegen.warp.expression import (
    Apply,
    CtaNumber,
    Element,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    ProgramId,
    Symbol,
    is_unsigned,
)
from twill.codegen.warp.tokens import Reader, quoted
from twill.tile.program import TileProgram

_Attributes = tuple[tuple[str, Any], ...]


def _signs(signed: int) -> dict[str, tuple[str, _Attributes]]:
    """What stands between operands, as kind and attributes."""
    how = ("signed", signed)
    comparisons = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
    return {
        "+": ("add", ()), "-": ("sub", ()), "*": ("mul", ()), "/": ("div", (how,)), "%": ("rem", (how,)),
        **{sign: ("compare", (("predicate", predicate), how)) for sign, predicate in comparisons.items()},
    }  # fmt: skip


_SIGNED, _UNSIGNED = _signs(1), _signs(0)
_SIGN_OF = {counts: {meaning: sign for sign, meaning in table.items()}
            for counts, table in ((False, _SIGNED), (True, _UNSIGNED))}  # fmt: skip
_LEAST_OR_MOST: dict[str, _Attributes] = {"min": (("signed", 0),), "max": (("signed", 0),)}  # of unsigned numbers
_CTA = ("cta", "ctas", "rank")
_GRID: dict[str, type[ProgramId | NumPrograms]] = {"program_id": ProgramId, "num_programs": NumPrograms}


# ---------------------------------------------------------------- names
@dataclass(frozen=True)
class SymbolTable:
    """The names of one kind of thing. what: for people. elements: of fragments."""

    what: str
    names: Mapping[int, str]
    elements: Mapping[int, str]

    def write(self, number: int) -> str:
        """What it is called. KeyError if there is none of that id."""
        name = self.names[number]
        alone = name and list(self.names.values()).count(name) == 1
        return (quoted(name) if name else "") + ("" if alone else f"#{number}")

    def read(self, r: Reader) -> int:
        """The id of what is called so. Raises Mismatch."""
        at = r.at
        name, number = read_name(r)
        found = [key for key, known in self.names.items() if known == name and number in (None, key)]
        if len(found) == 1:
            return found[0]
        r.at = at
        r.fail(f"{self.what} ({', '.join(map(self.write, self.names)) or 'there is none'})")


def read_name(r: Reader) -> tuple[str, int | None]:
    """A name and the id behind it; either may be missing."""
    name = read_word(r) if r.peek().kind in ("word", "string") else ""
    if r.peek().kind == "id":
        return name, int(r.take("id", "")[1:])
    if not name:
        r.fail("a name")
    return name, None


def read_word(r: Reader) -> str:
    """A word, or anything in quotes."""
    if r.peek().kind == "string":
        try:
            return str(json.loads(r.peek().text))
        except ValueError:
            r.fail("a string that JSON allows")
        finally:
            r.at += 1
    return r.take("word", "a word")


@dataclass(frozen=True)
class ScalarNames:
    """All that statements refer to, and the tile program whose arguments stand in expressions."""

    program: TileProgram
    map: SymbolTable
    buffer: SymbolTable
    aref: SymbolTable
    barrier: SymbolTable
    group: SymbolTable
    fragment: SymbolTable
    cursor: SymbolTable
    counts: bool = False  # whether unsigned arithmetic is expected

    @cached_property
    def unsigned(self) -> ScalarNames:
        """The same where unsigned arithmetic is expected."""
        return replace(self, counts=True)

    @cached_property
    def ordinary(self) -> ScalarNames:
        """The same where it is not."""
        return replace(self, counts=False)


def table(what: str, entries: Iterable[tuple[int, str]], elements: Mapping[int, str] | None = None) -> SymbolTable:
    """A table of names."""
    return SymbolTable(what, dict(entries), elements or {})


# ---------------------------------------------------------------- scalars
def read_number(r: Reader) -> int | float:
    """An integer, or a float if it has a point, an exponent, or is inf or nan."""
    text = r.take("number", "a number")
    return int(text) if text.lstrip("-").isdigit() else float(text)


def read_int(r: Reader) -> int:
    """An integer."""
    text = r.peek().text
    if not text.lstrip("-").isdigit():
        r.fail("an integer")
    return int(r.take("number", "an integer"))


def usual(expr: Expr, names: ScalarNames) -> str:
    """The element that an expression has unless its text says otherwise."""
    match expr:
        case Number(value):
            return ("u32" if names.counts else "i32") if isinstance(value, int) else "f32"
        case CtaNumber():
            return "u32"
        case Symbol(_, name):
            return next((a.type.element for a in names.program.arguments if a.name == name), "i32")
        case Element(fragment):
            return names.fragment.elements.get(fragment, "f32")
        case Apply("compare"):
            return "i1"
        case Apply(kind, operands) if operands:
            return operands[1 if kind == "select" and len(operands) > 1 else 0].element
    return "u32" if names.counts else "i32"


def write_count(expr: Expr, names: ScalarNames) -> str:
    """An expression where unsigned arithmetic is expected."""
    return write_expr(expr, names.unsigned) if is_unsigned(expr) else f"[{write_expr(expr, names.ordinary)}]"


def read_count(r: Reader, names: ScalarNames) -> Expr:
    """The same, read. Raises Mismatch."""
    if not r.accept("["):
        return read_expr(r, names.unsigned)
    made = read_expr(r, names.ordinary)
    r.expect("]")
    return made


def write_expr(expr: Expr, names: ScalarNames) -> str:
    """A scalar expression."""
    suffix = "" if expr.element == usual(expr, names) else f":{expr.element}"
    return _bare(expr, names) + suffix


def _bare(expr: Expr, names: ScalarNames) -> str:
    match expr:
        case Number(value):
            return write_value(value)
        case Symbol(value, name):
            known = any(a.name == name and a.value == value for a in names.program.arguments)
            return f"${quoted(name)}" + ("" if known else f"#{value}")
        case ProgramId(axis):
            return f"program_id({axis})"
        case NumPrograms(axis):
            return f"num_programs({axis})"
        case Local(name):
            return quoted(name)
        case CtaNumber(of):
            return f"{of}()"
        case Element(fragment):
            return f"%{names.fragment.write(fragment)}"
        case Apply(kind, operands, _, attributes):
            one = write_count if names.counts else write_expr
            written = [one(operand, names) for operand in operands]
            sign = _SIGN_OF[names.counts].get((kind, attributes))
            if names.counts and attributes == _LEAST_OR_MOST.get(kind):
                attributes = ()
            if sign and len(written) == 2:
                return f"({written[0]} {sign} {written[1]})"
            return f"{kind}({', '.join((*written, *(f'{name}={write_value(value)}' for name, value in attributes)))})"
        case Lookup(argument, index, _, condition, pad):
            when = [write_expr(condition, names)] if condition is not None else []
            return (
                f"lookup({', '.join((quoted(argument), write_expr(index, names), *when, f'pad={write_value(pad)}'))})"
            )
    raise TypeError(f"{expr} is in no warp program")


def read_expr(r: Reader, names: ScalarNames) -> Expr:
    """A scalar expression. Raises Mismatch."""
    if names.counts and r.peek().text == "[":
        return read_count(r, names)
    made = _read_bare(r, names)
    if r.accept(":"):
        return replace(made, element=read_word(r))
    return made if made.element else replace(made, element=usual(made, names))


def _read_bare(r: Reader, names: ScalarNames) -> Expr:
    """An expression in front of its element, which is "" unless it stood in parentheses of its own."""
    token = r.peek()
    if token.kind == "number":
        return Number(read_number(r), "")
    if r.accept("$"):
        return _read_symbol(r, names)
    if r.accept("%"):
        return Element(names.fragment.read(r), "")
    if r.accept("("):
        return _read_binary(r, names)
    if token.kind == "string" or r.peek(1).text != "(":
        if token.kind not in ("string", "word"):
            r.fail("an expression")
        return Local(read_word(r), "")
    kind = read_word(r)
    r.expect("(")
    if kind in _GRID:
        axis = read_int(r)
        r.expect(")")
        return _GRID[kind](axis, "")
    if kind in _CTA and r.accept(")"):
        return CtaNumber(kind, "")
    return _read_lookup(r, names) if kind == "lookup" else _read_call(kind, r, names)


def _read_symbol(r: Reader, names: ScalarNames) -> Expr:
    at = r.at
    name, number = read_name(r)
    known = [argument for argument in names.program.arguments if argument.name == name]
    if number is None and not known:
        r.at = at
        r.fail("an argument of the kernel")
    return Symbol(known[0].value if number is None else number, name, "")


def _read_binary(r: Reader, names: ScalarNames) -> Expr:
    left = read_expr(r, names)
    sign = r.peek().text
    if sign not in _SIGNED:
        if not r.accept(")"):
            r.fail("an operator or `)`")
        return left
    r.expect(sign)
    right = read_expr(r, names)
    r.expect(")")
    kind, attributes = (_UNSIGNED if names.counts else _SIGNED)[sign]
    return Apply(kind, (left, right), "", attributes)


def _read_lookup(r: Reader, names: ScalarNames) -> Expr:
    argument = read_word(r)
    r.expect(",")
    index = read_expr(r, names)
    r.expect(",")
    condition = None
    if not (r.peek().text == "pad" and r.peek(1).text == "="):
        condition = read_expr(r, names)
        r.expect(",")
    r.expect("pad")
    r.expect("=")
    pad = read_number(r)
    r.expect(")")
    return Lookup(argument, index, "", condition, pad)


def _read_call(kind: str, r: Reader, names: ScalarNames) -> Expr:
    operands: list[Expr] = []
    attributes: list[tuple[str, Any]] = []
    while not r.accept(")"):
        if (operands or attributes) and not r.accept(","):
            r.fail("`,` or `)`")
        if r.peek().kind == "word" and r.peek(1).text == "=":
            attributes.append(read_attribute(r))
        else:
            operands.append(read_expr(r, names))
    implied = _LEAST_OR_MOST.get(kind, ()) if names.counts and not attributes else ()
    return Apply(kind, tuple(operands), "", (*attributes, *implied))


# ---------------------------------------------------------------- attributes
def write_value(value: object) -> str:
    """The value of an attribute, or a number."""
    if isinstance(value, tuple):
        return f"({', '.join(map(write_value, value))})"
    if isinstance(value, str):
        return quoted(value)
    return repr(int(value) if isinstance(value, bool) else value)


def read_attribute(r: Reader) -> tuple[str, Any]:
    """`name=value`."""
    name = read_word(r)
    r.expect("=")
    if r.accept("("):
        return name, tuple(read_list(r, read_int, ")"))
    return name, read_number(r) if r.peek().kind == "number" else read_word(r)


def read_list(r: Reader, read: Callable[[Reader], Any], end: str) -> list[Any]:
    """What stands in front of `end`, with commas between."""
    found: list[Any] = []
    while not r.accept(end):
        if found and not r.accept(","):
            r.fail(f"`,` or `{end}`")
        found.append(read(r))
    return found
