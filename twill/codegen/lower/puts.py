"""How warp groups fill rings: by the TMA, by threads that load from global memory, or from registers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from math import prod

from twill.codegen.lower.cross_loop_reuse import position, streams
from twill.codegen.lower.cross_tile_reuse import reuse_conditions, tile_reuse
from twill.codegen.lower.indices import IndexTiles, padding, places_of
from twill.codegen.lower.memory import element_bytes, held_bytes
from twill.codegen.lower.multicast import CTAS
from twill.codegen.lower.operations import LoweringScope, Tools, nowhere
from twill.codegen.lower.placement import Ring
from twill.codegen.lower.scalars import Iteration
from twill.codegen.lower.task import Task
from twill.codegen.lower.transfers import Part, largest_part
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr, Local
from twill.codegen.warp.layout import runs
from twill.tile.flat import Step

AT_ONCE = 1 << 14  # bytes of registers of a tile that the threads of a group load before they store them
SINGLE = 1 << 12  # bytes of the tile where each element is loaded by itself: each has an address and a register then


def rows_at_once(tile: ir.Buffer, most: int | None = None) -> int:
    """Of a tile, that the threads of a group load before they store them."""
    size, most = (held_bytes(tile.element), AT_ONCE) if most is None else (element_bytes(tile.element), most)
    row = prod(tile.shape[1:]) * size
    return largest_part(tile.shape[0], max(1, most // row)) if len(tile.shape) == 2 else tile.shape[0]


def is_in_one_piece(tile: ir.Buffer) -> bool:
    """Whether that is all of it."""
    return rows_at_once(tile) == tile.shape[0]


class Puts:
    """Fills the rings whose producer is the group of `tools`."""

    def __init__(self, tools: Tools) -> None:
        self.tools, self.plan, self.registers = tools, tools.plan, tools.registers
        self.transfers, self.cursors, self.sharing = tools.transfers, tools.cursors, tools.rings.sharing
        self.rings = tools.rings.by_place
        self.lets: list[ir.Stmt] = []  # whether neighbouring CTAs want the same tiles, whether tiles are there already
        self.reuse: dict[Hashable, Expr] = {}  # the latter, of tiles that move alike

    def load(self, task: Task, ring: Ring, at: Iteration, held: int | None = None) -> list[ir.Stmt]:
        """A tile from global memory into the next slot. held: the registers that it was loaded to ahead (`ahead`)."""
        if held is not None:
            return self.from_registers(task, ring, held)
        step, part = self.loaded(task)
        cursor = self.cursors.of(ring.aref, "put")
        if ring.aref.transport != "tma":
            return [ir.Acquire(cursor, line=task.node.line), *self.by_threads(part, ring, cursor, step, at)]
        return self.unless_loaded_by_earlier_loop(self.by_copy(task, part, ring, cursor, at), task, ring, at)

    def ahead(self, task: Task, ring: Ring, at: Iteration) -> list[ir.Stmt]:
        """A tile that threads load to the registers of its value, for `load` to store."""
        step, part = self.loaded(task)
        fragment = self.registers.of(task.made)
        return [*self.rows_by_threads(part, fragment, (0, self.shape(task, ring)[0]), step, at)]

    def loaded(self, task: Task) -> tuple[Step, Part]:
        """The step of a load, and the part of the tile that it loads."""
        step = self.plan.last_step(task)
        assert step.op.access is not None
        return step, Part(step.op.access, step.results[0], task.block, self.halved(task))

    def shape(self, task: Task, ring: Ring) -> tuple[int, ...]:
        """Of a tile that threads load and put into a ring: of scales in chunks, [rows, blocks]."""
        cell = self.plan.last_step(task).results[0]
        return ring.buffer.shape if ring.scales is None else self.plan.tiles.shape(cell)

    def dealt(self, task: Task, ring: Ring) -> None:
        """Registers for such a tile, dealt to the threads of the group."""
        layout = runs(self.shape(task, ring), self.plan.tiles.target.threads)
        name = self.plan.last_step(task).op.name or "loaded"
        self.registers.hold(task.made, name, ring.buffer.element, layout)

    def unless_loaded_by_earlier_loop(self, put: list[ir.Stmt], task: Task, ring: Ring, at: Iteration) -> list[ir.Stmt]:
        """A put of a tile that an earlier loop may have left in the ring."""
        if not position(self.plan.reuse_groups, task.place)[0]:
            return put
        assert at.loop is not None
        return [ir.If(streams(self.transfers.scalars.trip(at.loop), ring.aref.depth), tuple(put), line=task.node.line)]

    def by_copy(self, task: Task, part: Part, ring: Ring, cursor: int, at: Iteration) -> list[ir.Stmt]:
        """A tile that the TMA brings."""
        seen = self.transfers.described(part, ring.buffer, at, ring.aref.shared)
        own = part.access.made
        made_map = self.transfers.made.of(seen, task.node.line, cursor) if own else self.transfers.memory.map(seen)
        alone: list[ir.Stmt] = []
        for box in self.transfers.boxes(part, ring.buffer, at, ring.aref.shared):
            target = ir.SlotRef(ring.buffer.id, cursor, box.rows, box.columns)
            alone.append(ir.TmaLoad(made_map.id, box.coordinates, target, cursor, line=task.node.line))
        loads = self.in_halves(alone, task) if ring.aref.shared else alone
        expected = ring.aref.bytes * (CTAS if ring.aref.pair else 1)
        filled = self.unless_reused_across_tiles([ir.Expect(cursor, expected), *loads], task, ring, cursor)
        return [ir.Acquire(cursor, line=task.node.line), *filled, ir.Advance(cursor)]

    def halved(self, task: Task) -> int:
        """The axis of a load's access of which each CTA of a pair has a half; -1 for none."""
        axis = self.sharing.halved.get(task.place, -1) if self.sharing is not None else -1
        access = self.plan.last_step(task).op.access
        assert access is not None
        return -1 if axis < 0 else [n for n, one in enumerate(access.axes) if one.extent > 1][axis]

    def unless_reused_across_tiles(self, filled: list[ir.Stmt], task: Task, ring: Ring, cursor: int) -> list[ir.Stmt]:
        """How a slot is filled with a tile that it may hold from program instances before."""
        found = tile_reuse(self.plan, self.rings.values(), task, ring)
        turns = self.sharing is not None and self.sharing.together is not None  # an instance may be worked on twice
        if found is None or turns:
            return filled
        key = (found.values, task.region, found.depth)
        if key not in self.reuse:
            lets, self.reuse[key] = reuse_conditions(found, self.transfers.scalars)
            self.lets += lets
        return [ir.If(self.reuse[key], (ir.Expect(cursor, 0),), tuple(filled), line=task.node.line)]

    def in_halves(self, alone: list[ir.Stmt], task: Task) -> list[ir.Stmt]:
        """The copies of a tile that neighbouring CTAs send each other one half each, where both want the same tile."""
        assert self.sharing is not None
        each = len(alone) // CTAS
        halves = [replace(stmt, sender=i // each) for i, stmt in enumerate(alone) if isinstance(stmt, ir.TmaLoad)]
        same = self.sharing.same[task.place]
        if same is None:
            return list(halves)
        known = next((let for let in self.lets if isinstance(let, ir.Let) and let.value == same), None)
        if known is None:
            known = ir.Let(self.transfers.scalars.fresh("same"), same, line=task.node.line)
            self.lets.append(known)
        return [ir.If(Local(known.name, "i1"), tuple(halves), tuple(alone), line=task.node.line)]

    def by_threads(self, part: Part, ring: Ring, cursor: int, step: Step, at: Iteration) -> Iterator[ir.Stmt]:
        """A tile that no tensor map describes: every thread loads its elements and stores them into the slot, some
        rows at a time."""
        shape = ring.buffer.shape
        if ring.scales is not None:
            yield from self.scales_by_threads(part, ring, cursor, step, at)
            return
        each = rows_at_once(ring.buffer)
        window = self.transfers.window_of(part.access, self.transfers.spans(part), at)
        if not self.transfers.neighbours(window):
            each = rows_at_once(ring.buffer, SINGLE)
        piece = (each, *shape[1:])
        fragment = self.registers.new(
            step.op.name or "loaded", ring.buffer.element, runs(piece, self.plan.tiles.target.threads)
        )
        for first in range(0, shape[0], each):
            rows = (first, first + each) if each < shape[0] else None
            yield from self.rows_by_threads(part, fragment, (first, each), step, at)
            yield ir.StoreShared(fragment, ir.SlotRef(ring.buffer.id, cursor, rows), line=step.op.line)
        if ring.multiplied:
            yield ir.ProxyFence()
        yield ir.Publish(cursor)
        yield ir.Advance(cursor)

    def scales_by_threads(self, part: Part, ring: Ring, cursor: int, step: Step, at: Iteration) -> Iterator[ir.Stmt]:
        """Scales [rows, blocks], which threads load and put into chunks."""
        shape = self.plan.tiles.shape(part.cell)
        layout = runs(shape, self.plan.tiles.target.threads)
        fragment = self.registers.new(step.op.name or "scales", ring.buffer.element, layout)
        yield from self.rows_by_threads(part, fragment, (0, shape[0]), step, at)
        yield ir.StoreScales(fragment, ir.SlotRef(ring.buffer.id, cursor), line=step.op.line)
        yield from (ir.ProxyFence(), ir.Publish(cursor), ir.Advance(cursor))

    def rows_by_threads(
        self, part: Part, fragment: int, rows: tuple[int, int], step: Step, at: Iteration
    ) -> Iterator[ir.Stmt]:
        """Some rows of a tile into registers. rows: the first, and how many."""
        spans = self.transfers.spans(part)
        places = places_of(span.extent for span in spans)
        cut = [
            replace(span, first=span.first + rows[0], extent=rows[1]) if place == 0 else span
            for span, place in zip(spans, places, strict=True)
        ]
        made: list[ir.Stmt] = []
        scope = LoweringScope(self.tools, at, part.block, nowhere, lambda source: None)
        tiles = IndexTiles(
            scope,
            self.registers.fragment(fragment).layout,
            [span for span, place in zip(cut, places, strict=True) if place >= 0],
            made,
        )
        window, condition = tiles.window(step, self.transfers.window_of(part.access, cut, at), places)
        loaded: ir.Stmt = ir.LoadGlobal(window, fragment, line=step.op.line)
        if condition is not None:
            loaded = ir.If(condition, (loaded,), (ir.Fill(fragment, padding(part.access)),), line=step.op.line)
        yield from (*made, loaded)

    def from_registers(self, task: Task, ring: Ring, held: int | None = None) -> list[ir.Stmt]:
        """A computed tile into the next slot. held: where it is, if not in the registers of its value."""
        cursor = self.cursors.of(ring.aref, "put")
        fragment = self.registers.of(task.made) if held is None else held
        target, line = ir.SlotRef(ring.buffer.id, cursor), task.node.line
        if ring.buffer.tensor:
            store = ir.StoreAccumulator(fragment, target, line=line)
            return [ir.Acquire(cursor, line=line), store, ir.Publish(cursor), ir.Advance(cursor)]
        put = (
            ir.StoreShared(fragment, target, line=line)
            if ring.scales is None
            else ir.StoreScales(fragment, target, line=line)
        )
        made: list[ir.Stmt] = [ir.Acquire(cursor, line=line), put]
        return [*made, *([ir.ProxyFence()] if ring.multiplied else []), ir.Publish(cursor), ir.Advance(cursor)]
