"""Rings and barriers as lines of Gluon: slots are waited for, filled, given back; partitions take turns."""

from __future__ import annotations

from twill.codegen.print.gluon import blackwell, hopper
from twill.codegen.print.gluon.role import Role
from twill.codegen.warp.program import Acquire, Advance, Arrive, Consumed, Expect, Get, Publish, Skip, Stmt, Sync


def print_acquire(stmt: Acquire, role: Role) -> None:
    """The producer waits for a slot that is empty; a fresh one is."""
    role.note("wait", "empty", stmt.cursor, stmt.line)
    _print(role, stmt.cursor, "acquire", stmt.line)


def print_get(stmt: Get, role: Role) -> None:
    """A consumer waits for a slot that is full."""
    role.note("wait", "full", stmt.cursor, stmt.line)
    _print(role, stmt.cursor, "wait", stmt.line)


def print_expect(stmt: Expect, role: Role) -> None:
    """The bytes of a slot are announced."""
    role.note("expect", "full", stmt.cursor, stmt.line)
    role.out.fact(f"mbarrier.expect: {stmt.bytes} bytes", stmt.line)
    _print(role, stmt.cursor, "expect", stmt.line, f", {stmt.bytes}")


def print_consumed(stmt: Consumed, role: Role) -> None:
    """A slot is given back."""
    _settled(stmt, "empty", "release", role)


def print_publish(stmt: Publish, role: Role) -> None:
    """A slot is full."""
    _settled(stmt, "full", "publish", role)


def _settled(stmt: Consumed | Publish, kind: str, method: str, role: Role) -> None:
    if stmt.behind:
        role.note("commit", kind, stmt.cursor, stmt.line)
        blackwell.print_commit(barrier(kind, stmt.cursor, role), role, stmt.line)
        return
    role.note("arrive", kind, stmt.cursor, stmt.line)
    _print(role, stmt.cursor, method, stmt.line)


def barrier(kind: str, cursor: int, role: Role) -> str:
    """The full or empty barrier of the slot at a cursor."""
    return f"{role.ring_of(cursor)}.{kind}_barrier({role.count(cursor)})"


def _print(role: Role, cursor: int, method: str, line: int, more: str = "") -> None:
    role.out.line(f"{role.ring_of(cursor)}.{method}({role.count(cursor)}{more})", line)


def print_advance(stmt: Advance, role: Role) -> None:
    """A counter moves on."""
    role.out.line(f"{role.count(stmt.cursor)} += 1")


def print_skip(stmt: Skip, role: Role) -> None:
    """A counter moves on by what other groups consume."""
    role.out.line(f"{role.count(stmt.cursor)} += {role.scalar(stmt.count).text}")


def print_sync(stmt: Sync, role: Role) -> None:
    """A barrier between partitions; within one, Triton places them."""
    _named("named_barrier_sync", stmt.barrier, stmt, role)


def print_arrive(stmt: Arrive, role: Role) -> None:
    """Arrive at such a barrier without waiting."""
    _named("named_barrier_arrive", stmt.barrier, stmt, role)


def _named(function: str, barrier: int, stmt: Stmt, role: Role) -> None:
    ids = role.section.barriers.get(barrier, (barrier,))
    if len(role.program.barriers[barrier].groups) == 1:
        return
    order = [b.id for b in role.program.barriers if len(b.groups) > 1]
    numbers = tuple(hopper.FIRST_BARRIER + order.index(i) for i in ids)
    called = "OWN_TURN" if function.endswith("sync") else "NEXT_TURN"
    text = str(numbers[0]) if len(set(numbers)) == 1 else role.constant(numbers, called)
    threads, kind = role.program.barriers[barrier].threads, function.removeprefix("named_barrier_")
    for one in sorted({numbers[place] for place in role.among} if len(numbers) > 1 else set(numbers)):
        role.out.fact(f"named barrier: {kind} {one}, {threads}", stmt.line)
    note = f"  # {stmt.note}" if stmt.note else ""
    role.out.line(f"{function}({text}, {threads}){note}", stmt.line)
