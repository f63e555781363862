"""Fused program instances: neighbours in the launch grid that a CTA works on at once.

Where a schedule fuses instances s, s + 1, ... along a dimension class, what each of them loads, computes and stores
along that class lies right behind the one before, and all else is the same for all (`twill.graph.origin`). So together
they are one instance with a tile so many times as long, cut into row blocks, and the lowering goes on with that tile:
every row block belongs to one instance, and tiles without the class are made once. Row numbers count on from the first
instance's.

The launch grid need not be a multiple: the last instances of a group may not exist. What they load by the TMA is
harmless (zeros, or rows of others, and nothing of it is stored); every other access is under the guard of `exists`.
"""

from __future__ import annotations

from dataclasses import replace

from twill import exc
from twill.codegen.warp.expression import Apply, Expr, Number, NumPrograms, ProgramId, less
from twill.codegen.warp.program import Fused
from twill.graph.build import Wired
from twill.graph.origin import fusing_scalars
from twill.tile.flat import UNIFORM, Step
from twill.tile.program import Access, Op


def fuse(wired: Wired, dim: int, count: int) -> tuple[Wired, Fused]:
    """The program of `count` neighbours along dimension class `dim` at once, and which neighbours these are.

    Its tiles along the class are `count` times as long; the program of the kernel, which says what is computed, is the
    same. Raises UnsupportedInKernel.
    """
    scalars = fusing_scalars(wired.program, wired.uniformity, wired.flat, wired.classes, wired.wiring, dim)
    if not scalars:
        raise exc.UnsupportedInKernel(
            f"the schedule fuses {count} program instances that are not alike", file=wired.program.file,
            hint="solve the kernel again",
        )  # fmt: skip
    axis = wired.uniformity.makers[scalars[0]].attribute("axis")
    return widened(wired, dim, count), Fused(int(str(axis)), count)


def exists(fused: Fused, number: int) -> Expr:
    """Whether the instance of that number within its group is one of the launch grid."""
    return less(Apply("add", (ProgramId(fused.axis), Number(number)), "i32"), NumPrograms(fused.axis))


def widened(wired: Wired, dim: int, count: int) -> Wired:
    """The same steps on tiles that are `count` times as long along a dimension class."""
    classes = wired.classes

    def longer(cell: int, extents: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(e * count if c == dim else e for e, c in zip(extents, classes.of[cell], strict=True))

    def step(old: Step) -> Step:
        op = old.op
        if op.kind == "range" and dim in classes.of[old.results[0]]:
            return replace(old, op=longer_range(op, count))
        tile = old.results[0] if old.results else old.operands[0]
        if op.access is None or tile == UNIFORM:
            return old
        return replace(old, op=replace(op, access=longer_access(op.access, classes.of[tile], dim, count)))

    cells = tuple(
        replace(cell, type=replace(cell.type, shape=longer(cell.id, cell.type.shape))) for cell in wired.flat.cells
    )
    flat = replace(wired.flat, cells=cells, steps=tuple(map(step, wired.flat.steps)))
    return replace(wired, flat=flat, classes=replace(classes, size={**classes.size, dim: classes.size[dim] * count}))


def longer_range(op: Op, count: int) -> Op:
    """A range that goes on for the instances behind the first one."""
    start, end = int(str(op.attribute("start"))), int(str(op.attribute("end")))
    changed = {"end": start + count * (end - start)}
    return replace(op, attributes=tuple((name, changed.get(name, value)) for name, value in op.attributes))


def longer_access(access: Access, classes: tuple[int, ...], dim: int, count: int) -> Access:
    """An access that goes on for the instances behind the first one."""
    axes = zip(access.axes, classes, strict=True)
    return replace(access, axes=tuple(replace(a, extent=a.extent * count) if c == dim else a for a, c in axes))
