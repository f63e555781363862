"""Warp groups that do the same at another place, brought together: each section of a kernel is printed once.

Row blocks of one schedule give warp groups whose streams are equal but for numbers: rows that they start at, buffers,
rings and named barriers of their own. A `Section` is the stream of the first of them, with what differs as one entry
for each group. `sections` looks for them and believes nothing of what it finds: a section counts only if `expand` makes
every one of its warp groups from it, statement by statement, as the program has them. So whatever was shown of the
warp program (`twill.codegen.verify.abstract_machine`) holds for the sections.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from twill.codegen.warp.expression import (
    Apply,
    CtaNumber,
    Element,
    Expr,
    Local,
    Number,
    NumPrograms,
    PerGroup,
    ProgramId,
    Symbol,
    add,
)
from twill.codegen.warp.program import Arrive, If, Range, Stmt, Sync, WarpGroup, WarpProgram

_EXPRESSIONS = (Number, Symbol, ProgramId, NumPrograms, Local, CtaNumber, Element, Apply, PerGroup)
_NUMBERED = {
    "accumulator": "fragment", "result": "fragment", "operand": "fragment", "source": "fragment", "mask": "fragment",
    "fragment": "fragment", "fragments": "fragment", "ready": "fragment", "a": "fragment", "cursor": "cursor",
    "operands": "fragment", "index": "fragment",
    "buffer": "buffer", "scratch": "buffer", "barrier": "barrier",
}  # fmt: skip
"""Fields of statements that hold an id where they hold an integer, and of what."""

Ids = dict[int, tuple[int, ...]]
"""An id of the first group -> the id that each group has in its place."""
_PARTS = ("start", "next", "body", "skip", "finish")


@dataclass(frozen=True)
class Section:
    """Warp groups that are printed once. groups: their ids, one after the other. stream: what each of them does, with
    the ids of the first; a `PerGroup` where a number differs, and an If on one around what only some do. The rest: ids
    of the first -> of each."""

    groups: tuple[int, ...]
    stream: WarpGroup
    fragments: Ids = field(default_factory=dict)
    cursors: Ids = field(default_factory=dict)
    buffers: Ids = field(default_factory=dict)
    arefs: Ids = field(default_factory=dict)
    barriers: Ids = field(default_factory=dict)

    def ids(self, kind: str) -> Ids:
        """Those of a kind: "fragment", "cursor", "buffer", "barrier"."""
        return dict(zip(("fragment", "cursor", "buffer", "aref", "barrier"), self.tables(), strict=True))[kind]

    def tables(self) -> tuple[Ids, ...]:
        """All of them."""
        return self.fragments, self.cursors, self.buffers, self.arefs, self.barriers


def sections(program: WarpProgram) -> tuple[Section, ...]:
    """All warp groups of a program in its order, in as few sections as there can be."""
    made: list[Section] = []
    for group in program.groups:
        if made and (both := together(program, (*made[-1].groups, group.id))):
            made[-1] = both
        else:
            made.append(Section((group.id,), group))
    return tuple(made)


def together(program: WarpProgram, groups: tuple[int, ...]) -> Section | None:
    """The groups as one section; None if they are not alike."""
    members = tuple(program.groups[number] for number in groups)
    if len({(m.threads, m.registers, m.issuer, m.share[1], m.loop) for m in members}) > 1 or members[0].issuer:
        return None
    try:
        section = _Merge(program, members).section()
    except _Differ:
        return None
    return section if all(is_expansion(section, place, member) for place, member in enumerate(members)) else None


# ---------------------------------------------------------------- one section -> its warp groups
def is_expansion(section: Section, place: int, group: WarpGroup) -> bool:
    """Whether the section says of its warp group at a place what that one is: everything but names and notes."""
    made = expand(section, place)
    mine = {f.id: (f.element, f.layout) for f in group.fragments}, {c.id: c.aref for c in group.cursors}
    fragments = all(mine[0].get(f.id) == (f.element, f.layout) for f in made.fragments)
    cursors = all(mine[1].get(c.id) == c.aref for c in made.cursors)
    distinct = all(len({ids[place] for ids in kind.values()}) == len(kind) for kind in section.tables())
    same = all(_bare(getattr(made, part)) == _bare(getattr(group, part)) for part in _PARTS)
    return fragments and cursors and distinct and same


def expand(section: Section, place: int) -> WarpGroup:
    """The warp group at a place of the section, with its own ids."""
    stream = section.stream
    parts: dict[str, Any] = {name: tuple(_stmts(getattr(stream, name), section, place)) for name in _PARTS}
    return replace(
        stream,
        id=section.groups[place],
        fragments=tuple(replace(f, id=section.fragments[f.id][place]) for f in stream.fragments),
        cursors=tuple(
            replace(c, id=section.cursors[c.id][place], aref=section.arefs[c.aref][place]) for c in stream.cursors
        ),
        **parts,
    )


def _stmts(stmts: tuple[Stmt, ...], section: Section, place: int) -> Iterator[Stmt]:
    for stmt in stmts:
        if isinstance(stmt, If) and isinstance(stmt.condition, PerGroup):
            yield from _stmts(stmt.body, section, place) if stmt.condition.values[place] else ()
        else:
            yield _expanded(stmt, section, place)


def _expanded(thing: Any, section: Section, place: int) -> Any:
    match thing:
        case PerGroup(values, element):
            return Number(values[place], element)
        case Apply("add", (left, PerGroup(values, element)), _):
            return add(_expanded(left, section, place), Number(values[place], element))
        case Range(result, PerGroup(values)):
            return replace(thing, result=section.fragments[result][place], start=int(values[place]))
        case tuple() if all(isinstance(item, Stmt) for item in thing):
            return tuple(_stmts(thing, section, place))
        case tuple():
            return tuple(_expanded(item, section, place) for item in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    changed: dict[str, Any] = {}
    for entry in fields(thing):
        value, kind = getattr(thing, entry.name), _NUMBERED.get(entry.name, "")
        if kind and _is_id(value):
            changed[entry.name] = section.ids(kind)[value][place]
        elif kind and _are_ids(value):
            changed[entry.name] = tuple(section.ids(kind)[number][place] for number in value)
        else:
            changed[entry.name] = _expanded(value, section, place)
    return replace(thing, **changed)


def _is_id(value: object) -> bool:
    """An integer that is no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def _are_ids(value: object) -> bool:
    return isinstance(value, tuple) and all(map(_is_id, value))


def _bare(thing: Any) -> Any:
    """Without what is for people."""
    if isinstance(thing, tuple):
        return tuple(_bare(item) for item in thing)
    if not is_dataclass(thing):
        return thing
    return type(thing).__name__, *((f.name, _bare(getattr(thing, f.name))) for f in fields(thing) if f.name != "note")


# ---------------------------------------------------------------- warp groups -> one section
class _Differ(Exception):  # noqa: N818 - no error: the groups are printed one by one
    """The groups are not alike."""


class _Merge:
    """Goes through the streams of several warp groups at once."""

    def __init__(self, program: WarpProgram, members: Sequence[WarpGroup]) -> None:
        self.program, self.members = program, members
        self.tables: dict[str, Ids] = {kind: {} for kind in ("fragment", "cursor", "buffer", "aref", "barrier")}
        self.layouts = {f.id: (f.element, f.layout) for m in members for f in m.fragments}
        self.arefs = {c.id: c.aref for m in members for c in m.cursors}

    def section(self) -> Section:
        """All of it."""
        following = self.merged(tuple(m.next for m in self.members))
        body = self.merged(tuple(m.body for m in self.members))
        skip = self.merged(tuple(m.skip for m in self.members))
        start, finish = (self.ends(name) for name in ("start", "finish"))
        first, table = self.members[0], self.tables
        stream = replace(
            first,
            role=", ".join(m.role for m in self.members),
            start=start,
            next=following,
            body=body,
            skip=skip,
            finish=finish,
            fragments=tuple(
                replace(f, name=self.common(table["fragment"][f.id], "fragments"))
                for f in first.fragments
                if f.id in table["fragment"]
            ),
            cursors=tuple(
                replace(c, name=self.common(table["cursor"][c.id], "cursors"))
                for c in first.cursors
                if c.id in table["cursor"]
            ),
        )
        return Section(
            tuple(m.id for m in self.members), stream, table["fragment"], table["cursor"], table["buffer"],
            table["aref"], table["barrier"],
        )  # fmt: skip

    def common(self, ids: tuple[int, ...], what: str) -> str:
        """The name of a fragment or cursor without the number by which those of the groups differ."""
        names = [
            next(one.name for one in getattr(m, what) if one.id == i) for m, i in zip(self.members, ids, strict=True)
        ]
        return common_name(names)

    def bind(self, kind: str, ids: tuple[int, ...]) -> int:
        """These are the same thing, each of its group; the first of them."""
        known = self.tables[kind].setdefault(ids[0], ids)
        if known != ids:
            raise _Differ
        if kind == "fragment" and len({self.layouts[number] for number in ids}) > 1:
            raise _Differ
        if kind == "cursor":
            self.bind("aref", tuple(self.arefs[number] for number in ids))
        if kind in ("buffer", "aref", "barrier") and len({self.shape(kind, number) for number in ids}) > 1:
            raise _Differ
        return ids[0]

    def shape(self, kind: str, number: int) -> Hashable:
        """What the text of a statement says of a buffer, ring or barrier besides where it is."""
        match kind:
            case "buffer":
                return replace(self.program.buffers[number], id=0, name="", offset=0)
            case "aref":
                ring = self.program.arefs[number]
                return ring.depth, ring.transport, ring.shared
        return self.program.barriers[number].threads

    def ends(self, name: str) -> tuple[Stmt, ...]:
        """Starts or finishes: what some groups do before that which all of them do is under a guard."""
        parts: list[tuple[Stmt, ...]] = [getattr(m, name) for m in self.members]
        alike = 0
        while all(len(p) > alike for p in parts) and len({type(p[-1 - alike]) for p in parts}) == 1:
            alike += 1
        made: list[Stmt] = []
        for place, part in enumerate(parts):
            own = part[: len(part) - alike]
            if own:
                only = PerGroup(tuple(int(other == place) for other in range(len(parts))), "i1")
                made.append(If(only, tuple(self.as_first(stmt, place) for stmt in own)))
        return (*made, *self.merged(tuple(part[len(part) - alike :] for part in parts)))

    def as_first(self, stmt: Stmt, place: int) -> Stmt:
        """A statement that one group alone does, with the ids that the first has in its place."""
        if not isinstance(stmt, Sync | Arrive):
            raise _Differ
        for first, ids in self.tables["barrier"].items():
            if ids[place] == stmt.barrier:
                return replace(stmt, barrier=first)
        raise _Differ

    # ------------------------------------------------------------ things of all groups at once
    def merged(self, things: tuple[Any, ...]) -> Any:
        """One thing that stands for these."""
        first = things[0]
        if len({type(thing) for thing in things}) > 1 and not all(isinstance(t, _EXPRESSIONS) for t in things):
            raise _Differ
        if isinstance(first, _EXPRESSIONS):
            return self.expression(things)
        if isinstance(first, tuple):
            if len({len(thing) for thing in things}) > 1:
                raise _Differ
            return tuple(self.merged(items) for items in zip(*things, strict=True))
        if is_dataclass(first):
            return replace(first, **{f.name: self.value(f.name, things) for f in fields(first)})  # type: ignore[type-var]
        if any(thing != first for thing in things):
            raise _Differ
        return first

    def value(self, name: str, owners: tuple[Any, ...]) -> Any:
        """One value for a field of several things."""
        values, kind = tuple(getattr(owner, name) for owner in owners), _NUMBERED.get(name, "")
        if name == "note":
            return common_name(values)
        if isinstance(owners[0], Range) and name == "start":
            return values[0] if len(set(values)) == 1 else PerGroup(values)
        if kind and all(map(_is_id, values)):
            return self.bind(kind, values)
        if kind and all(map(_are_ids, values)) and len(set(map(len, values))) == 1:
            return tuple(self.bind(kind, ids) for ids in zip(*values, strict=True))
        return self.merged(values)

    def expression(self, things: tuple[Expr, ...]) -> Expr:
        """One expression: what differs are numbers, added or alone."""
        parts = [_split(thing) for thing in things]
        constants = tuple(number for _, number in parts)
        if all(isinstance(thing, Number) for thing in things):
            if len({(thing.element, type(thing.value)) for thing in things if isinstance(thing, Number)}) > 1:
                raise _Differ
            numbers = tuple(thing.value for thing in things if isinstance(thing, Number))
            return things[0] if len(set(numbers)) == 1 else PerGroup(numbers, things[0].element)
        if len(set(constants)) > 1:
            base = self.expression(tuple(base for base, _ in parts))
            return Apply("add", (base, PerGroup(constants, base.element)), base.element)
        if len({type(thing) for thing in things}) > 1:
            raise _Differ
        return replace(things[0], **{f.name: self.value(f.name, things) for f in fields(things[0])})


def _split(expr: Expr) -> tuple[Expr, int | float]:
    """What an integer expression adds a literal to, and the literal."""
    match expr:
        case Apply("add", (base, Number(value))) if expr.element in ("i32", "i64") and not isinstance(base, Number):
            return base, value
    return expr, 0


def common_name(names: Sequence[str]) -> str:
    """Names that differ in numbers alone without those: "acc" for "acc_0", "acc_1"; else the first."""
    parts = [re.split(r"([ _.]?\d+)", name) for name in names]
    if len({tuple(part[::2]) for part in parts}) > 1:
        return names[0]
    return "".join(words[0] for words in zip(*parts, strict=True) if len(set(words)) == 1)
