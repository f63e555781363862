"""What holds of every warp program, behind lowering and behind every pass: names, places, shapes of blocks, slots.

It looks at the program as it stands and knows nothing of a machine or a launch; whether a program computes the right
thing is for the abstract machine to say (`twill.codegen.verify`), which also holds operands to their layouts. The
rules:

- ids are places in their tuples, and those of fragments and cursors are unique in the program;
- what a statement names is there: fragments and cursors of its own warp group, buffers, maps, barriers, rings, and
  scalars that a `let` or a loop around it has defined in front of it;
- a slot is one of its buffer: the cursor's ring has the buffer, the rows and columns lie inside of the tile;
- a ring is no deeper than its buffers; both sides of a `%x = %y` have one element type and layout;
- a pipeline has as many blocks of prologue and of epilogue as stages, and a second steady state only behind a
  condition;
- a walk visits, and nothing else does;
- statements of the tile scheduler stand in `next`, fetching in the body, too; what `once` keeps is kept there; nothing
  multiplies in `next`;
- a warp group without a loop over its instances is stopped by `next`, and no other is;
- a launch that may begin before others have ended waits for them behind all else of `setup`, and neither that nor
  `once` looks anything up in memory;
- nothing has a note of several lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from twill import exc
from twill.codegen.warp import program as ir
from twill.codegen.warp.by_identity import by_identity
from twill.codegen.warp.expression import Element, Local
from twill.codegen.warp.forms import FORMS
from twill.codegen.warp.layout import columns_of
from twill.codegen.warp.parameters import is_of_launch, looks_up, nodes
from twill.codegen.warp.resources import Reg, SlotRef
from twill.codegen.warp.text import BLOCKS, COMMON

PLACES: dict[type[ir.Stmt], tuple[str, ...]] = {
    ir.PublishInstance: ("next",),
    ir.ReceiveInstance: ("next",),
    ir.FetchInstance: ("next", "body"),
    ir.Define: ("setup", "once", "next"),
    ir.Given: ("setup",),
    ir.Evenly: ("once",),
    ir.Keep: ("once",),
    ir.SumOver: ("setup",),
    ir.Seek: ("next",),
    ir.Recall: ("next",),
    ir.SetProgramId: ("next",),
    ir.StopUnless: ("next",),
    ir.Visit: ("walk",),
    ir.AwaitEarlierGrids: ("setup",),
    ir.Multiply: ("start", "body", "skip", "finish"),
}  # the blocks of a program or warp group where a statement may stand, if not everywhere
ELECTED = (ir.Let, ir.ScalarLoop, ir.Atomic)  # all that stands in what one thread does for all
WALKING = (ir.Let, ir.ScalarLoop, ir.Visit)  # all that stands in a walk


def refuse_ill_formed(program: ir.WarpProgram, after: str) -> None:
    """Raises IllFormedWarpProgram if a rule is broken. after: the pass that made the program."""
    found = faults(program)
    if found:
        raise exc.IllFormedWarpProgram(after, found, file=program.program.file)


def faults(program: ir.WarpProgram) -> tuple[str, ...]:
    """Every broken rule, in words; () if there is none."""
    return tuple(dict.fromkeys((*_ids(program), *_rings(program), *_groups(program))))


def _ids(program: ir.WarpProgram) -> Iterator[str]:
    places: dict[str, tuple[Any, ...]] = {
        "map": program.maps,
        "buffer": program.buffers,
        "aref": program.arefs,
        "group": program.groups,
    }
    for name, entries in places.items():
        if [entry.id for entry in entries] != list(range(len(entries))):
            yield f"ids of each {name} are not their places"
    for name in ("fragments", "cursors"):
        ids = [entry.id for group in program.groups for entry in getattr(group, name)]
        if len(set(ids)) < len(ids):
            yield f"two {name} have one id"


def _rings(program: ir.WarpProgram) -> Iterator[str]:
    for ring in program.arefs:
        where = f"ring {ring.name}"
        if any(group >= len(program.groups) for group in (ring.producer, *ring.consumers)):
            yield f"{where} names a warp group that is not there"
        if any(number >= len(program.buffers) for number in ring.buffers):
            yield f"{where} names a buffer that is not there"
        elif any(program.buffers[number].slots < ring.depth for number in ring.buffers):
            yield f"{where} is deeper than its buffer"


def _groups(program: ir.WarpProgram) -> Iterator[str]:
    of_all = {
        "buffer": {entry.id for entry in program.buffers},
        "map": {entry.id for entry in program.maps},
        "barrier": {entry.id for entry in program.barriers},
    }
    common = frozenset[str]()
    for name in COMMON:
        block = getattr(program, name)
        verifier = _Block(program, (), (), of_all | {"fragment": set(), "cursor": set()}, name)
        yield from (f"{name}: {text}" for text in verifier.faults(block, common))
        if name == "setup":
            common |= scalars(block)
            yield from _wait(program)
            yield from _marks(program)
    walked = frozenset(name for stmt in ir.walk(program.walk) for name in defined_by(stmt))
    if program.walk and not any(isinstance(stmt, ir.Visit) for stmt in ir.walk(program.walk)):
        yield "walk: visits nothing"
    for group in program.groups:
        known = of_all | {
            "fragment": {entry.id for entry in group.fragments},
            "cursor": {entry.id for entry in group.cursors if entry.aref < len(program.arefs)},
        }
        if (group.loop is None) != any(isinstance(stmt, ir.StopUnless) for stmt in group.next):
            yield f"{group.role}: has {'no' if group.loop is None else 'a'} loop over its instances, and `next` " + (
                "stops none" if group.loop is None else "stops"
            )
        fetches = any(isinstance(stmt, ir.FetchInstance) for stmt in group.stmts)
        counted = common | {ir.INSTANCES} | ({ir.PLACE} if fetches else set())
        counted |= {ir.INSTANCE} if group.loop is not None else set()
        for name in BLOCKS:
            verifier = _Block(program, group.fragments, group.cursors, known, name)
            defined = {"start": common, "finish": common | {ir.INSTANCES}, "next": counted}.get(name)
            if defined is None:
                defined = counted | scalars(group.next) | walked
            yield from (f"{group.role}, {name}: {text}" for text in verifier.faults(getattr(group, name), defined))


def _wait(program: ir.WarpProgram) -> Iterator[str]:
    places = [at for at, stmt in enumerate(program.setup) if isinstance(stmt, ir.AwaitEarlierGrids)]
    behind = program.setup[places[0] + 1 :] if places else ()
    if len(places) > 1 or (behind and (program.once or not looks_up(behind[0]))):
        yield "setup: something stands behind the wait for earlier grids"
    if places and looks_up((program.setup[: places[0]], program.once)):
        yield "setup, once: something is looked up in memory before earlier grids have ended"


def _marks(program: ir.WarpProgram) -> Iterator[str]:
    marked = [stmt for stmt in program.setup if isinstance(stmt, ir.SumOver) and stmt.marks]
    if len(marked) > 1:
        yield "setup: two sums leave marks in one place"
    summed = {(one.index, one.extent, one.each, one.value, one.names, one.values) for one in marked}
    for group in program.groups:
        for stmt in group.stmts:
            if not isinstance(stmt, ir.Seek):
                continue
            if (stmt.index, stmt.extent, stmt.each, stmt.value, stmt.names, stmt.values) not in summed:
                yield f"{group.role}: seeks `{stmt.index}` where no sum of the same leaves marks"


def scalars(block: Iterable[ir.Stmt]) -> frozenset[str]:
    """What the statements of a block define for the blocks behind it."""
    names = (defined_by(stmt) for stmt in block)
    return frozenset().union(*names)


def defined_by(stmt: ir.Stmt) -> tuple[str, ...]:
    """The scalars that a statement defines for those behind it."""
    match stmt:
        case ir.Let(name) | ir.Given(name) | ir.CountReuse(name) | ir.Evenly(name) | ir.SumOver(name):
            return (name,)
        case ir.SumParts():
            return (ir.LAST_PART,)
        case ir.Define(names) | ir.ScalarLoop(names) | ir.Elect(names=names) | ir.ReceiveElected(names=names):
            return names
        case ir.Atomic(name):
            return (name,)
        case ir.Seek(index, before, here):
            return index, before, here
        case ir.Recall():
            return ir.RECALLED
        case ir.PublishInstance() | ir.ReceiveInstance():
            return ir.RECEIVED
    return ()


class _Block:
    """The rules for the statements of one block. known: the ids of each kind that it may name."""

    def __init__(
        self,
        program: ir.WarpProgram,
        fragments: Iterable[ir.Fragment],
        cursors: Iterable[ir.Cursor],
        known: dict[str, set[int]],
        name: str,
    ) -> None:
        self.program, self.known, self.name = program, known, name
        self.fragments = {entry.id: entry for entry in fragments}
        self.rings = {entry.id: entry.aref for entry in cursors}

    def faults(self, stmts: Iterable[ir.Stmt], defined: frozenset[str]) -> Iterator[str]:
        """Of a block in which the scalars `defined` are known from outside."""
        for stmt in stmts:
            where = f"{type(stmt).__name__} (line {stmt.line})" if stmt.line else type(stmt).__name__
            yield from (f"{where}: {text}" for text in self.of(stmt, defined))
            match stmt:
                case ir.PublishInstance() | ir.Elect():
                    yield from self.faults(stmt.body, defined)
                case ir.ScalarLoop(names):
                    yield from self.faults(stmt.body, defined | {*names})
                case ir.If():
                    yield from self.faults(stmt.body, defined)
                    yield from self.faults(stmt.otherwise, defined)
                case ir.Pipeline():
                    for block in (*stmt.prologue, stmt.steady, stmt.later, *stmt.epilogue):
                        yield from self.faults(block, defined | {stmt.step})
            defined |= {*defined_by(stmt)}

    def of(self, stmt: ir.Stmt, defined: frozenset[str]) -> Iterator[str]:
        """Of a statement, without those inside of it."""
        if "\n" in stmt.note:
            yield "has a note of several lines"
        for kind, number in named(stmt):
            if number not in self.known[kind]:
                yield f"names {kind} {number}, which is not there"
        if self.name not in PLACES.get(type(stmt), BLOCKS) and not (self.name == "walk" and isinstance(stmt, WALKING)):
            yield f"stands in `{self.name}`"
        inside = defined | {stmt.step} if isinstance(stmt, ir.Pipeline) else defined
        if isinstance(stmt, ir.Given) and not is_of_launch(stmt.value):
            yield f"computes `{stmt.name}` before the launch, of what is not known there"
        if isinstance(stmt, ir.Define):
            inside |= {*stmt.names}
            if len(stmt.names) != len(stmt.values):
                yield f"gives {len(stmt.names)} names to {len(stmt.values)} values"
        elif isinstance(stmt, ir.SumOver | ir.Seek):
            inside |= {stmt.index, *stmt.names}
            if len(stmt.names) != len(stmt.values):
                yield f"gives {len(stmt.names)} names to {len(stmt.values)} values"
        elif isinstance(stmt, ir.ScalarLoop):
            inside |= {*stmt.names, *scalars(stmt.body)}
            if not len(stmt.names) == len(stmt.inits) == len(stmt.yields):
                yield f"has {len(stmt.names)} names, {len(stmt.inits)} inits and {len(stmt.yields)} yields"
        elif isinstance(stmt, ir.PublishInstance | ir.Elect):
            inside |= scalars(stmt.body)
        for node in _mentions(stmt):
            match node:
                case Local(name) if name not in inside:
                    yield f"scalar `{name}` is not defined here"
                case Element(number) | Reg(number) if number not in self.known["fragment"]:
                    yield f"names fragment {number}, which is not there"
                case SlotRef():
                    yield from self.slot(node)
        match stmt:
            case ir.Pipeline() if not len(stmt.prologue) == len(stmt.epilogue) == stmt.stages:
                yield (f"has {stmt.stages} stages, {len(stmt.prologue)} blocks of prologue and {len(stmt.epilogue)} of "
                       "epilogue")  # fmt: skip
            case ir.Elect(_, names, values, scratch) if len(names) != len(values) or (scratch is None) == bool(names):
                yield f"gives {len(names)} names to {len(values)} values through {scratch}"
            case ir.Elect(body=body) if not all(isinstance(one, ELECTED) for one in ir.walk(body)):
                yield "has more than scalars in its body"
            case ir.Pipeline(until=None, later=later) if later:
                yield "has a second steady state and no condition for it"
            case ir.Copy(source, result, columns) if {source, result} <= self.known["fragment"]:
                one, other = self.fragments[source], self.fragments[result]
                if (one.element, columns_of(one.layout, columns)) != (other.element, other.layout):
                    yield f"copies `{one.name}` to `{other.name}`, which has another element type or layout"

    def slot(self, ref: SlotRef) -> Iterator[str]:
        """Of what names a slot."""
        if ref.buffer not in self.known["buffer"]:
            yield f"names buffer {ref.buffer}, which is not there"
            return
        buffer = self.program.buffers[ref.buffer]
        if ref.cursor is not None and ref.cursor not in self.known["cursor"]:
            yield f"names cursor {ref.cursor}, which is not there"
        elif ref.cursor is not None and ref.buffer not in self.program.arefs[self.rings[ref.cursor]].buffers:
            yield f"takes a slot of `{buffer.name}` by the cursor of another ring"
        rows = buffer.shape[0] if len(buffer.shape) > 1 else 1
        for span, extent in ((ref.rows, rows), (ref.columns, buffer.shape[-1])):
            if span is not None and not 0 <= span[0] < span[1] <= extent:
                yield f"takes {span[0]}:{span[1]} of {extent} in a slot of `{buffer.name}`"


@by_identity
def named(stmt: ir.Stmt) -> tuple[tuple[str, int], ...]:
    """What the fields of a statement name by id: kind, id."""
    found: list[tuple[str, int]] = []
    made: Any = type(stmt)
    for field, kind in _ids_of(made):
        value = getattr(stmt, field)
        numbers = value if isinstance(value, tuple) else (value,)
        found += ((kind, number) for number in numbers if isinstance(number, int))
    return tuple(found)


@cache
def _ids_of(made: type[ir.Stmt]) -> tuple[tuple[str, str], ...]:
    """The fields of a kind of statements that hold ids, with what they are ids of."""
    kinds = {"fragments": "fragment", "multiplied": "fragment"}
    every = ((part.field, kinds.get(part.kind, part.kind)) for part in FORMS[made].fields)
    return tuple(one for one in every if one[1] in ("fragment", "cursor", "buffer", "map", "barrier"))


@by_identity
def own_nodes(stmt: ir.Stmt) -> tuple[object, ...]:
    """Expressions, operands and slots of a statement, without those of statements inside of it."""
    parts = tuple(getattr(stmt, part.field) for part in FORMS[type(stmt)].fields)
    return tuple(nodes((*parts, stmt.until) if isinstance(stmt, ir.Pipeline) else parts))


@by_identity
def _mentions(stmt: ir.Stmt) -> tuple[object, ...]:
    """Those of them that name something."""
    return tuple(node for node in own_nodes(stmt) if isinstance(node, Local | Element | Reg | SlotRef))
