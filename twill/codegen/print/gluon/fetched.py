"""A dynamic order of program instances: one partition fetches the next one and tells the others through a ring.

It asks for it when it has begun the last of an instance, so that the answer comes while others still work: of a counter
in global memory, or, where the hardware knows what has not started, of that (cluster launch control). In the warp
program grid indices are told; here it is the number of the instance, of which each partition computes them. Where an
answer comes as a copy does, it has a ring of one slot, with an mbarrier that expects its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from twill import exc
from twill.codegen.print.gluon.hopper import FENCED
from twill.codegen.print.gluon.role import Role
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, Expr, Local

COUNTER = "counter"  # the kernel's parameter: the address of a 0, which the last request leaves as one
ANSWER, ANSWER_BYTES, WORDS = "answer", 16, 2  # of cluster launch control, in words of 64 bits
REQUESTED = "a request for the place of a CTA that has not started"
COUNTED = "a place from the counter"


def with_fetched_instances(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program with what comes between two instances at the end of each group's body, for the printer alone; others
    as they are. `next` says where in the grid an instance is. Raises NotInGluon."""
    ring = program.instance_ring
    if ring is None:
        return program
    if any(group.share[1] > 1 for group in program.groups):
        what = "partitions that take instances alternately have no printer for Gluon in a dynamic order"
        raise exc.NotInGluon(what, hint="`--order static`, or row blocks (`--blocks 2`)")
    fetcher = program.groups[ring.producer]
    told = next(stmt for stmt in fetcher.next if isinstance(stmt, ir.PublishInstance))
    buffers = tuple(replace(b, shape=(1,)) if b.id in ring.buffers else b for b in program.buffers)
    arefs, answer = program.arefs, -1
    if program.cancels:
        answer = 1 + max(cursor.id for group in program.groups for cursor in group.cursors)
        buffer = ir.Buffer(len(buffers), ANSWER, (WORDS,), "i64", 0, 0, 1, ANSWER_BYTES, 0)
        own = (fetcher.id,)
        arefs = (*arefs, ir.Aref(len(arefs), ANSWER, (buffer.id,), 1, fetcher.id, own, "tma", ANSWER_BYTES, 1, 1))
        buffers = (*buffers, buffer)
    place = tuple(_place(told))
    groups = tuple(
        _fetching(group, place, answer if group is fetcher else -1, len(arefs) - 1) for group in program.groups
    )
    return replace(program, groups=groups, buffers=buffers, arefs=arefs)


def _fetching(group: ir.WarpGroup, place: tuple[ir.Stmt, ...], answer: int, ring: int) -> ir.WarpGroup:
    """answer: the cursor of the ring of answers, if the group asks the hardware."""
    how = [stmt for stmt in group.next if not isinstance(stmt, ir.StopUnless | ir.SetProgramId)]
    body = (*group.body, *how)
    if answer < 0:
        return replace(group, body=body, next=place)
    made: list[ir.Stmt] = []
    for stmt in body:
        if isinstance(stmt, ir.FetchInstance):
            made += [ir.Expect(answer, ANSWER_BYTES, line=stmt.line), stmt]
        elif isinstance(stmt, ir.PublishInstance):
            made += [ir.Get(answer), stmt, ir.Advance(answer)]
        else:
            made.append(stmt)
    return replace(group, body=tuple(made), next=place, cursors=(*group.cursors, ir.Cursor(answer, ANSWER, ring)))


def _place(told: ir.PublishInstance) -> Iterator[ir.Stmt]:
    """Where in the grid an instance is: what the fetching group computes of the place that it got, which exists."""
    for stmt in told.body:
        if not isinstance(stmt, ir.Define):
            yield stmt
            continue
        named = [(name, _there(value)) for name, value in zip(stmt.names, stmt.values, strict=True)]
        apart = [(name, value) for name, value in named if value != Local(name, "u32")]
        if apart:
            yield replace(stmt, names=tuple(n for n, _ in apart), values=tuple(v for _, v in apart))
    for axis, value in enumerate(told.index):
        yield ir.SetProgramId(axis, _there(value))


def _there(expr: Expr) -> Expr:
    """An expression of a place that has an instance."""
    match expr:
        case Apply("min", (Local(name), _)) if name == ir.PLACE:
            return Local(ir.INSTANCE, "u32")
        case Local(name) if name == ir.PLACE:
            return Local(ir.INSTANCE, "u32")
        case Apply(operands=operands):
            return replace(expr, operands=tuple(map(_there, operands)))
    return expr


# ---------------------------------------------------------------- lines
def is_fetched(role: Role) -> bool:
    """Whether a role learns from instance to instance which one is next."""
    return any(ring.transport == ir.INSTANCE_RING for ring in role.program.arefs)


def print_fetch(stmt: ir.FetchInstance, role: Role) -> None:
    """The next instance is asked for."""
    if not stmt.cancel:
        role.used.add(COUNTER)
        role.out.line(f"# {stmt.note}")
        role.out.fact(COUNTED, stmt.line)
        role.out.line(f"{role.instance} = next_of_counter({COUNTER}, instances)", stmt.line)
        return
    role.out.line(f"# {stmt.note}")
    ring, count = _of(ANSWER, role)
    for fact in (REQUESTED, FENCED):  # Triton places one in front of what overwrites an answer that threads have read
        role.out.fact(fact, stmt.line)
    role.out.line(f"clc.try_cancel({ring}.tile({count}), {ring}.full_barrier({count}))", stmt.line)


def print_publish_instance(stmt: ir.PublishInstance, role: Role) -> None:
    """It is told to the others."""
    if role.program.cancels:
        ring, count = _of(ANSWER, role)
        role.out.line(f"{role.instance} = place_of_answer({ring}.tile({count}), instances)", stmt.line)
    role.out.line(f"tell({role.place(stmt.target.whole)}, {role.instance})", stmt.line)


def print_receive_instance(stmt: ir.ReceiveInstance, role: Role) -> None:
    """The others learn of it."""
    role.out.line(f"{role.instance} = told({role.place(stmt.source.whole)})", stmt.line)


def _of(name: str, role: Role) -> tuple[str, str]:
    """A ring of this role by its name, and its counter."""
    cursor = next(one.id for one in role.stream.cursors if role.program.arefs[one.aref].name == name)
    return role.ring_of(cursor), role.count(cursor)
