"""Pipelined loops of partitions that only issue instructions, without a prologue and an epilogue.

An iteration's operations of stage s are done at step k for iteration k - s. A loop over all steps, in which each
operation stands under the condition that it has an iteration, says that once instead of three times.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count, groupby

from twill.codegen.warp.expression import Apply, Expr, Local, Number, add, less
from twill.codegen.warp.program import If, Let, Pipeline, Stmt, WarpProgram, with_blocks


def with_loops_of_all_steps(program: WarpProgram) -> WarpProgram:
    """The program whose groups that only issue have loops without stages, where that can be said."""
    groups = (
        replace(group, body=_block(group.body, {s.name for s in group.stmts if isinstance(s, Let)}))
        if group.issuer
        else group
        for group in program.groups
    )
    return replace(program, groups=tuple(groups))


def _block(block: tuple[Stmt, ...], taken: set[str]) -> tuple[Stmt, ...]:
    made: list[Stmt] = []
    for stmt in block:
        inner = [with_blocks(stmt, lambda one: _block(one, taken))]
        made += _rerolled(stmt, taken) if isinstance(stmt, Pipeline) else inner
    return tuple(made)


def _rerolled(loop: Pipeline, taken: set[str]) -> list[Stmt]:
    """A loop, behind the scalar that says how many iterations it has if its steps are more. taken: names of scalars, to
    which its own is added."""
    stages = _stages(loop) if loop.stages and loop.until is None else None
    if stages is None:
        return [loop]
    name = next(n for n in (f"steps_{number}" for number in count(1)) if n not in taken)
    taken.add(name)
    trip = Local(name, "i32")
    steady: list[Stmt] = []
    for stage, each in groupby(zip(stages, loop.steady, strict=True), key=lambda one: one[0]):
        block = tuple(one for _, one in each)
        condition = _within(stage, loop, trip)
        steady += block if condition is None else [If(condition, block, line=block[0].line)]
    steps = add(trip, Number(loop.stages, "i32"))
    made = replace(loop, trip=steps, stages=0, prologue=(), steady=tuple(steady), epilogue=())
    return [Let(trip.name, loop.trip, line=loop.line), made]


def _within(stage: int, loop: Pipeline, trip: Expr) -> Expr | None:
    """When an operation of a stage has an iteration; None if it always has."""
    step = Local(loop.step)
    lower = less(Number(stage - 1, "i32"), step) if stage else None
    upper = less(step, add(trip, Number(stage, "i32"))) if stage < loop.stages else None
    if lower is None or upper is None:
        return lower if upper is None else upper
    return Apply("and", (lower, upper), "i1")


def _stages(loop: Pipeline) -> list[int] | None:
    """The stage of each statement of the steady state; None if prologue and epilogue are not made of those."""
    stages: list[int] = []
    at = [0] * loop.stages
    for stmt in loop.steady:
        begins = [k for k, block in enumerate(loop.prologue) if at[k] < len(block) and block[at[k]] == stmt]
        stage = min(begins, default=loop.stages)
        stages.append(stage)
        for k in range(stage, loop.stages):
            if k not in begins:
                return None
            at[k] += 1
    whole = all(count == len(block) for count, block in zip(at, loop.prologue, strict=True))
    numbered = list(zip(stages, loop.steady, strict=True))
    ends = all(block == tuple(stmt for stage, stmt in numbered if stage > j) for j, block in enumerate(loop.epilogue))
    return stages if whole and ends else None
