"""Threads that change an accumulator in tensor memory between the MMAs that add to it.

They wait until the MMA of the iteration before is over, read the accumulator some columns at a time, compute, write it
back and hand it on. In the first iteration what it begins with takes the place of what is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill import exc
from twill.codegen.lower.operations import LoweringScope
from twill.codegen.lower.task import Source, Task
from twill.codegen.lower.tensor_memory import initial_of
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Number, less
from twill.codegen.warp.layout import Accumulator
from twill.tile.flat import Step
from twill.tile.vocabulary import ELEMENTWISE

PIECE = 32  # columns that are in registers at a time


@dataclass
class PieceScope(LoweringScope):
    """A place where steps are computed for some columns of a matrix. pieces: variables of their results, by step."""

    pieces: Mapping[int, int] = field(default_factory=dict)

    def result(self, number: int) -> int:
        """The variable of a step's result."""
        return self.pieces[number] if number in self.pieces else super().result(number)


def update(task: Task, scope: LoweringScope) -> list[ir.Stmt]:
    """The statements of a task that changes an accumulator in one iteration. Raises UnsupportedInKernel."""
    return _Update(task, scope).stmts()


class _Update:
    def __init__(self, task: Task, scope: LoweringScope) -> None:
        self.task, self.scope, self.tools = task, scope, scope.tools
        plan = self.tools.plan
        self.product = plan.tasks[task.region, plan.updaters[task.place[:2]], task.block]
        self.ring = self.tools.rings.by_place[self.product.place]
        self.refuse_matrices()

    def stmts(self) -> list[ir.Stmt]:
        """All of them."""
        cursor, line = self.tools.cursors.of(self.ring.aref, "put"), self.task.node.line
        made: list[ir.Stmt] = [ir.Acquire(cursor, line=line)]
        columns = self.ring.buffer.shape[1]
        width = PIECE if columns % PIECE == 0 else columns
        variables = [self.variables(width) for _ in range(min(2, columns // width))]
        for number, first in enumerate(range(0, columns, width)):
            ref = ir.SlotRef(self.ring.buffer.id, cursor, None, (first, first + width) if width < columns else None)
            made += self.piece(ref, *variables[number % len(variables)])
        return [*made, ir.Publish(cursor, line=line), ir.Advance(cursor)]

    def variables(self, width: int) -> tuple[int, dict[int, int]]:
        """For a piece of the accumulator, and for the results of the steps: the last one's may take the place of it."""
        rows, buffer = self.ring.buffer.shape[0], self.ring.buffer
        layout = Accumulator(rows, width, self.tools.plan.tiles.target.warp_rows_of(rows))

        def new(name: str) -> int:
            return self.tools.registers.new(name, buffer.element, layout)

        held = new(f"{buffer.name.replace('.', '_')}_part")
        matrices = [number for number in self.task.steps if self.is_matrix(self.result(number))]
        return held, {number: held if number == matrices[-1] else new("part") for number in matrices}

    def piece(self, ref: ir.SlotRef, held: int, results: Mapping[int, int]) -> list[ir.Stmt]:
        """Some columns: read, changed, written."""
        line = self.task.node.line
        begins = initial_of(self.product, self.tools)
        load = ir.LoadAccumulator(ref, held, line=line)
        made: list[ir.Stmt] = [
            ir.If(less(Number(0), self.scope.at.number), (load,), (ir.Fill(held, begins, line=line),))
        ]
        outer = self.scope.find

        def find(source: Source) -> int:
            if self.tools.plan.updates(self.task, source):
                return held
            return results[source.step] if source.step in results and not source.distance else outer(source)

        inner = PieceScope(self.tools, self.scope.at, self.task.block, find, self.scope.slot, made, pieces=results)
        inner.run(self.task)
        return [*made, ir.StoreAccumulator(results[max(results)], ref, line=line)]

    def result(self, number: int) -> int:
        """The cell of a step's result."""
        return self.tools.plan.flat.steps[number].results[0]

    def is_matrix(self, cell: int) -> bool:
        """Whether a cell is of the accumulator's shape."""
        return len(self.tools.plan.tiles.core(cell)) > 1

    def refuse_matrices(self) -> None:
        """Raises UnsupportedInKernel for an operand that is another matrix: nobody has pieces of that in registers."""
        plan = self.tools.plan
        for step in (plan.flat.steps[number] for number in self.task.steps):
            if step.op.kind not in ELEMENTWISE:
                self.refuse(step, f"`{step.op.kind}`")
            for cell in step.cells():
                base = plan.tiles.view(cell).base
                source = plan.source(cell, self.task.block)
                own = source is not None and (source.step in self.task.steps or plan.updates(self.task, source))
                if self.is_matrix(base) and not own and self.scope.constant(base) is None:
                    self.refuse(step, "another matrix")

    def refuse(self, step: Step, what: str) -> None:
        """Raises UnsupportedInKernel at a step's line."""
        raise exc.UnsupportedInKernel(
            f"an accumulator in tensor memory is changed by {what} in its loop",
            file=self.tools.plan.wired.program.file, line=step.op.line, hint="factors of its rows, or of all of it",
        )  # fmt: skip
