"""Shared memory that all threads of a group read or write: tiles and scales from and to registers."""

from __future__ import annotations

from collections.abc import Hashable

from twill.codegen.verify.abstract.actor import Actor
from twill.codegen.verify.abstract.order import Event, SlotAccess
from twill.codegen.verify.abstract.tensor_scales import chunked
from twill.codegen.warp.layout import Accumulator, Blocked
from twill.codegen.warp.program import LoadShared, SlotRef, StoreScales, StoreShared
from twill.tile.interpret.arrays import np


def generic(actor: Actor, ref: SlotRef, write: bool, what: str, mapping: Hashable) -> int:
    """Note an access by all threads; the slot."""
    event: Event = ("time", actor.group.id)
    region = actor.machine.shared.region(ref)
    access = SlotAccess(
        actor.group.id, event, actor.clock.own[event], "generic", write, region, actor.line, what, mapping
    )
    return actor.touch(ref, access, actor.clock.collective())


def mapping_of(actor: Actor, fragment: int, ref: SlotRef, *more: Hashable) -> Hashable:
    """How the threads share a tile that goes to or comes from a fragment; None if several threads hold an element."""
    layout = actor.fragments.of[fragment].layout
    return (layout, actor.machine.shared.region(ref), *more) if isinstance(layout, Accumulator | Blocked) else None


def load_shared(actor: Actor, stmt: LoadShared) -> None:
    """A tile into registers."""
    name = actor.machine.program.buffers[stmt.source.buffer].name
    mapping = mapping_of(actor, stmt.result, stmt.source, stmt.transposed, None)
    slot = generic(actor, stmt.source, False, f"LoadShared of `{name}`", mapping)
    value = actor.machine.shared.view(stmt.source, slot)
    value = np.array(value.T if stmt.transposed else value)
    actor.fragments.write(stmt.result, value.reshape(actor.fragments.shape(stmt.result)), actor.line)


def store_shared(actor: Actor, stmt: StoreShared) -> None:
    """Registers into a tile."""
    name = actor.machine.program.buffers[stmt.target.buffer].name
    value = actor.fragments.read(stmt.operand, actor.line)
    value = value.T if stmt.transposed else value
    if stmt.columns is not None:
        value = value[..., stmt.columns[0] : stmt.columns[1]]
    mapping = mapping_of(actor, stmt.operand, stmt.target, stmt.transposed, stmt.columns)
    slot = generic(actor, stmt.target, True, f"StoreShared to `{name}`", mapping)
    view = actor.machine.shared.view(stmt.target, slot)
    view[...] = np.asarray(value).reshape(view.shape)


def store_scales(actor: Actor, stmt: StoreScales) -> None:
    """Registers into chunks."""
    name = actor.machine.program.buffers[stmt.target.buffer].name
    value = actor.fragments.read(stmt.operand, actor.line)
    slot = generic(actor, stmt.target, True, f"StoreScales to `{name}`", mapping_of(actor, stmt.operand, stmt.target))
    actor.machine.shared.view(stmt.target, slot)[...] = chunked(value)
