"""Rules on time, units and issue: what a simulated loop breaks of them.

One function per rule of docs/model.md, each over a timeline (`twill.schedule.checker.timeline`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from twill.schedule.checker.timeline import Busy, Timeline, collisions, first_of_each
from twill.schedule.checker.violation import BrokenRule, violation


def dependence(timeline: Timeline) -> Iterator[BrokenRule]:
    """Every iteration's instruction starts after those it depends on, in whichever iteration."""
    for edge in timeline.graph.edges:
        if edge.src not in timeline.placed or edge.dst not in timeline.placed:
            continue
        crosses = timeline.group(edge.src) != timeline.group(edge.dst)
        wait = edge.delay + (edge.crossing if crosses else 0)
        for iteration in range(edge.distance, timeline.iterations):
            starts = timeline.start(edge.dst, iteration)
            ready = timeline.start(edge.src, iteration - edge.distance) + wait
            if starts >= ready:
                continue
            src, dst = timeline.instruction(edge.src), timeline.instruction(edge.dst)
            after = f" and {edge.crossing} to cross to its warp group" if crosses and edge.crossing else ""
            yield violation(
                "dependence",
                f"{dst.name} starts at cycle {starts} of iteration {iteration}, but {src.name} of iteration"
                f" {iteration - edge.distance} lets it start at {ready} ({edge.delay} cycles of delay{after})",
                loop=timeline.loop,
                at=(src, dst),
                cycle=starts,
            )
            break


def capacity(timeline: Timeline) -> Iterator[BrokenRule]:
    """A unit does one thing at a time; one that takes turns has enough cycles in an iteration."""
    busy: dict[str, list[Busy]] = defaultdict(list)
    for number, placed in timeline.placed.items():
        for iteration in range(timeline.iterations):
            issue = timeline.start(number, iteration)
            for use in placed.instruction.uses:
                begin = issue + use.start
                busy[use.unit].append(Busy(begin, begin + use.cycles, number, iteration))
    for unit in sorted(busy):
        if unit in timeline.graph.interleaved:
            yield from oversubscribed(timeline, unit, busy[unit])
            continue
        for one, other in first_of_each(collisions(busy[unit])):
            yield both(timeline, "capacity", one, other, f"need unit {unit}")


def oversubscribed(timeline: Timeline, unit: str, busy: list[Busy]) -> Iterator[BrokenRule]:
    """An interleaved unit works no longer per iteration than an iteration lasts."""
    work = sum(one.end - one.begin for one in busy)
    room = timeline.iterations * timeline.ii
    if work > room:
        users = tuple(timeline.instruction(number) for number in sorted({one.holder for one in busy}))
        message = f"unit {unit} has {work} cycles of work in {timeline.iterations} iterations of {timeline.ii} cycles"
        yield violation("capacity", message, loop=timeline.loop, at=users)


def concurrency(timeline: Timeline) -> Iterator[BrokenRule]:
    """A warp group issues in order: while an instruction holds it, it issues nothing else."""
    held = holds(timeline)
    for group in sorted(held):
        for one, other in first_of_each(collisions(held[group])):
            yield both(timeline, "concurrency", one, other, f"hold warp group {group}")


def spills(timeline: Timeline) -> Iterator[BrokenRule]:
    """While a value leaves its warp group, the group issues nothing and no other value leaves it."""
    held = holds(timeline)
    leaving: dict[int, list[Busy]] = defaultdict(list)
    name = {value.id: value.name for value in timeline.graph.values}
    producer = {value.id: timeline.instruction(value.producer) for value in timeline.made()}
    for value in timeline.made():
        if not timeline.spills(value):
            continue
        for iteration in range(timeline.iterations):
            begin = timeline.start(value.producer, iteration) + producer[value.id].latency
            leaving[timeline.group(value.producer)].append(Busy(begin, begin + value.spill, value.id, iteration))
    for group in sorted(leaving):
        for one, other in first_of_each(collisions(leaving[group])):
            yield violation(
                "cross-warp spill",
                f"{name[one.holder]} of iteration {one.iteration} and {name[other.holder]} of iteration"
                f" {other.iteration} leave warp group {group} at once: cycles [{one.begin}, {one.end}) and"
                f" [{other.begin}, {other.end})",
                loop=timeline.loop,
                at=(producer[one.holder], producer[other.holder]),
                cycle=other.begin,
            )
        for window, hold in crowded(leaving[group], held[group]):
            issued = timeline.instruction(hold.holder)
            yield violation(
                "cross-warp spill",
                f"{issued.name} of iteration {hold.iteration} holds warp group {group} in cycles [{hold.begin},"
                f" {hold.end}), while {name[window.holder]} of iteration {window.iteration} leaves it in"
                f" [{window.begin}, {window.end})",
                loop=timeline.loop,
                at=(producer[window.holder], issued),
                cycle=max(window.begin, hold.begin),
            )


def crowded(windows: list[Busy], holds_of_group: list[Busy]) -> Iterator[tuple[Busy, Busy]]:
    """The first overlap of each value's windows with each instruction's holds."""
    seen: set[tuple[int, int]] = set()
    last_window: Busy | None = None
    last_hold: Busy | None = None
    events = [(window, True) for window in windows] + [(hold, False) for hold in holds_of_group]
    for event, is_window in sorted(events):
        if event.end <= event.begin:
            continue
        against = last_hold if is_window else last_window
        if against is not None and event.begin < against.end:
            window, hold = (event, against) if is_window else (against, event)
            if (window.holder, hold.holder) not in seen:
                seen.add((window.holder, hold.holder))
                yield window, hold
        if is_window and (last_window is None or event.end > last_window.end):
            last_window = event
        if not is_window and (last_hold is None or event.end > last_hold.end):
            last_hold = event


def holds(timeline: Timeline) -> dict[int, list[Busy]]:
    """Per warp group, when its instructions hold it."""
    held: dict[int, list[Busy]] = defaultdict(list)
    for number, placed in timeline.placed.items():
        for iteration in range(timeline.iterations):
            issue = timeline.start(number, iteration)
            held[placed.group].append(Busy(issue, issue + placed.instruction.hold, number, iteration))
    return held


def both(timeline: Timeline, rule: str, one: Busy, other: Busy, what: str) -> BrokenRule:
    """A violation: two instructions, or one of two iterations, occupy the same resource at the same time."""
    first, second = timeline.instruction(one.holder), timeline.instruction(other.holder)
    return violation(
        rule,
        f"{first.name} of iteration {one.iteration} and {second.name} of iteration {other.iteration} both {what}:"
        f" cycles [{one.begin}, {one.end}) and [{other.begin}, {other.end})",
        loop=timeline.loop,
        at=(first, second),
        cycle=other.begin,
    )
