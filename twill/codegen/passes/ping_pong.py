"""Computing warp groups that take program instances alternately: one stores its tile while another multiplies.

Where a schedule has one computing warp group, the tensor core rests while that group begins and ends a tile.
A second group with the same stream, which has every other instance, fills the rest. The two share rings and load
groups: instances follow one another in a ring, and each group moves its cursors past what the other consumes.

Turns are needed for more than speed: a wait for a parity may lag behind its barrier by one phase at most, so a group
may look at a ring only when the other has met all that the instance before has in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from twill import exc
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.expression import Apply, Expr, Local, Number, add


def with_ping_pong(groups: Sequence[ir.WarpGroup], memory: SharedMemoryPlan, file: str) -> list[ir.WarpGroup]:
    """The groups, of which those that compute, equal in what they do, take instances alternately."""
    computing = [group for group in groups if not group.issuer]
    if len(computing) < 2:
        return list(groups)
    counts = consumed([group for group in groups if group.issuer], file)
    made = {}
    for number, group in enumerate(computing):
        before, after = computing[number - 1], computing[(number + 1) % len(computing)]
        mine = memory.barrier(f"turn of group {group.id}", tuple(sorted((before.id, group.id)))).id
        next_one = memory.barrier(f"turn of group {after.id}", tuple(sorted((group.id, after.id)))).id
        last = number + 1 == len(computing)
        left_over = Apply("rem", (Local(ir.INSTANCES), Number(len(computing))), "i32", (("signed", 1),))
        made[group.id] = replace(
            group,
            share=(number, len(computing)),
            start=(*group.start, *([ir.Arrive(next_one, note="the first turn")] if last else [])),
            body=tuple(ordered_body(group.body, mine, next_one)),
            skip=tuple(ir.Skip(cursor.id, counts[cursor.aref]) for cursor in group.cursors),
            finish=(
                ir.If(equal(left_over, number), (ir.Sync(mine, note="the turn that nobody needs"),)),
                *group.finish,
            ),
        )
    return [made.get(group.id, group) for group in groups]


def ordered_body(body: Sequence[ir.Stmt], mine: int, next_one: int) -> Iterator[ir.Stmt]:
    """The body, which waits for its turn in front of its first look at a ring and gives it on behind the last."""
    looking = [i for i, stmt in enumerate(body) if any(isinstance(inner, ir.Get) for inner in ir.walk((stmt,)))]
    for number, stmt in enumerate(body):
        if looking and number == looking[0]:
            yield ir.Sync(mine, note="the turn of this group")
        yield stmt
        if looking and number == looking[-1]:
            yield ir.Arrive(next_one, note="the turn of the next group")


def consumed(issuers: Sequence[ir.WarpGroup], file: str) -> Mapping[int, Expr]:
    """Slots of each ring that one program instance fills, in terms of arguments and grid indices."""
    found: dict[int, Expr] = {}
    for group in issuers:
        aref = {cursor.id: cursor.aref for cursor in group.cursors}
        lets = {stmt.name: stmt.value for stmt in group.body if isinstance(stmt, ir.Let)}
        for stmt in group.body:
            trip: Expr = Number(1)
            block: tuple[ir.Stmt, ...] = (stmt,)
            if isinstance(stmt, ir.Pipeline):
                trip = Apply("max", (expanded(stmt.trip, lets), Number(0)), "i32", (("signed", 1),))
                block = stmt.steady
            elif isinstance(stmt, ir.If) and any(isinstance(inner, ir.Advance) for inner in ir.walk(block)):
                raise exc.UnsupportedInKernel("a load group that fills a ring now and then", file=file, line=stmt.line)
            for inner in ir.walk(block):
                if isinstance(inner, ir.Advance):
                    number = aref[inner.cursor]
                    found[number] = add(found.get(number, Number(0)), trip)
    return found


def expanded(expr: Expr, lets: Mapping[str, Expr]) -> Expr:
    """The expression without names of a role's own."""
    if isinstance(expr, Local):
        return expanded(lets[expr.name], lets)
    if isinstance(expr, Apply):
        return replace(expr, operands=tuple(expanded(operand, lets) for operand in expr.operands))
    return expr


def equal(left: Expr, number: int) -> Expr:
    """left == number."""
    return Apply("compare", (left, Number(number)), "i1", (("predicate", "eq"), ("signed", 1)))


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass. Raises UnsupportedInKernel."""
    if not choices.ping_pong:
        return program
    memory = SharedMemoryPlan.of(program)
    groups = with_ping_pong(program.groups, memory, program.program.file)
    return replace(program, groups=tuple(groups), barriers=tuple(memory.barriers))
