"""The schedule as a trace for Perfetto or chrome://tracing: several iterations, one cycle a microsecond.

Each loop has two processes, its units and its warp groups; a thread is a row, a slice one op of one
iteration. An asynchronous instruction is an arrow-less async slice from issue until its result,
and every warp group has a counter of the registers that tile values take.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from twill.schedule.document import Schedule
from twill.show.html_timeline import iterations
from twill.show.live import register_layers, total
from twill.show.view import Bar, LoopView, TimelineRow, views

Event = dict[str, object]


def trace(schedule: Schedule) -> str:
    """The trace as JSON text (the Trace Event Format)."""
    events = [event for n, view in enumerate(views(schedule)) for event in loop_events(view, 2 * n + 1)]
    document = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {
            "kernel": schedule.kernel, "spec": schedule.spec, "machine": schedule.machine, "ii": schedule.ii,
            "unit": "1 us is 1 cycle", "key": schedule.key,
        },
    }  # fmt: skip
    return json.dumps(document, separators=(",", ":")) + "\n"


def loop_events(view: LoopView, process: int) -> Iterator[Event]:
    """Units in `process`, warp groups in the next."""
    yield named("process_name", f"units, {view.title}", process)
    for thread, row in enumerate(view.units):
        yield from row_events(view, row, process, thread)
    yield named("process_name", f"warp groups, {view.title}", process + 1)
    for thread, (_, row) in enumerate(view.groups):
        yield from row_events(view, row, process + 1, thread)
        yield from flights(view, row, process + 1, thread)
    yield from counters(view, process + 1)


def named(what: str, name: str, process: int, thread: int = 0) -> Event:
    """A name for a process or thread."""
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}


def row_events(view: LoopView, row: TimelineRow, process: int, thread: int) -> Iterator[Event]:
    """One complete slice an op and iteration, in the order of time."""
    yield named("thread_name", row.name, process, thread)
    yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread, "args": {"sort_index": thread}}
    slices = [(bar.start + k * view.ii, k, bar) for k in range(iterations(view)) for bar in row.bars]
    for start, k, bar in sorted(slices, key=lambda s: (s[0], s[1], s[2].item.op.id)):
        yield {
            "ph": "X", "name": bar.item.label, "cat": f"iteration {k}", "pid": process, "tid": thread,
            "ts": start, "dur": bar.end - bar.start, "args": arguments(bar, k),
        }  # fmt: skip


def arguments(bar: Bar, iteration: int) -> dict[str, object]:
    """What a slice tells when it is clicked."""
    op = bar.item.op
    return {
        "iteration": iteration, "kernel line": op.line, "operations": op.op, "stage": op.stage, "row": op.row,
        "latency": op.cycles, "hold": op.hold,
    }  # fmt: skip


def flights(view: LoopView, row: TimelineRow, process: int, thread: int) -> Iterator[Event]:
    """Asynchronous instructions from their issue until their result can be read."""
    for k in range(iterations(view)):
        for bar in row.bars:
            item = bar.item
            if not item.instruction.asynchronous:
                continue
            begin = bar.start + k * view.ii
            same: Event = {
                "name": item.label, "cat": f"in flight, {row.name}", "id": f"{item.op.id}.{k}", "pid": process,
                "tid": thread,
            }  # fmt: skip
            yield {"ph": "b", "ts": begin, "args": {"iteration": k}, **same}
            yield {"ph": "e", "ts": begin + item.op.cycles, **same}


def counters(view: LoopView, process: int) -> Iterator[Event]:
    """Registers that tile values take in the steady state."""
    first = max(0, view.loop.copies - 1)
    for group, row in view.groups:
        steps = total(register_layers(view, group))
        for k in range(first, iterations(view)):
            for at, level in steps:
                yield {
                    "ph": "C", "name": f"registers, {row.name}", "pid": process, "ts": at + k * view.ii,
                    "args": {"tile values": level},
                }  # fmt: skip
