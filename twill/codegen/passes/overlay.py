"""Buffers that are never in use at the same time lie over one another in shared memory.

Loops of a program instance run one after the other: what the second one has in shared memory may lie where the first
one had its rings. A buffer is in use from the first loop, or straight-line code between loops, in which a warp group
touches it, to the last one. Of two buffers that share bytes, whoever writes the later one waits until everybody is done
with the earlier one; and in the next instance whoever writes the earlier one until everybody is done with the later.

Each such wait has a ring of one slot in which nothing is. The group that waits publishes the slot, at the beginning of
the instance or where it waits for the instance before; whoever has to be done gives it back when it is, behind MMAs and
stores of the TMA that still read, and with a proxy fence behind what its threads did; the wait is an Acquire. All of
that is outside of loops and conditions, so it holds for loops without iterations, too.

It costs loads that would be issued ahead, so it is done only where the buffers do not fit beside one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from twill.codegen.lower.memory import BARRIER_BYTES, SharedMemoryPlan, alignment
from twill.codegen.passes.dynamic_scheduler import arrivals
from twill.codegen.passes.uses import BodyUse, uses_of_buffers
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices

WORDS = 4  # of the slot in which nothing is
NOTHING = "handoff"  # the buffer of these rings
NOTE = "shared memory of another loop"
TENSOR_NOTE = "tensor memory of another loop"


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass. The program as it is where that fits, or where no layout does."""
    if not choices.overlay or choices.ping_pong or program.cluster is not None:
        return program
    if _bytes(program, SharedMemoryPlan.of(program).used()) <= choices.capacity:
        return program
    uses = uses_of_buffers(program)
    if uses is None:
        return program
    first = layout(program, uses)
    made = with_handoffs(program, handoffs(program, overlaid(program, first, uses), uses), uses, _nothing)
    offsets = layout(made, uses)  # with the rings of the waits behind all others
    placed = tuple(replace(b, offset=offsets.get(b.id, b.offset)) for b in made.buffers)
    shared = _bytes(made, max(b.offset + b.slots * b.bytes for b in placed if not b.tensor))
    return replace(made, buffers=placed, shared=shared) if shared <= choices.capacity else program


def _bytes(program: ir.WarpProgram, end: int) -> int:
    """Bytes of everything, if buffers take `end`."""
    return -(-end // 16) * 16 + BARRIER_BYTES * sum(aref.depth for aref in program.arefs) + program.own_bytes


# ---------------------------------------------------------------- where buffers lie
def layout(program: ir.WarpProgram, uses: Mapping[int, BodyUse]) -> dict[int, int]:
    """Offsets by buffer: the layout with the least bytes of some orders in which buffers are given places."""
    whole = (0, 2 * len(program.buffers))
    spans = {b.id: (uses[b.id].first, uses[b.id].last) if b.id in uses else whole for b in program.buffers}
    orders: tuple[Callable[[ir.Buffer], int], ...] = (
        lambda b: 0,
        lambda b: spans[b.id][0] - spans[b.id][1],  # what is in use longest first
        lambda b: spans[b.id][0],
    )
    made = [laid(program, uses, order) for order in orders]
    sizes = {buffer.id: buffer.slots * buffer.bytes for buffer in program.buffers}
    return min(made, key=lambda offsets: max(offset + sizes[number] for number, offset in offsets.items()))


def laid(program: ir.WarpProgram, uses: Mapping[int, BodyUse], order: Callable[[ir.Buffer], int]) -> dict[int, int]:
    """Offsets by buffer, in some order and of equals the largest first: each has the lowest place that no buffer in use
    at the same time has. Last come those in which nothing is, so that more of these move no other."""
    offsets: dict[int, int] = {}
    shared = [b for b in program.buffers if not b.tensor]
    for buffer in sorted(shared, key=lambda b: (b.name == NOTHING, order(b), -b.slots * b.bytes, b.id)):
        align = alignment(buffer.swizzle)
        taken = sorted(
            (offsets[other.id], offsets[other.id] + other.slots * other.bytes)
            for other in shared
            if other.id in offsets and not apart(buffer, other, uses)
        )
        start = 0
        for begin, end in taken:
            if start + buffer.slots * buffer.bytes <= begin:
                break
            start = max(start, -(-end // align) * align)
        offsets[buffer.id] = start
    return offsets


def apart(one: ir.Buffer, other: ir.Buffer, uses: Mapping[int, BodyUse]) -> bool:
    """Whether one of two buffers is not used before the other one is no longer; never of what is used all the time."""
    mine, theirs = uses.get(one.id), uses.get(other.id)
    return mine is not None and theirs is not None and (mine.last < theirs.first or theirs.last < mine.first)


# ---------------------------------------------------------------- who waits for whom
@dataclass(frozen=True)
class Handoff:
    """The group `waits` waits in front of statement `at` of its body until each of some groups is behind a statement of
    its own: `done`, by group. again: of the instance before. buffers: whose users they are."""

    waits: int
    at: int
    again: bool
    done: Mapping[int, int]
    buffers: frozenset[int]

    def implies(self, other: Handoff) -> bool:
        """Whether who waits for this one needs not wait for the other one."""
        same = (self.waits, self.again) == (other.waits, other.again)
        return same and self.at <= other.at and all(self.done.get(u, -1) >= at for u, at in other.done.items())


def handoffs(program: ir.WarpProgram, meeting: Iterable[tuple[int, int]], uses: Mapping[int, BodyUse]) -> list[Handoff]:
    """All that a layout asks for. meeting: pairs of buffers that lie over one another, the earlier one first."""
    found: dict[tuple[int, int, bool], Handoff] = {}
    for earlier, later in meeting:
        for old, new, again in ((earlier, later, False), (later, earlier, True)):
            for writer in uses[new].writers:
                at = uses[new].places[writer][0]
                done = {u: uses[old].places[u][1] for u in uses[old].users if u != writer or not _alone(program, u)}
                known = found.get((writer, at, again), Handoff(writer, at, again, {}, frozenset()))
                both = {u: max(known.done.get(u, -1), done.get(u, -1)) for u in {*known.done, *done}}
                found[writer, at, again] = replace(known, done=both, buffers=known.buffers | {old})
    return _needed([one for one in found.values() if one.done])


def _needed(every: Sequence[Handoff]) -> list[Handoff]:
    """Without those that others imply, which then stand for their buffers, too."""
    made: list[Handoff] = []
    for number, one in enumerate(every):
        others = [other for place, other in enumerate(every) if place != number]
        earlier = every[:number]
        if not any(other.implies(one) and (other in earlier or not one.implies(other)) for other in others):
            implied = (other.buffers for other in others if one.implies(other))
            made.append(replace(one, buffers=one.buffers.union(*implied)))
    return made


def overlaid(
    program: ir.WarpProgram, offsets: Mapping[int, int], uses: Mapping[int, BodyUse]
) -> Iterator[tuple[int, int]]:
    """Pairs of buffers that have bytes in common, the earlier one first."""
    for one in uses:
        for other in uses:
            mine, theirs = program.buffers[one], program.buffers[other]
            if uses[one].last < uses[other].first and one in offsets and other in offsets:
                begin, start = offsets[one], offsets[other]
                if begin < start + theirs.slots * theirs.bytes and start < begin + mine.slots * mine.bytes:
                    yield one, other


def _alone(program: ir.WarpProgram, group: int) -> bool:
    """Whether a group is one thread, which knows what it did."""
    return program.groups[group].issuer


# ---------------------------------------------------------------- the waits
def _nothing(memory: SharedMemoryPlan) -> ir.Buffer:
    """What the rings of the waits are said to hold."""
    return memory.buffer(NOTHING, (WORDS,), "i32", 1)


def with_handoffs(
    program: ir.WarpProgram,
    waits: Sequence[Handoff],
    uses: Mapping[int, BodyUse],
    held: Callable[[SharedMemoryPlan], ir.Buffer],
) -> ir.WarpProgram:
    """The program in which groups wait as a layout asks for. held: the buffer of the waits' rings."""
    if not waits:
        return program
    memory = SharedMemoryPlan.of(program)
    nothing = held(memory)
    note = TENSOR_NOTE if nothing.tensor else NOTE
    cursors = count(1 + max((c.id for group in program.groups for c in group.cursors), default=-1))
    more: dict[int, _More] = {group.id: _More([], {}, {}) for group in program.groups}
    gives: list[tuple[int, int, int, ir.Cursor, Handoff]] = []
    for wait in waits:
        waiter, users = program.groups[wait.waits], sorted(wait.done)
        name = f"{'tensor ' * nothing.tensor}handoff {waiter.id} {wait.at}" + (" again" if wait.again else "")
        counts = (arrivals(waiter), sum(arrivals(program.groups[u]) for u in users))
        ring = memory.aref(name, (nothing.id,), waiter.id, tuple(users), "registers", counts)
        put = ir.Cursor(next(cursors), f"{name} put", ring.id)
        more[waiter.id].cursors.append(put)
        publish = (ir.Publish(put.id, note=note), ir.Advance(put.id))
        more[waiter.id].before.setdefault(wait.at, []).extend((ir.Acquire(put.id, note=note), *publish * wait.again))
        if not wait.again:
            more[waiter.id].before.setdefault(0, [])[:0] = publish
        for user in users:
            get = ir.Cursor(next(cursors), f"{name} get", ring.id)
            more[user].cursors.append(get)
            gives.append((user, wait.done[user], (waiter.id - user) % len(program.groups), get, wait))
    for user, at, _, get, wait in sorted(gives, key=lambda give: give[:3]):
        more[user].behind.setdefault(at, []).extend(_given_back(program.groups[user], get, wait, uses))
    groups = tuple(_with(group, more[group.id]) for group in program.groups)
    return replace(program, groups=groups, buffers=tuple(memory.buffers), arefs=tuple(memory.arefs))


@dataclass(frozen=True)
class _More:
    """Of a group: cursors, and statements in front of and behind those of its body."""

    cursors: list[ir.Cursor]
    before: dict[int, list[ir.Stmt]]
    behind: dict[int, list[ir.Stmt]]


def _given_back(group: ir.WarpGroup, get: ir.Cursor, wait: Handoff, uses: Mapping[int, BodyUse]) -> Iterator[ir.Stmt]:
    """What a group does when it is done with some buffers."""
    mine = [uses[number] for number in sorted(wait.buffers) if group.id in uses[number].users]
    if any(group.id in use.stores for use in mine):
        yield ir.BulkWait(0, read=True, note=NOTE)
    if any(group.id in use.threads and not use.tensor for use in mine):
        yield ir.ProxyFence(note=NOTE)
    yield ir.Get(get.id)
    yield ir.Consumed(get.id, behind=any(group.id in use.products for use in mine))
    yield ir.Advance(get.id)


def _with(group: ir.WarpGroup, more: _More) -> ir.WarpGroup:
    body: list[ir.Stmt] = []
    for place, stmt in enumerate(group.body):
        body += [*more.before.get(place, ()), stmt, *more.behind.get(place, ())]
    return replace(group, body=tuple(body), cursors=(*group.cursors, *more.cursors))
