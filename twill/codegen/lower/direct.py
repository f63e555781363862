"""Kernels without products in one warp group: tiles go from global memory straight to registers.

What several warp groups gain by passing tiles through rings in shared memory is that loads and products go on beside
other work. Without products, other CTAs of the SM do the same, more of them fit where nobody holds a ring, and a tile
that is read by whom it was loaded never leaves its registers. `direct_schedule` says a schedule anew for that: one
group, each loop in the order of the program, loads an iteration ahead of their readers where nothing in the loop has to
come before them.
"""

from __future__ import annotations

from twill.codegen.warp.layout import THREADS
from twill.graph.costed import Instruction
from twill.machine.description import Machine
from twill.schedule.document import INSTANCES, LoopSchedule, Schedule, ScheduledOp, ScheduledWarpGroup
from twill.tile.vocabulary import ELEMENTWISE

WORD = 4  # bytes of a register
LOADS = ("tma load", "copy load", "plain load")
COMPUTE, PLAIN = "compute", "plain_load"
WIDTHS = (THREADS, 2 * THREADS, 4 * THREADS, 8 * THREADS)  # threads of a warp group: up to those of a CTA


def has_products(schedule: Schedule) -> bool:
    """Whether the kernel multiplies matrices."""
    return any(i.op == "dot" for loop in schedule.loops for i in loop.graph.instructions)


def is_straight(schedule: Schedule) -> bool:
    """Whether the kernel has no loop: nothing of it goes on beside anything else of the same program instance."""
    return all(loop.trip == INSTANCES for loop in schedule.loops)


def direct_schedule(schedule: Schedule, threads: int = THREADS, late: bool = False) -> Schedule:
    """The same kernel in one warp group of so many threads, whose registers are those of the tiles that live at
    once. late: where tiles are loaded in front of their first readers."""
    most = max((_registers(loop, threads, late) for loop in schedule.loops), default=0)
    group = ScheduledWarpGroup(id=0, role="rows", context=COMPUTE, registers=most, threads=threads)
    loops, ops = [], []
    for loop in schedule.loops:
        made, starts = _in_order(loop)
        loops.append(made)
        ops += [_at(op, starts[op.id], made.ii) for op in schedule.ops if op.loop == loop.loop]
    main = max(loops, key=lambda loop: loop.ii)
    said = {"ops": tuple(ops), "loops": tuple(loops), "warp_groups": (group,), "buffers": ()}
    return schedule.model_copy(update={**said, "ii": main.ii, "length": main.length})


def direct_schedules(schedule: Schedule, machine: Machine) -> list[tuple[int, Schedule]]:
    """The same in each number of threads that may have a program instance between them. First those that have room for
    two of its largest tile, the one that is loaded and what is made of it; the fewest threads first. (16-bit tiles are
    counted as if each element had a register, so the compiler may find room in fewer.)"""
    most, spare = machine.context(COMPUTE).max_registers, machine.emitting.spare_registers.whole
    made = [(threads, direct_schedule(schedule, threads)) for threads in WIDTHS]
    return sorted(made, key=lambda one: 2 * _largest(schedule, one[0]) + spare > most)


def _largest(schedule: Schedule, threads: int) -> int:
    """Registers of each of so many threads for the largest tile."""
    costed = THREADS * schedule.cooperation.width
    sizes = [value.registers for loop in schedule.loops for value in loop.graph.values]
    return -(-max(sizes, default=0) * costed // threads)


def load_cycles(schedule: Schedule, machine: Machine) -> int:
    """Cycles that the tiles of an iteration of every loop take to come to an SM where threads load them. The TMA brings
    more bytes a cycle, and what several loops read once (`twill.codegen.lower.cross_loop_reuse`)."""
    size = 0
    for loop in schedule.loops:
        loads = {i.id for i in loop.graph.instructions if i.op in LOADS}
        size += sum(value.bytes for value in loop.graph.values if value.producer in loads)
    return round(size / machine.transfer(PLAIN).bytes_per_cycle.value)


def _in_order(loop: LoopSchedule) -> tuple[LoopSchedule, dict[int, int]]:
    """The loop one instruction after the other, and when each starts. Loads that wait for nothing in the loop come
    first, for the next iteration: their latency passes under this one."""
    ahead = _ahead(loop)
    others = [i for i in loop.graph.instructions if i not in ahead]
    issued = sum(max(1, i.hold) for i in ahead)
    interval = issued + sum(max(1, i.latency) for i in others)
    starts: dict[int, int] = {}
    now = 0
    for instruction in ahead:
        starts[instruction.id] = now
        now += max(1, instruction.hold)
    now += interval if ahead else 0
    for instruction in others:
        starts[instruction.id] = now
        now += max(1, instruction.latency)
    length = max((starts[i.id] + i.latency for i in loop.graph.instructions), default=interval)
    return loop.model_copy(update={"ii": interval, "length": length}), starts


def _ahead(loop: LoopSchedule) -> list[Instruction]:
    """The loads of a loop for which nothing in it has to come first."""
    if loop.trip == INSTANCES:
        return []
    waiting = {edge.dst for edge in loop.graph.edges}
    return [i for i in loop.graph.instructions if i.op in LOADS and i.id not in waiting]


def _by_elements(instruction: Instruction) -> bool:
    """Whether every element of what it makes is made of one element of each operand, or is loaded or stored."""
    words = instruction.op.split()
    return words[-1] in ("load", "store") or all(word in ELEMENTWISE for word in words)


def _at(op: ScheduledOp, start: int, interval: int) -> ScheduledOp:
    when = {"start": start, "stage": start // interval, "row": start % interval}
    return op.model_copy(update={**when, "warp_group": 0})


def _registers(loop: LoopSchedule, threads: int, late: bool = False) -> int:
    """Registers of each of so many threads for the tiles that live at once. A tile that is read for the last time makes
    room for what is made of it; tiles that are loaded ahead, or read an iteration later, live all the time. late: tiles
    are loaded in front of their first readers, several for one reader one after the other. Where every element goes
    from loads to stores by itself, what is loaded is all that lives: what is made of it is made element by element."""
    graph, ahead = loop.graph, {i.id for i in _ahead(loop)}
    costed = THREADS * graph.cooperation.width

    def each(registers: int) -> int:
        return -(-registers * costed // threads)

    if loop.trip == INSTANCES and all(map(_by_elements, graph.instructions)):
        loaded = {i.id for i in graph.instructions if i.op in LOADS}
        sizes = (each(v.registers) or -(-v.bytes // (threads * WORD)) for v in graph.values if v.producer in loaded)
        return sum(sizes) + sum(each(i.registers) for i in graph.invariants)
    always = sum(each(i.registers) for i in graph.invariants) + sum(each(s.registers) for s in graph.storages)
    most = 0
    spans: list[tuple[int, int, int]] = []
    loads = {i.id for i in graph.instructions if i.op in LOADS} if late else set()
    wanted: dict[int, int] = {}  # by one instruction: the largest tile that is loaded in front of it
    for value in graph.values:
        size = each(value.registers) or -(-value.bytes // (threads * WORD))
        if value.producer in ahead or any(read.distance for read in value.reads):
            always += size
        readers = [read.reader for read in value.reads] or [value.producer]
        if value.producer in loads and len(readers) == 1:
            wanted[readers[0]] = max(size, wanted.get(readers[0], 0))
        else:
            spans.append((min(readers) - 1 if value.producer in loads else value.producer, max(readers), size))
    spans += [(reader - 1, reader, size) for reader, size in wanted.items()]
    for now in range(len(graph.instructions)):
        most = max(most, sum(size for born, last, size in spans if born <= now < last))
    return always + most
