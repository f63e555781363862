"""Stores of tiles: through a staging buffer and the TMA, or by every thread for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from twill.codegen.aref import (
    BulkCommit,
    BulkWait,
    Operand,
    ProxyFence,
    Reg,
    SlotRef,
    Stmt,
    StoreGlobal,
    StoreShared,
    Sync,
    TmaStore,
)
from twill.codegen.layout import Accumulator
from twill.codegen.memory import element_bytes
from twill.codegen.operations import Scope, Tools
from twill.codegen.plan import Task
from twill.codegen.transfers import Part
from twill.graph.flat import UNIFORM, Step


@dataclass
class Stores:
    """The stores of one warp group. staging: its buffers, by shape and element."""

    tools: Tools
    staging: dict[tuple[tuple[int, ...], str], int] = field(default_factory=dict)
    bulk: bool = False

    def store(self, task: Task, scope: Scope) -> None:
        """A store or reduction of a tile; appends to the scope."""
        step = scope.flat.steps[task.steps[-1]]
        assert step.op.access is not None
        combine = str(dict(step.op.attributes).get("combine", "add")) if step.op.kind == "tile_reduce" else ""
        operand = self.operand(step, scope)
        layout = scope.registers.fragment(operand.fragment).layout if isinstance(operand, Reg) else None
        if step.op.access.transport == "tma" and isinstance(layout, Accumulator) and isinstance(operand, Reg):
            scope.made += self.through_shared(task, step, scope, operand.fragment, combine)
            return
        cell = step.operands[0] if step.operands[0] != UNIFORM else -1
        part = Part(step.op.access, cell, task.block)
        window = self.tools.transfers.window(part, scope.at)
        mask = scope.fragment(step.operands[1]) if len(step.operands) > 1 else None
        scope.made.append(StoreGlobal(window, operand, mask, combine, line=step.op.line))

    def operand(self, step: Step, scope: Scope) -> Operand:
        """The tile to store, in registers."""
        if step.operands[0] == UNIFORM:
            return scope.scalars.value(step.op.operands[0], scope.at)
        shown = scope.shown(step.operands[0], step.operands[0])
        if isinstance(shown, Reg) and not shown.axes:
            return shown
        return Reg(scope.fragment(step.operands[0]))

    def through_shared(self, task: Task, step: Step, scope: Scope, fragment: int, combine: str) -> Iterator[Stmt]:
        """Registers to a staging buffer, all of the group, then one thread's bulk copy."""
        assert step.op.access is not None
        part = Part(step.op.access, step.operands[0], task.block)
        shape, element = scope.tiles.core(step.operands[0]), step.op.access.element
        buffer = self.tools.memory.buffers[self.buffer(shape, element)]
        barrier = self.tools.memory.barrier(f"group {self.tools.group}", (self.tools.group,)).id
        tile = replace(buffer, shape=shape)
        made_map = self.tools.transfers.map(part, tile)
        width = buffer.shape[1]
        self.bulk = True
        for first in range(0, shape[1], width):
            columns = (first, first + width)
            yield BulkWait(0, read=True, line=task.node.line)
            yield Sync(barrier)
            yield StoreShared(
                fragment, SlotRef(buffer.id), columns=None if width == shape[1] else columns, line=task.node.line
            )
            yield ProxyFence()
            yield Sync(barrier)
            for box in self.tools.transfers.boxes(part, tile, scope.at):
                assert box.columns is not None
                if not columns[0] <= box.columns[0] < columns[1]:
                    continue
                inside = (box.columns[0] - first, box.columns[1] - first)
                source = SlotRef(buffer.id, None, box.rows, inside)
                yield TmaStore(made_map.id, box.coordinates, source, combine, line=task.node.line)
            yield BulkCommit()

    def buffer(self, shape: tuple[int, ...], element: str) -> int:
        """The staging buffer for tiles of a shape: as many panels of it as fit."""
        if (shape, element) not in self.staging:
            width = shape[1]
            least = min(128 // element_bytes(element), width)
            while width > least and prod((shape[0], width)) * element_bytes(element) > self.room():
                width //= 2
            name = f"staging {self.tools.group}"
            self.staging[shape, element] = self.tools.memory.buffer(name, (shape[0], max(width, least)), element, 1).id
        return self.staging[shape, element]

    def room(self) -> int:
        """Bytes that one group may take for staging: its share of what the rings leave."""
        groups = [g for g in self.tools.plan.groups if not g.issuer]
        left = self.tools.plan.capacity - self.tools.rings.bytes - 1024
        return left // len(groups)

    def finish(self) -> list[Stmt]:
        """Nothing is left behind when the CTA ends."""
        return [BulkWait(0, read=False)] if self.bulk else []
