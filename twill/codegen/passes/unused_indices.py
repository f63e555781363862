"""What no warp group asks for is not computed: grid indices of an instance, and what they alone are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Expr, Local, Number, ProgramId
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import PublishInstance, SetProgramId, Stmt, WarpGroup, WarpProgram
from twill.codegen.warp.scheduling import SchedulingStmt, StopUnless
from twill.codegen.warp.verifier import defined_by


def asked(group: WarpGroup, walk: tuple[Stmt, ...] = ()) -> frozenset[int]:
    """Axes of the launch grid that a warp group asks for. walk: of its program."""
    return frozenset(node.axis for node in nodes((group.body, group.skip, walk)) if isinstance(node, ProgramId))


def names(block: object) -> frozenset[str]:
    """Scalars that stand in a block."""
    return frozenset(node.name for node in nodes(block) if isinstance(node, Local))


def needed(block: Sequence[Stmt], wanted: frozenset[str], axes: frozenset[int]) -> Iterator[Stmt]:
    """The statements of a block, last to first, without what nobody wants behind it."""
    for stmt in reversed(block):
        if isinstance(stmt, SetProgramId) and stmt.axis not in axes:
            continue
        computes = isinstance(stmt, SchedulingStmt) and not isinstance(stmt, SetProgramId | StopUnless)
        if computes and wanted.isdisjoint(defined_by(stmt)):
            continue
        wanted |= names(stmt)
        yield stmt


def published(stmt: PublishInstance, axes: frozenset[int]) -> PublishInstance:
    """The message without indices that no warp group asks for."""
    nothing: Expr = Number(0, "u32")
    x, y, z = (index if axis in axes else nothing for axis, index in enumerate(stmt.index))
    body = needed(stmt.body, names((x, y, z, stmt.exists)), frozenset())
    return replace(stmt, index=(x, y, z), body=tuple(reversed(tuple(body))))


def pruned(group: WarpGroup, axes: frozenset[int], walk: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """What a warp group does in front of each instance. axes: that some warp group asks for. walk: of the program."""
    made = (published(stmt, axes) if isinstance(stmt, PublishInstance) else stmt for stmt in group.next)
    return tuple(reversed(tuple(needed(tuple(made), names((group.body, group.skip, walk)), asked(group, walk)))))


def every(groups: Iterable[WarpGroup], walk: tuple[Stmt, ...] = ()) -> frozenset[int]:
    """Axes that some warp group asks for. walk: of the program."""
    return frozenset().union(*(asked(group, walk) for group in groups))


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """The pass."""
    axes, walk = every(program.groups, program.walk), program.walk
    return replace(program, groups=tuple(replace(group, next=pruned(group, axes, walk)) for group in program.groups))
