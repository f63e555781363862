"""Loads and stores of global memory by all threads, and operands in registers."""

from __future__ import annotations

import math

from twill.codegen.verify.abstract.actor import Actor
from twill.codegen.verify.abstract.scalars import evaluate, integer
from twill.codegen.warp.program import LoadGlobal, Operand, Reg, StoreGlobal, Window
from twill.tile.interpret.arithmetic import Array, rounded
from twill.tile.interpret.arrays import np
from twill.tile.interpret.atomics import old_values
from twill.tile.interpret.elements import Elements, seen_as


def operand(actor: Actor, meant: Operand, shape: tuple[int, ...] = ()) -> Array:
    """An operand, spread so that it broadcasts to a result. shape: of the result, where a tile that lies in runs may
    have other axes with as many elements."""
    if not isinstance(meant, Reg):
        return rounded(evaluate(meant, actor.scope), meant.element)
    value = actor.fragments.read(meant.fragment, actor.line)
    if not meant.axes or value.ndim == 0:
        return value.reshape(shape) if value.size == math.prod(shape) > 1 else value
    retained = [axis for axis in meant.axes if axis >= 0]
    missing = [axis for axis in range(value.ndim) if axis not in retained]
    if missing:  # axes that the result lacks have one element
        value = value.reshape([size for axis, size in enumerate(value.shape) if axis not in missing])
    value = np.transpose(value, np.argsort(np.argsort(retained)))
    return np.expand_dims(value, tuple(axis for axis, source in enumerate(meant.axes) if source < 0))


def _picked(actor: Actor, window: Window, elements: Elements, stmt: LoadGlobal | StoreGlobal) -> Elements:
    """The elements of a window with the tiles that are part of its addresses and masks."""
    address, inside = elements
    shape = tuple(axis.extent for axis in window.axes if axis.extent > 1)
    shape = shape[::-1] if stmt.transposed else shape

    def spread(tile: Reg) -> Array:
        made = np.broadcast_to(operand(actor, tile), shape)
        return (made.T if stmt.transposed else made).reshape(address.shape)

    for index in window.indices:
        address = address + integer(index.scale, actor.scope) * spread(index.tile).astype(np.int64)
    for tile in window.where:
        inside = inside & spread(tile)
    return address, inside


def _ordered(actor: Actor, stmt: LoadGlobal | StoreGlobal, wrong: str) -> None:
    """Of a program with Elect: other CTAs may have the same elements only where atomic operations say who is first."""
    if wrong:
        why = "no atomic operations that release and acquire stand between the two"
        actor.report("cta-order", f"{actor.role} {wrong} of `{stmt.window.argument}`: {why}")


def load_global(actor: Actor, stmt: LoadGlobal) -> None:
    """A tile that each thread loads its own elements of."""
    mask = None if stmt.mask is None else actor.fragments.read(stmt.mask, actor.line)
    if mask is not None and stmt.transposed:
        mask = mask.T
    elements = _picked(actor, stmt.window, actor.machine.tensors.window(stmt.window, actor.scope, mask), stmt)
    tensors, cta = actor.machine.tensors, actor.machine.cta.number
    _ordered(actor, stmt, tensors.loaded_late(cta, stmt.window.argument, elements))
    value = actor.machine.tensors.load(stmt.window.argument, elements, stmt.window.pad, stmt.window.element)
    value = value.T if stmt.transposed else value
    actor.fragments.write(stmt.result, np.asarray(value).reshape(actor.fragments.shape(stmt.result)), actor.line)


def store_global(actor: Actor, stmt: StoreGlobal) -> None:
    """A tile that each thread stores its own elements of."""
    mask = None if stmt.mask is None else actor.fragments.read(stmt.mask, actor.line)
    value = operand(actor, stmt.operand)
    if stmt.transposed:
        value, mask = value.T, None if mask is None else mask.T
    elements = _picked(actor, stmt.window, actor.machine.tensors.window(stmt.window, actor.scope, mask), stmt)
    if value.size == elements[0].size:
        value = value.reshape(elements[0].shape)
    tensors, cta = actor.machine.tensors, actor.machine.cta.number
    before = tensors.held(stmt.window.argument, elements)
    if stmt.old is not None:
        held = seen_as(tensors.tensors[stmt.window.argument], stmt.window.element)
        old = old_values(held, elements, value, stmt.combine, stmt.window.element)
        actor.fragments.write(stmt.old, old.reshape(actor.fragments.shape(stmt.old)), actor.line)
    tensors.store(stmt.window.argument, elements, value, stmt.combine, stmt.window.element)
    _ordered(actor, stmt, tensors.stored_late(cta, stmt.window.argument, elements, stmt.combine, before))
