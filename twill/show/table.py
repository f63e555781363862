"""The schedule as tables: ops, warp groups, buffers, candidates, and the certificate in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich import box
from rich.table import Table
from rich.text import Text

from twill.schedule.document import Certificate, Objective, Schedule
from twill.show.live import register_layers, total
from twill.show.palette import colour, colours
from twill.show.view import LoopView
from twill.show.words import cooperation_words, cycles, label, objectives_words, size

BOX = box.SIMPLE_HEAD
WIDE = 100  # columns from which the fused operations are shown too


def new_table(title: str, columns: Iterable[str], right: Iterable[str]) -> Table:
    """A table whose `right` columns are aligned to the right."""
    numbers = set(right)
    table = Table(
        title=title, title_justify="left", title_style="bold", box=BOX, show_edge=False,
        collapse_padding=True, pad_edge=False,
    )  # fmt: skip
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=True)
    return table


def ops_table(view: LoopView, width: int) -> Table:
    """Ops in the order they start. unit cycles: busy time of the op's main unit."""
    numbers = ("line", "start", "stage", "row", "latency", "hold")
    columns = ["op", "line", "unit", "start", "stage", "row", "latency", "hold", "warp group"]
    if width >= WIDE:
        columns.append("operations")
    table = new_table("ops, in order of their start (cycles)", columns, numbers)
    chosen = colours(view.items)
    roles = {group.id: group.role for group, _ in view.groups}
    for item in view.items:
        op = item.op
        name = Text(item.label, style=colour(item, chosen))
        figures = (op.start, op.stage, op.row, op.cycles, op.hold)
        words = [str(op.line), op.unit, *map(cycles, figures), roles[op.warp_group]]
        table.add_row(name, *words, *([op.op] if width >= WIDE else []))
    return table


def groups_table(schedule: Schedule, drawn: Iterable[LoopView]) -> Table:
    """Warp groups. tiles: the most registers that tile values take in any loop."""
    columns = ("warp group", "context", "threads", "registers", "tiles", "ops")
    table = new_table("warp groups (registers a thread)", columns, columns[2:])
    drawn = tuple(drawn)
    for group in schedule.warp_groups:
        peaks = [max(level for _, level in total(register_layers(view, group))) for view in drawn]
        ops = sum(op.warp_group == group.id for op in schedule.ops)
        figures = (group.threads, group.registers, max(peaks), ops)
        table.add_row(group.role, group.context, *map(str, figures))
    return table


def buffers_table(schedule: Schedule) -> Table:
    """Rings and resident buffers with their sizes."""
    several = len(schedule.loops) > 1
    columns = ("buffer", "space", "slots", "a slot", "together", *(["loop"] if several else []))
    table = new_table("buffers", columns, ("slots", "a slot", "together", "loop"))
    for b in schedule.buffers:
        together = size(b.bytes * b.depth)
        table.add_row(
            label(b.name, b.block), b.space, str(b.depth), size(b.bytes), together, *([str(b.loop)] if several else [])
        )
    return table


def candidates_table(schedule: Schedule) -> Table:
    """Cooperations that were considered."""
    table = new_table("cooperations considered", ("cooperation", "I", "verdict"), ("I",))
    table.columns[2].no_wrap = False
    for candidate in schedule.candidates:
        ii = "" if candidate.ii is None else cycles(candidate.ii)
        table.add_row(cooperation_words(candidate.cooperation), ii, candidate.verdict)
    return table


def certificate_lines(certificate: Certificate, objective: Objective) -> Iterator[str]:
    """Two lines: the lower bounds, and what was asked of the solver."""
    b = certificate.bounds
    yield (
        f"bounds on I: resource {b.resource}, recurrence {b.recurrence}, memory {b.memory}, issue {b.issue}"
        + (f" ({b.witness})" if b.witness else "")
    )
    verdicts = [step.verdict for step in certificate.steps]
    seconds = sum(step.seconds for step in certificate.steps)
    solvers = ", ".join(dict.fromkeys(s.solver for s in certificate.steps if s.verdict != "bound")) or "bounds alone"
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    some = objectives_words(objective)
    end = f"proven: I >= {certificate.lower_bound}"
    if certificate.optimal:
        end = f"least {some} proven" if some else "every objective proven"
    yield f"{len(verdicts)} steps ({counts}) by {solvers} in {seconds:.2f} s, seed {certificate.seed}: {end}"
