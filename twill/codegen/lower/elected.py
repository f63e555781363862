"""What one thread does for all of its warp group, as a statement: `elected` of `twill.tile.vocabulary`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twill import exc
from twill.codegen.lower.reductions import scratch_of
from twill.codegen.lower.scalar_loops import lowered_region
from twill.codegen.warp.expression import Element, Expr, Local
from twill.codegen.warp.program import Elect
from twill.tile.program import TileProgram, loops_of, reads

if TYPE_CHECKING:
    from twill.codegen.lower.operations import LoweringScope
    from twill.tile.flat import Step

WORDS = 2  # of each result in the scratch buffer


def elect(step: Step, scope: LoweringScope) -> None:
    """Appends it to the scope. Errors: UnsupportedInKernel where several warp groups work on a program instance: others
    would need what is found out, and their accesses of memory an order with it."""
    plan, tools = scope.plan, scope.tools
    if len(plan.groups) > 1:
        raise exc.UnsupportedInKernel(
            "an atomic operation whose old value or order counts, in a kernel of several warp groups",
            file=plan.wired.program.file, line=step.op.line, hint="the operation in a kernel without tl.dot",
        )  # fmt: skip
    operands = [_operand(step, number, scope) for number in range(len(step.op.operands))]
    names = [tools.scalars.elected(result, step.op) for result in step.op.results]
    lowered = lowered_region(step.op, operands, tools.scalars.fresh)
    read = _read(plan.wired.program)
    every = zip(step.op.results, names, lowered.results, strict=True)
    used = [(name, value) for result, name, value in every if result in read and isinstance(name, Local)]
    scratch = scratch_of(scope, (WORDS * len(used),), "i32") if used else None
    barrier = tools.memory.barrier(f"group {tools.own}", (tools.own,)).id
    told, values = tuple(name.name for name, _ in used), tuple(value for _, value in used)
    scope.made.append(Elect(barrier, told, values, scratch, lowered.stmts, line=step.op.line))


def _read(program: TileProgram) -> frozenset[int]:
    """The values that anything reads."""
    found = {value for op in program.ops() for value in reads(op)}
    for loop in loops_of(program.body):
        found |= {loop.lower, loop.upper, loop.step}
        found |= {value for carry in loop.carried for value in (carry.init, carry.yielded)}
    return frozenset(found)


def _operand(step: Step, number: int, scope: LoweringScope) -> Expr:
    """An operand: a uniform scalar, or the one element of a fragment."""
    value = step.op.operands[number]
    if step.operands[number] < 0:
        return scope.scalars.value(value, scope.at)
    held = scope.registers.fragment(scope.fragment(step.operands[number]))
    return Element(held.id, held.element)
