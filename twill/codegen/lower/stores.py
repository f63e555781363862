"""Stores of tiles: through a staging buffer and the TMA, or by every thread for itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from twill import exc
from twill.codegen.lower.elected import elect, follow
from twill.codegen.lower.memory import element_bytes
from twill.codegen.lower.operations import LoweringScope, Tools
from twill.codegen.lower.staging import hosts, panel_columns, panels
from twill.codegen.lower.task import Task
from twill.codegen.lower.transfers import Part
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr, Number
from twill.codegen.warp.layout import WARP_ROWS, Accumulator, Layout, Uniform
from twill.tile.flat import UNIFORM, Step
from twill.tile.vocabulary import ELECTED, combining

PACKED = 2  # bytes of elements that a register holds two of


@dataclass(frozen=True)
class HostSlot:
    """The slot of a ring that a group fills next."""

    buffer: int
    cursor: int


@dataclass
class Stores:
    """The stores of one warp group. staging: its buffers, by shape and element. committed: the buffers of its bulk
    groups so far, in the order of the program, which is that of execution unless one is in a loop. through_rings:
    whether tiles leave through rings that the group fills in its loops."""

    tools: Tools
    staging: dict[tuple[tuple[int, ...], str], list[int]] = field(default_factory=dict)
    committed: list[int] = field(default_factory=list)
    in_loop: bool = False
    through_rings: bool = False

    def store(self, task: Task, scope: LoweringScope) -> None:
        """A store or reduction of a tile; appends to the scope."""
        step = scope.flat.steps[task.steps[-1]]
        if step.op.kind == ELECTED:
            elect(task, step, scope, bool(self.committed))
            return
        assert step.op.access is not None
        combine = combining(dict(step.op.attributes)) if step.op.kind == "tile_reduce" else ""
        if step.op.results:
            self.exchange(task, step, scope, combine)
            return
        across = self.across(step, scope)
        if across is not None:
            scope.made += self.through_shared(task, step, scope, across, combine, transposed=True)
            return
        operand = self.operand(step, scope)
        layout = scope.registers.fragment(operand.fragment).layout if isinstance(operand, ir.Reg) else None
        if step.op.access.transport == "tma" and isinstance(layout, Accumulator) and isinstance(operand, ir.Reg):
            by_tma = tuple(self.through_shared(task, step, scope, operand.fragment, combine))
            scope.made += self.where_aligned(task, step, scope, by_tma, operand)
            return
        cell = step.operands[0] if step.operands[0] != UNIFORM else -1
        part = Part(step.op.access, cell, task.block)
        if step.op.access.indices:
            scope.made += self.scatter(step, part, operand, combine, scope)
            return
        window = self.tools.transfers.window(part, scope.at)
        mask, condition = self.mask(step, scope, layout)
        if mask is not None and not isinstance(operand, ir.Reg) and cell >= 0:
            operand = ir.Reg(scope.fragment(cell, scope.layout_of(mask)))
        stored: ir.Stmt = ir.StoreGlobal(window, operand, mask, combine, line=step.op.line)
        if condition is not None:
            stored = ir.If(condition, (stored,), line=step.op.line)
        scope.made.append(stored)

    def follow(self, task: Task, scope: LoweringScope) -> None:
        """What another warp group's thread does, for this group."""
        follow(task, scope.flat.steps[task.steps[-1]], scope, bool(self.committed))

    def exchange(self, task: Task, step: Step, scope: LoweringScope, combine: str) -> None:
        """A tile that is combined with what is in memory, which is read. Errors: UnsupportedInKernel."""
        access, number = step.op.access, task.steps[-1]
        assert access is not None
        if len(self.tools.plan.groups) > 1:
            raise exc.UnsupportedInKernel(
                "the old values of an atomic operation, in a kernel of several warp groups",
                file=self.tools.plan.wired.program.file, line=step.op.line, hint="a kernel without tl.dot",
            )  # fmt: skip
        result, made = scope.result(number), list[ir.Stmt]()
        layout, cell = scope.layout_of(result), step.results[0]
        operand = self.operand(step, scope)
        if isinstance(operand, ir.Reg):
            operand = ir.Reg(scope.fragment(step.operands[0], layout))
        else:
            held = scope.temporary(cell, layout)
            scope.made.append(ir.Fill(held, operand))
            operand = ir.Reg(held)
        part = Part(access, cell, task.block)
        if access.indices:
            window, condition = scope.picked(step, part, layout, made)
            mask = None
        else:
            window = self.tools.transfers.window(part, scope.at)
            mask, condition = self.mask(step, scope, layout)
        order = str(step.op.attribute("order"))
        stored: ir.Stmt = ir.StoreGlobal(window, operand, mask, combine, old=result, order=order, line=step.op.line)
        if condition is not None:
            nothing = ir.Fill(result, Number(0, access.element))
            stored = ir.If(condition, (stored,), (nothing,), line=step.op.line)
        scope.made += [*made, stored]

    def where_aligned(
        self, task: Task, step: Step, scope: LoweringScope, stored: tuple[ir.Stmt, ...], operand: ir.Operand
    ) -> tuple[ir.Stmt, ...]:
        """What the TMA stores through a map of the group's, or threads where there can be no such map."""
        assert step.op.access is not None
        part = Part(step.op.access, step.operands[0], task.block)
        aligned = self.aligned(part, scope) if step.op.access.made else None
        if aligned is None:
            return stored
        _, condition = self.mask(step, scope)
        plain: ir.Stmt = ir.StoreGlobal(self.tools.transfers.window(part, scope.at), operand, line=step.op.line)
        if condition is not None:
            plain = ir.If(condition, (plain,), line=step.op.line)
        return (ir.If(aligned, stored, (plain,), line=task.node.line),)

    def aligned(self, part: Part, scope: LoweringScope) -> Expr | None:
        """Whether a tile can be stored by the TMA, where that is not known."""
        return self.tools.transfers.aligned(self.tools.transfers.view(part, scope.at))

    def scatter(
        self, step: Step, part: Part, operand: ir.Operand, combine: str, scope: LoweringScope
    ) -> tuple[ir.Stmt, ...]:
        """A tile whose elements have addresses of their own."""
        made: list[ir.Stmt] = []
        if isinstance(operand, ir.Reg) and not operand.axes:
            tile = operand.fragment
        elif isinstance(operand, ir.Reg) or part.cell >= 0:
            tile = scope.fragment(part.cell)
        else:  # one number, which everybody knows
            tile = scope.registers.new("", part.access.element, Uniform())
            made.append(ir.Fill(tile, operand, line=step.op.line))
        layout = scope.registers.fragment(tile).layout
        window, condition = scope.picked(step, part, layout, made)
        stored: ir.Stmt = ir.StoreGlobal(window, ir.Reg(tile), None, combine, line=step.op.line)
        if condition is not None:
            stored = ir.If(condition, (stored,), line=step.op.line)
        return (*made, stored)

    def mask(self, step: Step, scope: LoweringScope, layout: Layout | None = None) -> tuple[int | None, Expr | None]:
        """The elements to store, in the layout of what is stored, and whether any are, if one scalar says so for all of
        them."""
        if len(step.operands) < 2:
            return None, None
        spread = step.operands[1] != UNIFORM
        known = scope.constant(scope.tiles.view(step.operands[1]).base) if spread else None
        if spread and known is None:
            return scope.fragment(step.operands[1], layout), None
        condition = scope.scalars.value(step.op.operands[1], scope.at) if known is None else known
        return None, None if isinstance(condition, Number) and condition.value else condition

    def operand(self, step: Step, scope: LoweringScope) -> ir.Operand:
        """The tile to store, in registers."""
        if step.operands[0] == UNIFORM:
            return scope.scalars.value(step.op.operands[0], scope.at)
        shown = scope.shown(step.operands[0], step.operands[0])
        if isinstance(shown, ir.Reg) and not shown.axes:
            return shown
        return ir.Reg(scope.fragment(step.operands[0]))

    def across(self, step: Step, scope: LoweringScope) -> int | None:
        """The variable whose transpose is stored, if threads can write it transposed into a staging buffer for all of
        the tile; None if it has to be transposed in registers, or is stored as it is."""
        assert step.op.access is not None
        cell, tiles = step.operands[0], scope.tiles
        if step.op.access.transport != "tma" or cell == UNIFORM or len(tiles.core(cell)) != 2:
            return None
        if step.op.access.made and self.aligned(Part(step.op.access, cell, -1), scope) is not None:
            return None
        view = tiles.view(cell)
        if tiles.core_map(view, cell) != (1, 0) or scope.constant(view.base) is not None:
            return None
        shape, element, layout = tiles.core(cell), step.op.access.element, tiles.layout(view.base)
        whole = panels(shape, element) <= self.tools.rings.panels
        if not isinstance(layout, Accumulator) or not (whole or has_panels(layout, shape, element, tiles.target.warps)):
            return None
        return scope.base(view.base, False, layout)

    def through_shared(
        self, task: Task, step: Step, scope: LoweringScope, fragment: int, combine: str, transposed: bool = False
    ) -> Iterator[ir.Stmt]:
        """Registers, or their transpose, to a staging buffer, all of the group, then one thread's bulk copy, if the
        condition holds."""
        assert step.op.access is not None
        _, condition = self.mask(step, scope)
        part = Part(step.op.access, step.operands[0], task.block)
        shape, element = scope.tiles.core(step.operands[0]), step.op.access.element
        host = self.host(shape, element)
        if host is not None:
            yield ir.Acquire(host.cursor, line=task.node.line)
        buffers = [self.tools.memory.buffers[number] for number in self.buffers(shape, element, host)]
        barrier = self.tools.memory.barrier(f"group {self.tools.own}", (self.tools.own,)).id
        tile = replace(buffers[0], shape=shape)
        transfers, own = self.tools.transfers, part.access.made
        seen = transfers.described(part, tile, scope.at)
        line = task.node.line
        made_map = transfers.made.of(seen, line, where=transfers.aligned(seen)) if own else transfers.memory.map(seen)
        width = buffers[0].shape[1]
        passing = not combine and not self.tools.plan.is_read(step.op.access.base)
        turns = in_turns(shape[1] // width, len(buffers))
        for number, first in enumerate(range(0, shape[1], width)):
            columns, buffer = (first, first + width), buffers[turns[number]]
            younger = self.younger(buffer.id, since(turns, number), scope)
            if own:  # threads may have stored another tile instead: only this one's panels are known to be younger
                younger = turns[:number][::-1].index(turns[number]) if turns[number] in turns[:number] else number
            yield ir.BulkWait(younger, read=True, line=line)
            yield ir.Sync(barrier)
            some = None if width == shape[1] else columns
            slot = ir.SlotRef(buffer.id, None if host is None else host.cursor)
            yield ir.StoreShared(fragment, slot, transposed, some, line=task.node.line)
            yield ir.ProxyFence()
            yield ir.Sync(barrier)
            stored: list[ir.Stmt] = []
            for box in self.tools.transfers.boxes(part, tile, scope.at):
                assert box.columns is not None
                if not columns[0] <= box.columns[0] < columns[1]:
                    continue
                inside = (box.columns[0] - first, box.columns[1] - first)
                source = replace(slot, rows=box.rows, columns=inside)
                stored.append(ir.TmaStore(made_map.id, box.coordinates, source, combine, passing, line=task.node.line))
            if condition is not None:
                stored = [ir.If(condition, tuple(stored), line=step.op.line)]
            yield from stored
            yield ir.BulkCommit()

    def younger(self, buffer: int, alike: int, scope: LoweringScope) -> int:
        """Stores of this group that may go on when it writes into a buffer again: those since the buffer's last. Of
        program instances before, all have been read. alike: those since its last where tiles of one shape follow one
        another, as in a loop, where there may be others between them."""
        known = buffer in self.committed
        pending = self.committed[::-1].index(buffer) if known else len(self.committed)
        self.committed.append(buffer)
        if scope.at.loop is not None:
            self.in_loop = True
            return alike if self.tools.rings.panels else 0
        return 0 if self.in_loop else pending

    def host(self, shape: tuple[int, ...], element: str) -> HostSlot | None:
        """Where tiles of a shape leave through a ring that the group fills in its loops."""
        if self.tools.rings.panels:
            return None
        self.through_rings = True
        ring = hosts(self.tools.plan, self.tools.rings.by_place)[self.tools.group, shape, element]
        return HostSlot(ring.buffer.id, self.tools.cursors.of(ring.aref, "put"))

    def before(self) -> list[ir.Stmt]:
        """In front of an instance: rings through which tiles of the last one left are filled again."""
        if not self.through_rings:
            return []
        barrier = self.tools.memory.barrier(f"group {self.tools.own}", (self.tools.own,)).id
        return [ir.BulkWait(0, read=True), ir.Sync(barrier)]

    def buffers(self, shape: tuple[int, ...], element: str, host: HostSlot | None = None) -> list[int]:
        """The staging buffers for tiles of a shape: one for all of it, or some of a panel each."""
        if host is not None:
            return [host.buffer]
        if (shape, element) not in self.staging:
            count, width = min(panels(shape, element), self.tools.rings.panels), panel_columns(shape, element)
            if count == panels(shape, element):
                count, width = 1, shape[1]
            name = f"staging {self.tools.own}"
            made = [self.tools.memory.buffer(name, (shape[0], width), element, 1).id for _ in range(count)]
            self.staging[shape, element] = made
        return self.staging[shape, element]

    def finish(self) -> list[ir.Stmt]:
        """Nothing is left behind when the CTA ends."""
        return [ir.BulkWait(0, read=False)] if self.committed else []


def has_panels(layout: Accumulator, shape: tuple[int, ...], element: str, warps: int) -> bool:
    """Whether a panel of what is stored transposed is some whole blocks of rows that the warps of a group hold."""
    packed = element_bytes(element) == PACKED and layout.warp_rows == WARP_ROWS
    return packed and not panel_columns(shape, element) % (layout.warp_rows * warps)


def in_turns(panels: int, buffers: int) -> tuple[int, ...]:
    """The buffer of each panel of a tile: all in turn; where the first panel of the next tile would follow the last one
    in its buffer, the last one goes to another, if there is one that was not the one before."""
    turns = [number % buffers for number in range(panels)]
    if panels > buffers > 2 and turns[-1] == turns[0]:
        turns[-1] = 1
    return tuple(turns)


def since(turns: Sequence[int], number: int) -> int:
    """Panels since the last one in the buffer of panel `number`, of this tile or of the one before."""
    before = (*turns, *turns[:number])
    return before[::-1].index(turns[number])
