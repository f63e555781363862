"""The steps of a run of a warp program: which statement of which group, on which slot and which part of a tile."""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.verify.abstract.actor import Actor
from twill.codegen.warp.program import Reduce, SlotRef, Stmt

Area = tuple[int, int, int, int]


@dataclass(frozen=True)
class Step:
    """A statement of a run: of which group, and what it means at that moment. slot, number: of its ring's cursor.
    areas: (buffer, slot, area, "a", "b", "target" or "source")."""

    group: int
    stmt: Stmt
    ring: int = -1
    slot: int = 0
    number: int = 0
    areas: tuple[tuple[int, int, Area, str], ...] = ()


def step_of(actor: Actor, stmt: Stmt) -> Step:
    """A statement that is about to be executed."""
    cursor = getattr(stmt, "cursor", None)
    ring, slot, number = -1, 0, 0
    if cursor is not None:
        aref = actor.ring_of[cursor].aref
        count = actor.cursors[cursor]
        ring, slot, number = aref.id, count % aref.depth, count // aref.depth
    areas = []
    for name in ("a", "b", "target", "source"):
        ref = getattr(stmt, name, None)
        if isinstance(ref, SlotRef):
            areas.append((ref.buffer, slot_of(actor, ref), area_of(actor, ref), name))
    if isinstance(stmt, Reduce) and stmt.scratch is not None:
        areas.append((stmt.scratch, 0, area_of(actor, SlotRef(stmt.scratch)), "target"))
    return Step(actor.group.id, stmt, ring, slot, number, tuple(areas))


def slot_of(actor: Actor, ref: SlotRef) -> int:
    """The slot that is meant."""
    return 0 if ref.cursor is None else actor.cursors[ref.cursor] % actor.ring_of[ref.cursor].aref.depth


def area_of(actor: Actor, ref: SlotRef) -> Area:
    """Rows and columns that are meant; a vector is one row."""
    shape = actor.machine.program.buffers[ref.buffer].shape
    rows = ref.rows or (0, shape[0] if len(shape) > 1 else 1)
    columns = ref.columns or (0, shape[-1])
    return (*rows, *columns)
