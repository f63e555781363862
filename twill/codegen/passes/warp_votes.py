"""Multiplications by what is often 1 that a warp leaves out where all its factors are.

A multiplication by 1 changes nothing, bit for bit. Where the tile program says that a factor is often 1 and the matrix
is multiplied where it lies, the lanes of a warp vote: a branch that all of them take alike, around elementwise work
only. That pays where the vote has fewer instructions than the multiplication. It is done in the steady state, which may
run long, and not while an MMA is in flight: what ptxas makes of a branch there is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from twill.codegen.passes.hoist_vectors import Elementwise
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.effects import effects
from twill.codegen.warp.layout import Layout, elements_of
from twill.tile.vocabulary import OFTEN_ONE

INSTRUCTIONS = 2  # of a vote for each factor that a thread has: compare, combine
ONCE = 2  # vote, branch


def with_warp_votes(body: Iterable[ir.Stmt], layouts: Mapping[int, Layout]) -> tuple[ir.Stmt, ...]:
    """The body of a warp group with votes in its steady states. layouts: of its fragments."""
    return tuple(outside(stmt, layouts) for stmt in body)


def outside(stmt: ir.Stmt, layouts: Mapping[int, Layout]) -> ir.Stmt:
    """A statement that is in no steady state."""
    match stmt:
        case ir.If():
            return replace(
                stmt, body=with_warp_votes(stmt.body, layouts), otherwise=with_warp_votes(stmt.otherwise, layouts)
            )
        case ir.Pipeline():
            flying = 0
            for block in stmt.steadies:
                while (after := behind(block, flying)) > flying:  # the next iteration begins with those
                    flying = after
            return replace(
                stmt,
                prologue=tuple(with_warp_votes(block, layouts) for block in stmt.prologue),
                steady=steady(stmt.steady, flying, layouts),
                later=steady(stmt.later, flying, layouts),
                epilogue=tuple(with_warp_votes(block, layouts) for block in stmt.epilogue),
            )
        case ir.Compute():
            return plain(stmt)
    return stmt


def steady(body: Iterable[ir.Stmt], flying: int, layouts: Mapping[int, Layout]) -> tuple[ir.Stmt, ...]:
    """A block that runs again and again. flying: MMAs in flight at its start."""
    made: list[ir.Stmt] = []
    for stmt in body:
        match stmt:
            case ir.If():
                body_made, otherwise = (steady(part, flying, layouts) for part in (stmt.body, stmt.otherwise))
                made.append(replace(stmt, body=body_made, otherwise=otherwise))
            case ir.Compute() if dict(stmt.attributes).get(OFTEN_ONE):
                voted = replace(stmt, attributes=((ir.WARP_VOTE, 1), *plain(stmt).attributes))
                made.append(voted if not flying and pays(stmt, layouts) else plain(stmt))
            case _:
                made.append(stmt)
        flying = behind((stmt,), flying)
    return sunk(made)


def sunk(body: Sequence[ir.Stmt]) -> tuple[ir.Stmt, ...]:
    """A block with every vote behind the elementwise work that follows it: what stands on either side of a branch is
    not interleaved, and conversions of P hide under its exponentials."""
    made = list(body)
    for place in reversed(range(len(made))):
        stmt = made[place]
        if isinstance(stmt, ir.Compute) and ir.WARP_VOTE in dict(stmt.attributes):
            while place + 1 < len(made) and may_swap(stmt, made[place + 1]):
                made[place], made[place + 1] = made[place + 1], stmt
                place += 1
    return tuple(made)


def may_swap(voted: ir.Compute, after: ir.Stmt) -> bool:
    """Whether a statement may come before the vote in front of it."""
    if isinstance(after, ir.Reduce):
        touched = {after.operand, after.result}
        return after.barrier is None and voted.result not in touched and after.result not in effects(voted)[1]
    if not isinstance(after, Elementwise) or (isinstance(after, ir.Compute) and ir.WARP_VOTE in dict(after.attributes)):
        return False
    return voted.result not in effects(after)[1] | {after.result} and after.result not in effects(voted)[1]


def behind(body: Iterable[ir.Stmt], flying: int) -> int:
    """Groups of MMAs that may be in flight behind a block; more than 8 are as many as 8."""
    for stmt in body:
        match stmt:
            case ir.Commit():
                flying = min(flying + 1, 8)
            case ir.WaitGroups(pending):
                flying = min(flying, pending)
            case ir.If():
                flying = max(behind(stmt.body, flying), behind(stmt.otherwise, flying))
    return flying


def pays(stmt: ir.Compute, layouts: Mapping[int, Layout]) -> bool:
    """Whether a matrix is multiplied in place by a vector, with more instructions than a vote has."""
    matrix = ir.Reg(stmt.result)
    factors = [operand for operand in stmt.operands if operand != matrix]
    if stmt.kind != "mul" or len(factors) != 1 or not isinstance(factors[0], ir.Reg) or not factors[0].axes:
        return False
    votes = INSTRUCTIONS * elements_of(layouts[factors[0].fragment]) + ONCE
    return elements_of(layouts[stmt.result]) > votes


def plain(stmt: ir.Compute) -> ir.Compute:
    """Without what the tile program says of its factor."""
    return replace(stmt, attributes=tuple(a for a in stmt.attributes if a[0] != OFTEN_ONE))


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    return each_body(program, lambda group: with_warp_votes(group.body, {f.id: f.layout for f in group.fragments}))
