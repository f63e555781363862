"""Seeded faults: classes of small mistakes, made at every place of a warp program.

`mutants(program)` yields them. A mutant that does the same as the program in every one of many runs
(`tests.effects`) is no fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from tests import numeric_faults, tensor_faults
from tests.places import Edit, Place, block_of, edit, instead, move, other, places
from tests.warp_programs import counting
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId, add, subtract
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import (
    Acquire,
    Advance,
    Arrive,
    BulkCommit,
    BulkWait,
    Commit,
    Compute,
    Consumed,
    Copy,
    Expect,
    Fence,
    FetchInstance,
    Fill,
    Get,
    If,
    LoadShared,
    Multiply,
    Pipeline,
    ProxyFence,
    Publish,
    PublishInstance,
    ReceiveInstance,
    Reduce,
    Skip,
    SlotRef,
    Stmt,
    StoreGlobal,
    StoreShared,
    Sync,
    TmaLoad,
    TmaStore,
    WaitGroups,
    WarpGroup,
    WarpProgram,
)


@dataclass(frozen=True)
class Mutant:
    """A faulty program. kind: the class of the fault. place: where, None for a fault of the whole program."""

    kind: str
    place: Place | None
    text: str
    program: WarpProgram


# ---------------------------------------------------------------- classes of faults at a statement
Faults = Iterable[tuple[str, str, Edit]]
"""(class, what was done, how)."""


def _dropped(place: Place, program: WarpProgram) -> Faults:
    dropped = (
        Acquire, Get, Consumed, Publish, Expect, Advance, Skip, Fence, Commit, WaitGroups, ProxyFence, Sync, Arrive,
        BulkCommit, BulkWait, TmaLoad, TmaStore, StoreShared, LoadShared, StoreGlobal, Multiply, Fill, Reduce, Copy,
        FetchInstance, PublishInstance, ReceiveInstance,
    )  # fmt: skip
    if isinstance(place.stmt, dropped):
        yield f"dropped {type(place.stmt).__name__}", "left out", instead()


def _early(place: Place, program: WarpProgram) -> Faults:
    """A slot is given back before the WaitGroups that covers its readers."""
    if not (isinstance(place.stmt, Consumed) or _guards(place.stmt, Consumed)):
        return
    block, index = block_of(program, place)
    waits = [at for at in range(index) if isinstance(block[at], WaitGroups)]
    if waits:
        yield "early Consumed", "before the WaitGroups", move(index, waits[-1])


def _guards(stmt: Stmt, kind: type[Stmt]) -> bool:
    return isinstance(stmt, If) and any(isinstance(inner, kind) for inner in stmt.body)


def _late(place: Place, program: WarpProgram) -> Faults:
    """What must come before comes after: the neighbour that it is there for."""
    block, index = block_of(program, place)
    pairs = {Fence: Multiply, ProxyFence: Sync, Acquire: TmaLoad, Get: Multiply, BulkWait: Sync, Commit: WaitGroups}
    pairs |= (
        {Get: ReceiveInstance, ReceiveInstance: Consumed, Acquire: PublishInstance, PublishInstance: Publish}
        if isinstance(block[-1], Advance)
        else {}
    )
    wanted = pairs.get(type(place.stmt))
    after = [at for at in range(index + 1, min(index + 4, len(block))) if wanted and isinstance(block[at], wanted)]
    if after:
        name = type(block[after[0]]).__name__
        yield f"{type(place.stmt).__name__} after {name}", f"behind the {name}", move(index, after[0] + 1)


def _counts(place: Place, program: WarpProgram) -> Faults:
    match place.stmt:
        case WaitGroups(pending=pending):
            yield "WaitGroups pending + 1", "", instead(replace(place.stmt, pending=pending + 1))
        case BulkWait(pending=pending):
            yield "BulkWait pending + 1", "", instead(replace(place.stmt, pending=pending + 1))
        case Expect(cursor=cursor, bytes=size):
            if program.arefs[program.groups[place.group].cursor(cursor).aref].shared:
                yield "Expect half the bytes", "those that the CTA sends", instead(replace(place.stmt, bytes=size // 2))
            yield "Expect too many bytes", "", instead(replace(place.stmt, bytes=size + 16))
            yield "Expect too few bytes", "", instead(replace(place.stmt, bytes=size - 16))
        case Advance(cursor=cursor):
            yield "extra Advance", "", instead(place.stmt, Advance(cursor))
        case Get(cursor=cursor) | Acquire(cursor=cursor):
            depth = program.arefs[program.groups[place.group].cursor(cursor).aref].depth
            turns = (Advance(cursor),) * depth
            yield f"wrong parity of {type(place.stmt).__name__}", "", instead(*turns, place.stmt)
        case Consumed(everywhere=everywhere):
            yield "Consumed twice", "", instead(place.stmt, place.stmt)
            if everywhere:
                yield "dropped remote Consumed", "", instead(replace(place.stmt, everywhere=False))
        case Arrive():
            yield "Arrive twice", "", instead(place.stmt, place.stmt)
        case FetchInstance():
            yield "FetchInstance twice", "", instead(place.stmt, place.stmt)
        case Multiply(accumulate=accumulate):
            yield "wrong accumulate flag", "", instead(replace(place.stmt, accumulate=not accumulate))


def _addresses(place: Place, program: WarpProgram) -> Faults:
    stmt = place.stmt
    if isinstance(stmt, TmaLoad | TmaStore):
        for axis, coordinate in enumerate(stmt.coordinates):
            moved = (*stmt.coordinates[:axis], add(coordinate, Number(8)), *stmt.coordinates[axis + 1 :])
            yield (
                f"wrong coordinates of {type(stmt).__name__}",
                f"axis {axis}",
                instead(replace(stmt, coordinates=moved)),
            )
    for name, ref in _slots(stmt):
        cursors = [cursor.id for cursor in program.groups[place.group].cursors]
        rings = {cursor.id: cursor.aref for cursor in program.groups[place.group].cursors}
        others = [c for c in cursors if ref.cursor is not None and c != ref.cursor and rings[c] == rings[ref.cursor]]
        for cursor in others:
            yield "wrong cursor", f"of {name}", instead(other(stmt, **{name: replace(ref, cursor=cursor)}))
        if ref.cursor is not None and program.buffers[ref.buffer].slots > 1:
            yield "slot 0 always", f"of {name}", instead(other(stmt, **{name: replace(ref, cursor=None)}))
        for part in ("rows", "columns"):
            span = getattr(ref, part)
            if span is not None:
                size = span[1] - span[0]
                moved_ref = other(ref, **{part: (0, size) if span[0] else (size, 2 * size)})
                yield f"wrong {part} of a slot", f"of {name}", instead(other(stmt, **{name: moved_ref}))


def _slots(stmt: Stmt) -> Iterator[tuple[str, SlotRef]]:
    for name in ("a", "b", "target", "source"):
        ref = getattr(stmt, name, None)
        if isinstance(ref, SlotRef):
            yield name, ref


def _operands(place: Place, program: WarpProgram) -> Faults:
    stmt = place.stmt
    if isinstance(stmt, Compute) and len(stmt.operands) == 2 and stmt.kind in ("sub", "div"):
        yield "operands exchanged", stmt.kind, instead(replace(stmt, operands=stmt.operands[::-1]))
    if isinstance(stmt, Sync | Arrive):
        mine = [b.id for b in program.barriers if place.group in b.groups and b.id != stmt.barrier]
        for barrier in mine[:1]:
            yield "wrong barrier", f"{barrier}", instead(replace(stmt, barrier=barrier))
    if isinstance(stmt, If) and isinstance(stmt.condition, Apply) and stmt.condition.kind in ("compare", "and"):
        yield "guard dropped", "always", instead(*stmt.body)
        yield "guard never true", "never", instead(*stmt.otherwise)


def _pipelines(place: Place, program: WarpProgram) -> Faults:
    stmt = place.stmt
    if not isinstance(stmt, Pipeline):
        return
    yield "trip one less", "", instead(replace(stmt, trip=subtract(stmt.trip, Number(1))))
    yield "trip one more", "", instead(replace(stmt, trip=add(stmt.trip, Number(1))))
    if stmt.until is not None:
        late, early = (at_step(stmt.until, stmt.step, moved) for moved in (-1, 1))
        yield "changes one step late", "", instead(replace(stmt, until=late))
        yield "changes one step early", "", instead(replace(stmt, until=early))
        yield "never changes", "", instead(replace(stmt, until=None))
        yield "changes at once", "", instead(replace(stmt, steady=stmt.later))
    for name in ("prologue", "epilogue"):
        blocks = getattr(stmt, name)
        for number, block in enumerate(blocks):
            if block:
                shorter = (*blocks[:number], (), *blocks[number + 1 :])
                yield f"{name} one step short", f"step {number}", instead(other(stmt, **{name: shorter}))


def at_step(expr: Expr, step: str, moved: int) -> Expr:
    """What an expression is `moved` steps later."""
    if expr == Local(step):
        return add(expr, Number(moved))
    if isinstance(expr, Apply):
        return replace(expr, operands=tuple(at_step(operand, step, moved) for operand in expr.operands))
    return expr


def _halves(place: Place, program: WarpProgram) -> Faults:
    """Of tiles that the CTAs of a cluster load together."""
    stmt = place.stmt
    if not isinstance(stmt, TmaLoad) or stmt.sender < 0:
        return
    block, _ = block_of(program, place)
    others = [s for s in block if isinstance(s, TmaLoad) and s.map == stmt.map and s.sender not in (-1, stmt.sender)]
    for one in others[:1]:
        yield "half loaded twice", "", instead(replace(one, sender=stmt.sender))
    yield "half sent by both", "", instead(stmt, replace(stmt, sender=1 - stmt.sender))
    yield "half sent to oneself, too", "", instead(stmt, replace(stmt, sender=-1))


RULES: tuple[Callable[[Place, WarpProgram], Faults], ...] = (
    _dropped, _early, _late, _counts, _addresses, _operands, _pipelines, _halves, *numeric_faults.RULES,
    *tensor_faults.RULES,
)  # fmt: skip


# ---------------------------------------------------------------- faults of the whole program
def _of_the_whole(program: WarpProgram) -> Iterator[Mutant]:
    for number, buffer in enumerate(program.buffers):
        if buffer.slots > 1:
            shorter = replace(buffer, slots=buffer.slots - 1)
            yield _whole("ring one slot short", buffer.name, program, "buffers", number, shorter)
        if buffer.offset:
            moved = replace(buffer, offset=buffer.offset - 1024)
            yield _whole("overlapping buffers", buffer.name, program, "buffers", number, moved)
        if buffer.swizzle:
            plain = replace(buffer, swizzle=buffer.swizzle // 2)
            yield _whole("wrong swizzle", buffer.name, program, "buffers", number, plain)
    for number, aref in enumerate(program.arefs):
        for name in ("full_count", "empty_count"):
            for change in (-1, 1):
                wrong = other(aref, **{name: getattr(aref, name) + change})
                yield _whole(f"wrong {name}", f"{aref.name} {change:+}", program, "arefs", number, wrong)
    if program.cluster is not None:
        for end in ("meets_first", "meets_last"):
            apart = other(program.cluster, **{end: False})
            yield Mutant("missing cluster sync", None, end, replace(program, cluster=apart))
        used = {n.axis for n in nodes(tuple(g.body for g in program.groups)) if isinstance(n, ProgramId)}
        for axis in used - {program.cluster.axis}:
            elsewhere = replace(program.cluster, axis=axis)
            yield Mutant("cluster along another axis", None, f"{axis}", counting(replace(program, cluster=elsewhere)))
    for number, aref in enumerate(program.arefs):
        if aref.pair:
            yield _whole("ring of each CTA", aref.name, program, "arefs", number, replace(aref, pair=False))
    for group in program.groups:
        for neighbour in program.groups:
            yield from _swapped(program, group, neighbour)


def _whole(kind: str, text: str, program: WarpProgram, part: str, number: int, thing: object) -> Mutant:
    items = list(getattr(program, part))
    items[number] = thing
    changed: dict[str, Any] = {part: tuple(items)}
    return Mutant(kind, None, text, replace(program, **changed))


def _swapped(program: WarpProgram, group: WarpGroup, neighbour: WarpGroup) -> Iterator[Mutant]:
    """A statement of another warp group in place of the group's own, with the group's own fragments and cursors."""
    mine = [place for place in places(program) if place.group == group.id]
    theirs = [place for place in places(program) if place.group == neighbour.id]
    alike = [place.path for place in mine] == [place.path for place in theirs]
    if group.id == neighbour.id or not alike or len(group.fragments) != len(neighbour.fragments):
        return
    names = {theirs.id: ours.id for theirs, ours in zip(neighbour.fragments, group.fragments, strict=True)}
    cursors = {theirs.id: ours.id for theirs, ours in zip(neighbour.cursors, group.cursors, strict=True)}
    for place, their in zip(mine, theirs, strict=True):
        if isinstance(place.stmt, If | Pipeline) or type(place.stmt) is not type(their.stmt):
            continue
        stmt = renamed(their.stmt, names, cursors)
        if stmt != place.stmt:
            yield Mutant("swapped warp group", place, f"of {neighbour.role}", edit(program, place, instead(stmt)))


_FRAGMENTS = ("accumulator", "result", "operand", "source", "mask", "fragment", "fragments", "ready", "a")


def renamed(thing: Any, fragments: dict[int, int], cursors: dict[int, int]) -> Any:
    """A statement (or a part of one) with other ids for fragments and cursors."""
    if isinstance(thing, tuple):
        return tuple(renamed(item, fragments, cursors) for item in thing)
    if not is_dataclass(thing) or isinstance(thing, type):
        return thing
    changed: dict[str, Any] = {}
    for field in fields(thing):
        value = getattr(thing, field.name)
        if field.name == "cursor" and isinstance(value, int):
            changed[field.name] = cursors.get(value, value)
        elif field.name in _FRAGMENTS and isinstance(value, int) and not isinstance(value, bool):
            changed[field.name] = fragments.get(value, value)
        elif field.name in ("fragments", "ready"):
            changed[field.name] = tuple(fragments.get(number, number) for number in value)
        else:
            changed[field.name] = renamed(value, fragments, cursors)
    return replace(thing, **changed)


# ---------------------------------------------------------------- all of them
def mutants(program: WarpProgram) -> Iterator[Mutant]:
    """Every fault at every place."""
    for place in places(program):
        for rule in RULES:
            for kind, text, change in rule(place, program):
                yield Mutant(kind, place, text, edit(program, place, change))
        for kind, text, wrong in numeric_faults.roundings(place, program):
            yield Mutant(kind, place, text, wrong)
    yield from _of_the_whole(program)
