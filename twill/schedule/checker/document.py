"""Consistency of the document: its figures follow from its graphs, its machine and its ops.

See "What the document must say" in docs/model.md. Nothing here looks at time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from twill.graph.costed import CostedGraph, CostedValue, Instruction, Invariant, Storage
from twill.machine.description import Machine
from twill.schedule.checker.timeline import Placed, Timeline
from twill.schedule.checker.violation import BrokenRule, violation
from twill.schedule.document import LoopSchedule, Schedule, ScheduledOp, ScheduledWarpGroup


def machine(schedule: Schedule, given: Machine) -> Iterator[BrokenRule]:
    """The document, and each loop's graph, was made for the machine given."""
    digest = given.digest()
    made_for: list[tuple[int | None, str, str, str]] = [
        (None, "the schedule", schedule.machine, schedule.machine_digest)
    ]
    for loop in schedule.loops:
        made_for.append((loop.loop, "the loop's graph", loop.graph.machine, loop.graph.machine_digest))
    for number, what, name, its_digest in made_for:
        if name != given.name:
            yield violation("machine", f"{what} is for machine {name}, not {given.name}", loop=number)
        elif its_digest != digest:
            message = f"{what} is for another edition of machine {name} (digest {its_digest[:12]}, not {digest[:12]})"
            yield violation("machine", message, loop=number)


def units(loop: int, graph: CostedGraph, given: Machine) -> Iterator[BrokenRule]:
    """Every unit in a reservation table is one of the machine's."""
    known = {unit.name for unit in given.units}
    for instruction in graph.instructions:
        for use in instruction.uses:
            if use.unit not in known:
                message = f"{instruction.name} uses unit {use.unit}, which {given.name} does not have"
                yield violation("machine", message, loop=loop, at=(instruction,))


def interleaved(loop: int, its: CostedGraph, given: Machine) -> Iterator[BrokenRule]:
    """The units of which only the sum of work counts are those that the machine interleaves."""
    shared = {unit.name for unit in given.units if unit.interleaved}
    used = {use.unit for instruction in its.instructions for use in instruction.uses}
    for unit in sorted(used & (shared ^ set(its.interleaved))):
        verb = "interleaves" if unit in its.interleaved else "does not interleave"
        yield violation("machine", f"the loop's graph {verb} unit {unit}, unlike {given.name}", loop=loop)


def graph(loop: int, its: CostedGraph) -> Iterator[BrokenRule]:
    """The graph refers only to what it has, and counts nothing negative."""
    numbers = {
        "instruction": [i.id for i in its.instructions],
        "value": [v.id for v in its.values],
        "storage": [s.id for s in its.storages],
        "invariant": [i.id for i in its.invariants],
    }
    for kind, ids in numbers.items():
        for number in sorted(number for number, count in Counter(ids).items() if count > 1):
            yield violation("graph", f"several {kind}s have id {number}", loop=loop)
    instructions, storages = set(numbers["instruction"]), set(numbers["storage"])
    referred = [(f"an edge ({e.src} to {e.dst})", n, instructions) for e in its.edges for n in (e.src, e.dst)]
    for value in its.values:
        users = [value.producer, *(read.reader for read in value.reads)]
        referred += [(f"value {value.name}", user, instructions) for user in users]
        if value.storage is not None:
            referred.append((f"the storage of value {value.name}", value.storage, storages))
    referred += [(f"invariant {i.name}", reader, instructions) for i in its.invariants for reader in i.readers]
    for what, number, known in referred:
        if number not in known:
            yield violation("graph", f"{what} refers to {number}, which the graph does not have", loop=loop)
    yield from (violation("graph", f"{what} is negative", loop=loop) for what in negative(its))


def negative(its: CostedGraph) -> Iterator[str]:
    """What the graph counts below zero."""
    for i in its.instructions:
        if min(i.latency, i.hold, *(n for use in i.uses for n in (use.start, use.cycles)), 0) < 0:
            yield f"a number of cycles of instruction {i.name}"
    for edge in its.edges:
        if min(edge.distance, edge.crossing) < 0:
            yield f"distance or crossing of the edge {edge.src} to {edge.dst}"
    for value in its.values:
        if min(value.spill, *(read.distance for read in value.reads), 0) < 0:
            yield f"a distance or the spill of value {value.name}"
    sizes: tuple[CostedValue | Storage | Invariant, ...] = (*its.values, *its.storages, *its.invariants)
    for sized in sizes:
        if min(sized.bytes, sized.registers) < 0:
            yield f"the size of {sized.name}"


def warp_groups(schedule: Schedule, given: Machine) -> Iterator[BrokenRule]:
    """Warp groups are the machine's, used, told apart, and have a role."""
    contexts = {context.name: context for context in given.contexts}
    used = {op.warp_group for op in schedule.ops}
    for number in sorted(n for n, count in Counter(g.id for g in schedule.warp_groups).items() if count > 1):
        yield violation("warp groups", f"several warp groups have id {number}")
    for group in schedule.warp_groups:
        if group.id not in used:
            yield violation("warp groups", f"warp group {group.id} issues nothing")
        if not group.role.strip():
            yield violation("warp groups", f"warp group {group.id} has no role")
        context = contexts.get(group.context)
        if context is None:
            message = f"warp group {group.id} is of context {group.context}, which {given.name} does not have"
            yield violation("warp groups", message)
        elif context.threads != group.threads:
            message = f"warp group {group.id} has {group.threads} threads, context {context.name} has {context.threads}"
            yield violation("warp groups", message)


def place(loop: LoopSchedule, ops: Iterable[ScheduledOp]) -> tuple[dict[int, Placed], list[BrokenRule]]:
    """Which op schedules which instruction, and where the two differ."""
    instructions = {i.id: i for i in loop.graph.instructions}
    placed: dict[int, Placed] = {}
    found: list[BrokenRule] = []
    for op in ops:
        instruction = instructions.get(op.id)
        if instruction is None:
            message = f"op {op.id} ({op.name}) schedules no instruction of the loop's graph"
            found.append(violation("operations", message, loop=loop.loop))
            continue
        if op.id in placed:
            message = f"{instruction.name} is scheduled more than once"
            found.append(violation("uniqueness", message, loop=loop.loop, at=(instruction,), cycle=op.start))
            continue
        placed[op.id] = Placed(instruction, op.start, op.warp_group)
        for message in differences(op, instruction, loop.ii):
            found.append(violation("operations", message, loop=loop.loop, at=(instruction,)))
        if op.start < 0:
            message = f"{instruction.name} starts at {op.start}, before its iteration"
            found.append(violation("uniqueness", message, loop=loop.loop, at=(instruction,), cycle=op.start))
    for number, instruction in instructions.items():
        if number not in placed:
            message = f"{instruction.name} is not scheduled"
            found.append(violation("uniqueness", message, loop=loop.loop, at=(instruction,)))
    return placed, found


def beginning(timeline: Timeline) -> Iterator[BrokenRule]:
    """Something starts at cycle 0: times are counted from there."""
    earliest = min(timeline.placed.values(), key=lambda placed: placed.start, default=None)
    if earliest is not None and earliest.start > 0:
        at = earliest.instruction
        message = f"nothing starts at cycle 0; the earliest is {at.name} at {earliest.start}"
        yield violation("uniqueness", message, loop=timeline.loop, at=(at,), cycle=earliest.start)


def differences(op: ScheduledOp, instruction: Instruction, ii: int) -> Iterator[str]:
    """What an op says of itself that its instruction, or its own start, does not."""
    said = (op.name, op.op, op.unit, op.line, op.block, op.cycles, op.hold)
    is_so = (instruction.name, instruction.op, instruction.unit, instruction.line, instruction.block)
    fields = ("name", "op", "unit", "line", "block", "cycles", "hold")
    for field, one, other in zip(fields, said, (*is_so, instruction.latency, instruction.hold), strict=True):
        if one != other:
            yield f"op {op.id} has {field} {one!r}, its instruction {other!r}"
    if not 0 <= op.row < ii:
        yield f"{op.name} is in row {op.row} of {ii}"
    if op.start != op.stage * ii + op.row:
        yield f"{op.name} starts at {op.start}, but stage {op.stage} and row {op.row} mean {op.stage * ii + op.row}"


def warp_uniqueness(timeline: Timeline, groups: dict[int, ScheduledWarpGroup]) -> Iterator[BrokenRule]:
    """Every instruction is in a warp group that exists and is of a context that can issue it."""
    for placed in timeline.placed.values():
        group, name = groups.get(placed.group), placed.instruction.name
        if group is None:
            message = f"{name} is in warp group {placed.group}, which the schedule does not have"
        elif group.context not in placed.instruction.contexts:
            allowed = ", ".join(placed.instruction.contexts)
            message = f"{name} is in warp group {group.id} of context {group.context}; it can be issued from {allowed}"
        else:
            continue
        yield violation("warp uniqueness", message, loop=timeline.loop, at=(placed.instruction,))


def max_groups(schedule: Schedule, given: Machine) -> Iterator[BrokenRule]:
    """No context has more used warp groups than the machine gives it."""
    used = {op.warp_group for op in schedule.ops}
    count = Counter(context for _, context in {(g.id, g.context) for g in schedule.warp_groups if g.id in used})
    for context in given.contexts:
        if count[context.name] > context.max_groups:
            message = f"{count[context.name]} warp groups of context {context.name}; at most {context.max_groups} exist"
            yield violation("warp uniqueness", message)


def single_issuer(timeline: Timeline) -> Iterator[BrokenRule]:
    """Instructions with one tag share a warp group."""
    first: dict[str, Placed] = {}
    for placed in timeline.placed.values():
        tag = placed.instruction.single_issuer
        if not tag:
            continue
        issuer = first.setdefault(tag, placed)
        if issuer.group != placed.group:
            yield violation(
                "single issuer",
                f"{placed.instruction.name} is in warp group {placed.group} and {issuer.instruction.name} in"
                f" {issuer.group}; all {tag} instructions must come from one",
                loop=timeline.loop,
                at=(issuer.instruction, placed.instruction),
            )


def variable_latency(timeline: Timeline) -> Iterator[BrokenRule]:
    """A warp group that waits on variable latencies does nothing else."""
    waiting: dict[int, Instruction] = {}
    for placed in timeline.placed.values():
        if placed.instruction.variable_latency:
            waiting.setdefault(placed.group, placed.instruction)
    for placed in timeline.placed.values():
        if placed.instruction.variable_latency or placed.group not in waiting:
            continue
        load = waiting[placed.group]
        yield violation(
            "variable latency",
            f"{placed.instruction.name} shares warp group {placed.group} with {load.name}, whose latency varies",
            loop=timeline.loop,
            at=(load, placed.instruction),
        )
