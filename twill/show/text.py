"""A schedule as text: headline, Gantt picture and tables of every loop."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.text import Text

from twill.schedule.document import Schedule
from twill.show.console import plain, standard_output, text_of
from twill.show.gantt import ASCII, UNICODE, gantt
from twill.show.table import buffers_table, candidates_table, certificate_lines, groups_table, ops_table
from twill.show.view import LoopView, views
from twill.show.words import cooperation_words, cycles, normalization_words, verdict


def print_schedule(schedule: Schedule) -> None:
    """The schedule on standard output."""
    print_on(standard_output(), schedule)


def schedule_text(schedule: Schedule, width: int) -> str:
    """The schedule as plain text of `width` columns."""
    console = plain(width)
    print_on(console, schedule)
    return text_of(console)


def print_on(console: Console, schedule: Schedule) -> None:
    """The schedule on a console, as wide as it is."""
    ascii_only = console.options.ascii_only
    for part in parts(schedule, console.width, ascii_only):
        console.print(part)


def parts(schedule: Schedule, width: int, ascii_only: bool) -> Iterator[RenderableType]:
    """What is printed, in order."""
    drawn = views(schedule)
    yield from headline(schedule)
    for view in drawn:
        yield Text()
        yield from loop_head(schedule, view)
        yield from gantt(view, width, glyphs=ASCII if ascii_only else UNICODE)
        yield Text()
        yield ops_table(view, width)
    yield Text()
    yield groups_table(schedule, drawn)
    if schedule.buffers:
        yield Text()
        yield buffers_table(schedule)
    if len(schedule.candidates) > 1:
        yield Text()
        yield candidates_table(schedule)
    yield Text()
    for view in drawn:
        place = f"certificate, {view.title}" if len(drawn) > 1 else "certificate"
        yield Text(place, style="bold")
        for line in certificate_lines(view.loop.certificate, view.loop.objective):
            yield Text(f"  {line}")


def headline(schedule: Schedule) -> Iterator[Text]:
    """Kernel, machine, what is claimed, and how row blocks cooperate."""
    claim = verdict(schedule)
    style = "bold green" if claim.startswith("proven") else "bold yellow"
    kernel, machine = (schedule.kernel, "bold"), (schedule.machine, "bold")
    yield Text.assemble(kernel, f" ({schedule.spec}) on ", machine, ": ", (claim, style))
    fuse = schedule.cooperation.fuse
    share = f", {schedule.ii / fuse:,.0f} for each of {fuse} instances" if fuse > 1 else ""
    yield Text(
        f"I = {cycles(schedule.ii)} cycles{share}, L = {cycles(schedule.length)}, "
        f"{schedule.copies} iterations in flight, {cooperation_words(schedule.cooperation)}, "
        f"solved in {schedule.solve_seconds:.1f} s"
    )
    if schedule.normalization:
        yield Text(normalization_words(schedule.normalization), style="yellow")
    if schedule.pins:
        yield Text(f"pins: {' '.join(schedule.pins)}")


def loop_head(schedule: Schedule, view: LoopView) -> Iterator[Text]:
    """The loop's title; its own figures if there are several loops."""
    own = ""
    if len(schedule.loops) > 1:
        copies = view.loop.copies
        own = f": I = {cycles(view.ii)}, L = {cycles(view.loop.length)}, {copies} iterations in flight"
    yield Text(f"{view.title}{own}", style="bold")
