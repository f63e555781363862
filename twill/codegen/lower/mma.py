"""MMAs of one warp group: their operands, accumulators and the statements that issue them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from twill import exc
from twill.codegen.lower.block_scales import copied_by, scales_at, sources_of
from twill.codegen.lower.operations import LoweringScope, Tools
from twill.codegen.lower.register_operands import is_held
from twill.codegen.lower.task import Task
from twill.codegen.lower.tensor_memory import accumulates
from twill.codegen.lower.tensor_use import EVERY_ITERATION, continues, last_of
from twill.codegen.lower.values import fetched, fetches, touched
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Number
from twill.tile.interpret.block_scales import SCALE_OPERANDS
from twill.tile.operand_order import QUADS


class MmaLowering:
    """Issues the MMAs of the group of `tools`."""

    def __init__(self, tools: Tools) -> None:
        self.tools, self.plan, self.registers = tools, tools.plan, tools.registers

    def touched(self, task: Task) -> tuple[int, ...]:
        """The fragments of an MMA that its retirement frees."""
        return tuple(map(self.registers.of, touched(self.plan, task)))

    def issue(self, task: Task, scope: LoweringScope) -> list[ir.Stmt]:
        """Fence and multiply; or multiply into tensor memory."""
        if self.plan.is_in_tensor_memory(task):
            return list(self.issue_into_tensor_memory(task, scope))
        step = self.plan.last_step(task)
        accumulator = self.registers.of(task.made)
        made: list[ir.Stmt] = []
        accumulate = self.start_accumulator(task, scope, accumulator, made)
        mmas: list[ir.Stmt] = []
        touched = [accumulator]
        element = self.plan.flat.cells[step.operands[0]].type.element
        depth = self.plan.tiles.shape(step.operands[0])[1]
        for block in self.plan.parts(task):
            a, b = (self.factor(task, scope, position, block) for position in (0, 1))
            assert isinstance(b[0], ir.SlotRef)
            right = self.columns(task, b[0], b[1])
            touched += [a[0]] if isinstance(a[0], int) else []
            product = ir.Multiply(accumulator, a[0], right, a[1], b[1], depth, element, accumulate, line=step.op.line)
            mmas.append(replace(product, quads=QUADS in dict(step.op.attributes)))
            accumulate = True
        return [*made, ir.Fence(tuple(touched)), *mmas]

    def issue_into_tensor_memory(self, task: Task, scope: LoweringScope) -> Iterator[ir.Stmt]:
        """Into the slot that the group has waited for: in front of the loop, or now; or that others hand to it."""
        step = self.plan.last_step(task)
        last = last_of(self.plan, task)
        ring = self.tools.rings.by_place[last.place]
        mine = ring.aref.producer in task.groups
        cursor = self.tools.cursors.of(ring.aref, "put" if mine else "get")
        target = ir.SlotRef(ring.buffer.id, cursor)
        every = ring.use in EVERY_ITERATION
        if every and continues(self.plan, task) is None:
            yield ir.Acquire(cursor, line=step.op.line)
        element = self.plan.flat.cells[step.operands[0]].type.element
        depth = self.plan.tiles.shape(step.operands[0])[1]
        more = accumulates(task, scope.at.number, self.tools)
        scales = [*self.scales(task, scope)]
        yield from dict.fromkeys(copy for copy, mine in scales if mine)
        for block in self.plan.parts(task):
            (a, a_across), (b, b_across) = (self.factor(task, scope, position, block) for position in (0, 1))
            assert isinstance(a, ir.SlotRef) and isinstance(b, ir.SlotRef)
            right = self.columns(task, b, b_across)
            made = ir.TensorMultiply(target, a, right, a_across, b_across, depth, element, more, line=step.op.line)
            if scales:
                of_a, of_b = (copy.target for copy, _ in scales)
                made = replace(made, of_a=of_a, of_b=of_b, block=int(str(step.op.attribute("block"))))
            yield made
            more = Number(1, "i1")
        if every and last is task:
            yield from (ir.Publish(cursor, behind=True, line=step.op.line), ir.Advance(cursor))

    def scales(self, task: Task, scope: LoweringScope) -> Iterator[tuple[ir.CopyScales, bool]]:
        """The copies of those of A and of B to tensor memory, and whether it is this product that makes them."""
        step = self.plan.last_step(task)
        for position, source in zip(SCALE_OPERANDS, sources_of(self.plan, task) or (), strict=False):
            slot, ring = scope.slot(source), self.tools.rings.by_place[self.plan.place_of(source)]
            assert slot is not None and ring.scales is not None
            rows, mine = scales_at(self.plan, step, position).rows, copied_by(self.plan, source).place == task.place
            yield ir.CopyScales(slot, replace(slot, buffer=ring.scales.id), rows, line=step.op.line), mine

    def columns(self, task: Task, b: ir.SlotRef, transposed: bool) -> ir.SlotRef:
        """The columns of B that make a task's part of an MMA: all, if it is not made in parts of them."""
        if task.place[:2] not in self.plan.tiles.columns:
            return b
        step = self.plan.last_step(task)
        width = self.plan.tiles.shape(step.results[0])[1]
        span = (width * task.block, width * (task.block + 1))
        return replace(b, rows=span) if transposed else replace(b, columns=span)

    def factor(self, task: Task, scope: LoweringScope, position: int, block: int) -> tuple[int | ir.SlotRef, bool]:
        """Operand A (position 0) or B (1) of an MMA, and whether it is the transpose of the tile that is there."""
        step = self.plan.last_step(task)
        cell = step.operands[position]
        source = self.plan.source(cell, block)
        if source is None:
            raise exc.UnsupportedInKernel(
                "a product of a constant tile",
                file=self.plan.wired.program.file,
                line=step.op.line,
                hint="tl.sum of the other operand, times the constant",
            )
        slot = scope.slot(source) if self.plan.in_slot(task, step, position, source) else None
        if position == 0 and fetches(self.plan, task, block):
            fragment, line = self.registers.of(fetched(task, block)), step.op.line
            across = self.plan.tiles.is_transposed(cell)
            if slot is not None:
                scope.made.append(ir.LoadShared(slot, fragment, across, line=line))
            else:
                scope.made += scope.moved(scope.find(source), fragment, across, line)
            return fragment, False
        if is_held(self.plan, task, position, source):
            return self.registers.of(source.made), False
        transposed = self.plan.tiles.is_transposed(cell)
        return (scope.find(source) if slot is None else slot), transposed

    def start_accumulator(self, task: Task, scope: LoweringScope, accumulator: int, made: list[ir.Stmt]) -> bool:
        """Brings the addend into the accumulator; False if there is none, so that the MMA overwrites it."""
        step = self.plan.last_step(task)
        if len(step.operands) < 3:
            return False
        addend = scope.shown(step.operands[2], step.results[0])
        if not isinstance(addend, ir.Reg):
            if addend == Number(0.0, addend.element):
                return False
            made.append(ir.Fill(accumulator, addend, line=step.op.line))
        elif addend.axes:  # a vector that is spread over the matrix
            made.append(ir.Compute("cast", (addend,), accumulator, line=step.op.line))
        elif addend.fragment != accumulator:
            made.append(ir.Copy(addend.fragment, accumulator, line=step.op.line))
        return True
