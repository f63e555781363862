"""Rules that need no run: rings, shared memory, budgets. What statements ask of their operands is in `operands`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from twill.codegen.verify.abstract.liveness import crowded, peak
from twill.codegen.verify.abstract.memory import BITS
from twill.codegen.verify.abstract.mma_operands import TENSOR_ROWS
from twill.codegen.verify.abstract.operands import operand_violations
from twill.codegen.verify.abstract.overlays import overlapping, take_turns, touches
from twill.codegen.verify.abstract.violation import Violation
from twill.codegen.warp import program as ir
from twill.exc import TwillError
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.machine.occupancy import register_pool, share

TENSOR_WARPS, WARP = 4, 32  # warps that read all of tensor memory; threads of one
PAIR = 2  # CTAs that multiply together
BARRIER_BYTES = 16  # the full and the empty mbarrier of a slot


def static_violations(program: ir.WarpProgram, spilling: bool = False) -> tuple[Violation, ...]:
    """Every broken rule that the program shows as it stands. spilling: fragments may be more than registers are."""
    try:
        machine: Machine | None = load_machine(program.machine)
    except TwillError:  # a machine file of the user's; its name is all that a warp program has
        machine = None
    found = [*_rings(program), *_walk(program), *_buffers(program, machine), *_barriers(program, machine)]
    for group in program.groups:
        found += _sides(program, group)
        found += operand_violations(program, group)
    found += _registers(program, machine, spilling)
    return tuple(dict.fromkeys(found))


def arrivals(group: ir.WarpGroup) -> int:
    """Arrivals of a group on an mbarrier: one for each warp, or one of its only thread."""
    return 1 if group.issuer else group.threads // 32


# ---------------------------------------------------------------- rings
def _rings(program: ir.WarpProgram) -> Iterator[Violation]:
    for aref in program.arefs:
        full = 1 if aref.transport in ("tma", "mma") else arrivals(program.groups[aref.producer])
        consumers = [program.groups[consumer] for consumer in aref.consumers]
        of = [
            1 if aref.transport == ir.INSTANCE_RING else consumer.share[1] for consumer in consumers
        ]  # that share a slot
        empty = sum(arrivals(consumer) // share for consumer, share in zip(consumers, of, strict=True))
        empty *= ctas(program) if aref.shared or (aref.pair and aref.transport == "mma") else 1
        for name, count, right in (("full", aref.full_count, full), ("empty", aref.empty_count, empty)):
            if count != right:
                yield Violation("counts", f"the {name} barriers of ring `{aref.name}` count {count} arrivals, its warp "
                                          f"groups make {right} a phase")  # fmt: skip
        for buffer in (program.buffers[number] for number in aref.buffers):
            if buffer.slots < aref.depth:
                yield Violation(
                    "slots", f"`{buffer.name}` has {buffer.slots} slots, its ring `{aref.name}` {aref.depth}"
                )
        if aref.shared and (ctas(program) == 1 or aref.transport != "tma"):
            yield Violation("side", f"ring `{aref.name}` is shared, but no cluster fills it by the TMA")
        if aref.pair and (ctas(program) != PAIR or aref.shared or aref.transport not in ("tma", "mma")):
            yield Violation("side", f"ring `{aref.name}` is one of a pair, but no two CTAs multiply together")


def ctas(program: ir.WarpProgram) -> int:
    """That share tiles."""
    return program.cluster.ctas if program.cluster is not None else 1


def _walk(program: ir.WarpProgram) -> Iterator[Violation]:
    """One group fetches and publishes, all others receive, through the ring that is there for it."""
    ring = program.instance_ring
    for group in program.groups:
        cursors = {cursor.id for cursor in group.cursors if ring is not None and cursor.aref == ring.id}
        for stmt in group.stmts:
            match stmt:
                case ir.FetchInstance():
                    mine, slot = ring is not None and group.id == ring.producer, None
                case ir.PublishInstance(target):
                    mine, slot = ring is not None and group.id == ring.producer, target
                case ir.ReceiveInstance(source):
                    mine, slot = ring is not None and group.id in ring.consumers, source
                case _:
                    continue
            name = type(stmt).__name__
            if not mine:
                yield _of(stmt, group, "walk", f"{name} by {group.role}, which is not there for it")
            elif slot is not None and slot.cursor not in cursors:
                yield _of(stmt, group, "walk", f"{name} by {group.role} at no slot of the ring of instances")
        if ring is not None and group.id not in (ring.producer, *ring.consumers):
            yield Violation("walk", f"{group.role} has no part in the ring of instances", 0, group.role)
        if (ring is None) != (group.loop is not None):
            text = (
                "counts its instances by itself" if ring is not None else "has no loop, and nobody publishes instances"
            )
            yield Violation("walk", f"{group.role} {text}", 0, group.role)


def _sides(program: ir.WarpProgram, group: ir.WarpGroup) -> Iterator[Violation]:
    """Rings are used by those who they are made for."""
    cursors = {cursor.id: program.arefs[cursor.aref] for cursor in group.cursors}
    for stmt in group.stmts:
        match stmt:
            case (
                ir.Acquire(cursor)
                | ir.Expect(cursor)
                | ir.Settle(cursor)
                | ir.Publish(cursor)
                | ir.TmaLoad(cursor=cursor)
            ):
                wanted, meant = "producer", cursors.get(cursor)
                right = meant is not None and meant.producer == group.id
            case ir.Get(cursor) | ir.Consumed(cursor):
                wanted, meant = "consumer", cursors.get(cursor)
                right = meant is not None and group.id in meant.consumers
            case ir.Advance(cursor) | ir.Skip(cursor):
                wanted, meant = "user", cursors.get(cursor)
                right = meant is not None
            case ir.Sync() | ir.Arrive() if group.issuer:
                yield _of(stmt, group, "barrier", f"{group.role} is one thread and cannot take part in a named barrier")
                continue
            case _:
                continue
        name = type(stmt).__name__
        if meant is None:
            yield _of(stmt, group, "side", f"{name} at cursor {cursor}, which is none of {group.role}'s")
        elif not right:
            yield _of(stmt, group, "side", f"{name} by {group.role}, which is no {wanted} of ring `{meant.name}`")
        else:
            yield from _transport(stmt, group, meant)
            yield from _together(stmt, group, meant, ctas(program))


def _transport(stmt: ir.Stmt, group: ir.WarpGroup, aref: ir.Aref) -> Iterator[Violation]:
    by_tma = aref.transport == "tma"
    if isinstance(stmt, ir.Expect | ir.Settle | ir.TmaLoad) and not by_tma or isinstance(stmt, ir.Publish) and by_tma:
        name = type(stmt).__name__
        yield _of(stmt, group, "side", f"{name} by {group.role} on ring `{aref.name}`, filled by {aref.transport}")
    if isinstance(stmt, ir.Publish) and stmt.behind != (aref.transport == "mma"):
        yield _of(stmt, group, "side", f"Publish by {group.role} on ring `{aref.name}`, filled by {aref.transport}")
    if isinstance(stmt, ir.TmaLoad) and stmt.target.buffer not in aref.buffers:
        yield _of(stmt, group, "side", f"a TMA load by {group.role} that counts on ring `{aref.name}` goes elsewhere")


def _together(stmt: ir.Stmt, group: ir.WarpGroup, aref: ir.Aref, others: int) -> Iterator[Violation]:
    """Only the slots of shared rings are touched by other CTAs."""
    if isinstance(stmt, ir.TmaLoad) and stmt.sender >= (others if aref.shared else 0):
        yield _of(stmt, group, "side", f"a TMA load of ring `{aref.name}` by CTA {stmt.sender} for all")
    if isinstance(stmt, ir.Consumed) and stmt.everywhere and not aref.shared:
        yield _of(stmt, group, "side", f"Consumed by {group.role} in other CTAs, which do not fill `{aref.name}`")


# ---------------------------------------------------------------- shared memory
def _buffers(program: ir.WarpProgram, machine: Machine | None) -> Iterator[Violation]:
    yield from _tensor_memory(program, machine)
    buffers = [buffer for buffer in program.buffers if not buffer.tensor]
    for buffer in buffers:
        yield from (Violation("shared", f"`{buffer.name}` {text}") for text in _shape(buffer))
    for one, other in overlapping(buffers):
        if not take_turns(program, one.id, other.id):
            common = min(one.offset + one.slots * one.bytes, other.offset + other.slots * other.bytes)
            common -= max(one.offset, other.offset)
            yield Violation("shared", f"`{one.name}` and `{other.name}` overlap by {common} bytes")
    last = max((b.offset + b.slots * b.bytes for b in buffers), default=0)
    needed = last + BARRIER_BYTES * sum(aref.depth for aref in program.arefs)
    needed += program.own_bytes
    if program.shared < needed:
        yield Violation("shared", f"{program.shared} bytes of shared memory, buffers and barriers need {needed}")
    limit = share(machine, program.ctas) if machine else 0
    if limit and last > limit:
        each = f" for each of {program.ctas} CTAs" if program.ctas > 1 else ""
        yield Violation("shared", f"buffers take {last} bytes of shared memory, {program.machine} has {limit}{each}")


def _tensor_memory(program: ir.WarpProgram, machine: Machine | None) -> Iterator[Violation]:
    """Accumulators lie beside one another, and within what there is."""
    held = [buffer for buffer in program.buffers if buffer.tensor]
    for buffer in held:
        if buffer.offset < 0:
            yield Violation("shared", f"`{buffer.name}` begins in front of tensor memory, at column {buffer.offset}")
    for one, other in combinations(held, 2):
        common = min(map(_last_column, (one, other))) - max(one.offset, other.offset)
        hosted = any(all(tile is host or _lies_over(tile, host) for tile in (one, other)) for host in held)
        if common > 0 and not hosted and not _in_turn(program, one.id, other.id):
            yield Violation("shared", f"`{one.name}` and `{other.name}` overlap by {common} columns")
    if held and machine:
        most = machine.capacity("tmem") // (TENSOR_ROWS * BITS["f32"] // 8)
        if program.tensor_columns > most:
            text = f"{program.tensor_columns} columns of tensor memory, {program.machine} has {most}"
            yield Violation("shared", text)
    for group in program.groups:
        first = sum(before.threads for before in program.groups[: group.id])
        reads = any(isinstance(stmt, ir.LoadAccumulator | ir.StoreAccumulator) for stmt in group.stmts)
        if reads and (first % (TENSOR_WARPS * WARP) or group.threads != TENSOR_WARPS * WARP):
            text = f"{group.role} reads tensor memory, and its warps are not its four quarters"
            yield Violation("layout", text, 0, group.role)


def _in_turn(program: ir.WarpProgram, one: int, other: int) -> bool:
    """Whether two tiles of tensor memory take turns, as some warp group says that makes both."""
    both = (
        {one, other} <= {number for stmt in group.stmts for number in touches(program, group, stmt)}
        for group in program.groups
    )
    return any(both) and take_turns(program, one, other)


def _last_column(buffer: ir.Buffer) -> int:
    """The column behind all that a buffer's slots hold."""
    return buffer.offset + (buffer.slots - 1) * buffer.stride + buffer.width


def _lies_over(operand: ir.Buffer, host: ir.Buffer) -> bool:
    """Whether a tile of narrow elements lies within the slots of an accumulator, one in each."""
    same = (operand.slots, operand.stride) == (host.slots, host.stride)
    inside = host.offset <= operand.offset and operand.offset + operand.width <= host.offset + host.width
    return same and inside and BITS[operand.element] < BITS[host.element]


def _shape(buffer: ir.Buffer) -> Iterator[str]:
    size = BITS[buffer.element] // 8
    data = math.prod(buffer.shape) * size
    if buffer.bytes < data:
        yield f"has {buffer.bytes} bytes a slot for a tile of {data}"
    if len(buffer.shape) < 2:
        if buffer.swizzle:
            yield "is a vector with a swizzle"
        if buffer.offset % 16 or (buffer.slots > 1 and buffer.bytes % 16):
            yield "is not aligned to 16 bytes"
        return
    row = buffer.shape[-1] * size
    if buffer.swizzle not in (0, 32, 64, 128):
        yield f"has a swizzle of {buffer.swizzle} bytes"
    if buffer.panel <= 0 or row % buffer.panel:
        yield f"has rows of {row} bytes, which panels of {buffer.panel} bytes do not divide"
    if buffer.swizzle and buffer.panel != buffer.swizzle:
        yield f"has panels of {buffer.panel} bytes and a swizzle of {buffer.swizzle}"
    # The swizzle takes bits of the address: a pattern of eight rows begins at a multiple of its size.
    atom = 8 * buffer.swizzle or 16
    if buffer.offset % atom or (buffer.slots > 1 and buffer.bytes % atom):
        yield f"is not aligned to the {atom} bytes that its swizzle repeats after"


def _barriers(program: ir.WarpProgram, machine: Machine | None) -> Iterator[Violation]:
    if machine and len(program.barriers) > machine.emitting.named_barriers.whole:
        yield Violation("barrier", f"{len(program.barriers)} named barriers, more than {program.machine} has")
    for barrier in program.barriers:
        threads = sum(program.groups[group].threads for group in barrier.groups)
        if barrier.threads != threads:
            yield Violation("barrier", f"barrier `{barrier.name}` counts {barrier.threads} threads, its warp groups "
                                       f"have {threads}")  # fmt: skip


# ---------------------------------------------------------------- registers
def _registers(program: ir.WarpProgram, machine: Machine | None, spilling: bool) -> Iterator[Violation]:
    for group in program.groups:
        if group.registers and machine:
            context = machine.context("issue" if group.issuer else "compute")
            granule, low = machine.register_file.granule, context.min_registers
            high = _highest(machine)
            if group.registers % granule or not low <= group.registers <= high:
                yield Violation("registers", f"{group.role} has {group.registers} registers, possible are multiples of "
                                             f"{granule} from {low} to {high}", 0, group.role)  # fmt: skip
        live, line = peak(group)
        if group.registers and not spilling and crowded(live, group.registers):
            yield Violation("registers", f"fragments of about {live} registers are alive at once in {group.role}, "
                                         f"which has {group.registers}", line, group.role)  # fmt: skip
        if group.registers and program.ctas > 1:
            yield Violation("registers", f"{group.role} moves registers, which CTAs that share an SM must not",
                            0, group.role)  # fmt: skip
    if machine:
        yield from _pool(program, machine)


def _pool(program: ir.WarpProgram, machine: Machine) -> Iterator[Violation]:
    """Budgets move registers within the pool of a CTA: what its launch allocated, equal in all threads. A group
    that asks for more than the others have released waits for ever (PTX: the increase blocks until enough registers
    are in the per-CTA register pool)."""
    if not any(group.registers for group in program.groups):
        return
    threads = sum(group.threads for group in program.groups)
    pool = register_pool(threads, machine)
    total = sum(group.threads * (group.registers or pool // threads) for group in program.groups)
    if total > pool:
        yield Violation("registers", f"warp groups have {total} registers together, a launch of {threads} threads on "
                                     f"{program.machine} has {pool}: {pool // threads} each")  # fmt: skip


def _highest(machine: Machine) -> int:
    """Of any context; where results of MMAs are in tensor memory, all that a thread can name."""
    most = max(context.max_registers for context in machine.contexts)
    in_tensor_memory = machine.mma is not None and machine.mma.accumulator == "tmem"
    return machine.emitting.most_registers.whole - machine.register_file.granule if in_tensor_memory else most


def _of(stmt: ir.Stmt, group: ir.WarpGroup, rule: str, message: str) -> Violation:
    return Violation(rule, message, stmt.line, group.role)
