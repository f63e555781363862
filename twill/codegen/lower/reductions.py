"""Reductions and scans as statements of one warp group, and the scratch memory that those across warps need."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from twill import exc
from twill.codegen.lower.conversions import fits, reduced_layout
from twill.codegen.warp.expression import Expr, Number, NumPrograms, ProgramId, add, multiply
from twill.codegen.warp.layout import crosses_warps, shape_of
from twill.codegen.warp.ownership import register_moves
from twill.codegen.warp.program import Copy, Histogram, Rearrange, Reduce, Scan, SumParts
from twill.graph.work import BITS

if TYPE_CHECKING:
    from twill.codegen.lower.operations import LoweringScope
    from twill.tile.flat import Step


def reduce(scope: LoweringScope, number: int, step: Step) -> None:
    """A reduction of a matrix to a vector, or of a vector to a number."""
    cell = step.operands[0]
    operand = scope.fragment(cell)
    axes = scope.tiles.core_axes(cell)
    wanted = int(str(step.op.attribute("axis")))
    layout, result = scope.layout_of(operand), scope.result(number)
    axis = axes.index(wanted) if wanted in axes else -1
    if axis < 0:
        scope.made += scope.moved(operand, result, line=step.op.line)
        return
    natural = reduced_layout(layout, axis, scope.tiles.target)
    if natural is None:
        scope.refuse(step, f"a reduction of axis {wanted} of {shape_of(layout)}", "the first or the last axis")
    assert natural is not None
    into = result
    if not fits(natural, scope.layout_of(result)):
        held = scope.registers.fragment(result)
        into = scope.registers.new(f"{held.name}_reduced", held.element, natural)
    scratch = barrier = None
    if crosses_warps(layout, natural, axis):
        values = max(1, math.prod(shape_of(natural)))
        element = scope.registers.fragment(operand).element
        word = "i32" if element.startswith("i") else "f32"
        scratch = scratch_of(scope, (scope.tiles.target.warps * values,), word)
        barrier = scope.tools.memory.barrier(f"group {scope.tools.own}", (scope.tools.own,)).id
    combine = str(step.op.attribute("combine"))
    said = tuple((name, value) for name, value in step.op.attributes if name not in ("axis", "combine"))
    scope.made.append(Reduce(operand, into, axis, combine, scratch, barrier, said, line=step.op.line))
    if into != result:
        scope.made += scope.moved(into, result, line=step.op.line)


def scan(scope: LoweringScope, number: int, step: Step) -> None:
    """A scan along one axis of a matrix, or of a vector."""
    cell, result = step.operands[0], scope.result(number)
    operand = scope.fragment(cell, scope.layout_of(result))
    axes, wanted = scope.tiles.core_axes(cell), int(str(step.op.attribute("axis")))
    if wanted not in axes:  # of one element
        scope.made.append(Copy(operand, result, line=step.op.line))
        return
    held = scope.registers.fragment(operand)
    if held.element == "i1":
        scope.refuse(step, "a scan of truth values is not emitted", "a scan of tl.int32")
    words = math.prod(scope.tiles.core(cell)) * max(1, BITS[held.element] // 32)
    scratch = scratch_of(scope, (words,), "i32" if held.element.startswith("i") else "f32")
    barrier = scope.tools.memory.barrier(f"group {scope.tools.own}", (scope.tools.own,)).id
    combine, reverse = str(step.op.attribute("combine")), bool(step.op.attribute("reverse"))
    said = tuple((n, value) for n, value in step.op.attributes if n not in ("axis", "combine", "reverse"))
    axis = axes.index(wanted)
    scan = Scan(operand, result, axis, combine, scratch, barrier, reverse, said, line=step.op.line)
    scope.made.append(scan)


def rearrange(scope: LoweringScope, number: int, step: Step) -> None:
    """Elements of tiles in another order, or that a tile of indices says; what has none in registers so far is made
    there."""
    result = scope.result(number)
    gathers = step.op.kind == "gather"
    first, extents, steps = gathered_digits(scope, step) if gathers else digits(step)
    operands = tuple(scope.fragment(cell) for cell in step.operands[: 1 if gathers else None])
    alone = not gathers and len(operands) == 1 and (first, steps) == (0, (1,))
    if alone and fits(scope.layout_of(operands[0]), scope.layout_of(result)):
        scope.made += scope.moved(operands[0], result, line=step.op.line)
        return
    layouts = [scope.layout_of(operand) for operand in operands]
    if not gathers and register_moves(layouts, scope.layout_of(result), (first, extents, steps)) is not None:
        scope.made.append(Rearrange(operands, result, first, extents, steps, None, None, line=step.op.line))
        return
    element = scope.registers.fragment(result).element
    room = sum(math.prod(shape_of(scope.layout_of(operand))) for operand in operands) * max(8, BITS[element]) // 8
    scratch = scratch_of(scope, (-(-room // 4),), "i32" if element.startswith("i") else "f32")
    barrier = scope.tools.memory.barrier(f"group {scope.tools.own}", (scope.tools.own,)).id
    made = Rearrange(operands, result, first, extents, steps, scratch, barrier, line=step.op.line)
    if gathers:
        shape, axis = scope.tiles.shape(step.operands[0]), int(str(step.op.attribute("axis")))
        index = scope.fragment(step.operands[1], scope.layout_of(result))
        made = replace(made, index=index, along=math.prod(shape[axis + 1 :]), extent=shape[axis])
    scope.made.append(made)


def histogram(scope: LoweringScope, number: int, step: Step) -> None:
    """How many elements of a vector are 0, 1, ...; threads add to words of shared memory."""
    cells, result = step.operands, scope.result(number)
    operand = scope.fragment(cells[0])
    mask = scope.fragment(cells[1], scope.layout_of(operand)) if len(cells) > 1 else None
    scratch = scratch_of(scope, scope.tiles.shape(step.results[0]), "i32")
    barrier = scope.tools.memory.barrier(f"group {scope.tools.own}", (scope.tools.own,)).id
    scope.made.append(Histogram(operand, result, scratch, barrier, mask, line=step.op.line))


def gathered_digits(scope: LoweringScope, step: Step) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Of a gather: the places of its elements where all indices are 0."""
    shape, extents = scope.tiles.shape(step.operands[0]), scope.tiles.shape(step.operands[1])
    axis = int(str(step.op.attribute("axis")))
    steps = (0 if n == axis else math.prod(shape[n + 1 :]) for n in range(len(shape)))
    return 0, extents, tuple(steps)


def digits(step: Step) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Of a rearrangement: `twill.tile.digits.Digits`."""
    first, extents, steps = (step.op.attribute(name) for name in ("first", "extents", "steps"))
    assert isinstance(first, int)
    assert isinstance(extents, tuple)
    assert isinstance(steps, tuple)
    return first, extents, steps


def sum_parts(scope: LoweringScope, number: int, step: Step) -> None:
    """The sum of what several program instances have of a matrix; each row block is a sum of its own. Another instance
    may be the last of another row block, and `last_part` is one scalar, so that a warp group has one row block. Errors:
    UnsupportedInKernel."""
    if scope.tools.summed:
        raise exc.UnsupportedInKernel(
            "K is split, and a warp group has several row blocks, of which different parts may be the last",
            file=scope.tools.scalars.program.file, line=step.op.line, hint="a tile of fewer rows, or no --split",
        )  # fmt: skip
    scope.tools.summed.append(scope.block)
    result = scope.result(number)
    operand = scope.fragment(step.operands[0], scope.layout_of(result))
    axis = int(str(step.op.attribute("axis")))
    slot: Expr = Number(0)
    for other in reversed(range(axis)):
        slot = add(multiply(slot, NumPrograms(other)), ProgramId(other))
    blocks = scope.tiles.split if scope.block >= 0 else 1
    slot = add(multiply(slot, Number(blocks)), Number(max(scope.block, 0)))
    of = ProgramId(axis), NumPrograms(axis)
    scratch = scratch_of(scope, (scope.tiles.target.warps,), "i32")
    barrier = scope.tools.memory.barrier(f"group {scope.tools.own}", (scope.tools.own,)).id
    scope.made.append(SumParts(operand, result, slot, *of, scratch, barrier, line=step.op.line))


def scratch_of(scope: LoweringScope, shape: tuple[int, ...], element: str) -> int:
    """The group's buffer for reductions across warps; two in turn if they are small, so that one may be written
    while slow threads still read the other (`twill.codegen.passes.exchanges`)."""
    scope.tools.exchanges.append(shape[0])
    turn = len(scope.tools.exchanges) % 2 if shape == (scope.tiles.target.warps,) else 0
    name = f"scratch {scope.tools.own}" + (" in turn" if turn else "")
    for known in scope.tools.memory.buffers:
        if known.name == name and known.element == element and known.shape >= shape:
            return known.id
    return scope.tools.memory.buffer(name, shape, element, 1).id
