"""The schedule as one self-contained page: drawings, tables, certificate; no network, light and dark."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator
from typing import Literal

from twill.schedule.document import Schedule
from twill.show import html_graph, html_liveness, html_tables
from twill.show.html_timeline import timeline
from twill.show.markup import element, text
from twill.show.view import LoopView, views
from twill.show.words import cooperation_words, cycles, label, normalization_words, verdict

# The page may run what it carries and load nothing.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"

HINT = (
    "Rows are functional units and warp groups; a warp group's bar is the time in which it can issue nothing else, "
    "the thin line below it an asynchronous instruction in flight. Each iteration has a colour, odd row blocks are "
    "lighter. Point at an op, or reach it with the tab and arrow keys, for its kernel line, cycles and dependences."
)


def page(schedule: Schedule) -> str:
    """The page as text. Raises InvalidSchedule if the document contradicts itself."""
    drawn = views(schedule)
    title = f"{schedule.kernel} ({schedule.spec}) on {schedule.machine}"
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">' + element("title", text(title)) + element("style", resource("page.css"))
    )
    body = element("main", "".join(sections(schedule, drawn)))
    data = f'<script type="application/json" id="data">{script_json(data_of(schedule, drawn))}</script>'
    tip = '<div id="tip" role="status" aria-live="polite" hidden></div>'
    script = element("script", resource("page.js"))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}{tip}{data}{script}</body></html>\n'


def resource(name: str) -> str:
    """A file of this package."""
    return importlib.resources.files("twill.show").joinpath(name).read_text(encoding="utf-8")


def script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


Level = Literal["h2", "h3"]


def sections(schedule: Schedule, drawn: tuple[LoopView, ...]) -> Iterator[str]:
    """The page from top to bottom."""
    yield header(schedule)
    level: Level = "h3" if len(drawn) > 1 else "h2"
    for view in drawn:
        if len(drawn) > 1:
            yield element("h2", text(view.title[0].upper() + view.title[1:]), {"class": "loop"})
            yield tiles(loop_figures(view))
        else:
            yield element("p", text(view.title[0].upper() + view.title[1:] + "."), {"class": "where"})
        yield section("Timeline", element("p", HINT) + timeline(view), level)
        yield section("Dependences", html_graph.dependences(view), level)
        yield section("Registers over one initiation interval", html_liveness.registers(view), level)
        yield section("Memory over one initiation interval", html_liveness.memories(view, schedule.buffers), level)
        yield section("Certificate", html_tables.certificate(view.loop), level)
        yield section("Ops", html_tables.ops(view), level)
    yield section("Warp groups", html_tables.groups(schedule, drawn))
    if schedule.buffers:
        yield section("Buffers", html_tables.buffers(schedule))
    if schedule.candidates:
        yield section("Cooperations considered", html_tables.candidates(schedule))
    yield element("footer", text(f"{schedule.schema_version}, key {schedule.key}"))


def section(title: str, content: str, level: Level = "h2") -> str:
    """A titled part of the page, under its title or (`h3`) under that of a loop."""
    return element("section", element(level, text(title)) + content)


def header(schedule: Schedule) -> str:
    """Kernel, machine, claim, and the figures of the main loop."""
    good = verdict(schedule).startswith("proven")
    badge = element("span", text(verdict(schedule)), {"class": "badge good" if good else "badge open"})
    name = element("h1", f"{text(schedule.kernel)} {element('small', text(schedule.spec))}")
    notes = []
    if schedule.normalization:
        notes.append(normalization_words(schedule.normalization))
    if schedule.pins:
        notes.append(f"pins: {' '.join(schedule.pins)}")
    below = "".join(element("p", text(note), {"class": "note"}) for note in notes)
    on = element("p", f"on {element('b', text(schedule.machine))}: {text(cooperation_words(schedule.cooperation))}")
    return element("header", element("div", name + badge, {"class": "title"}) + on + tiles(figures(schedule)) + below)


def figures(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """The main loop's figures."""
    yield "initiation interval I, cycles", cycles(schedule.ii)
    if schedule.cooperation.fuse > 1:
        yield "cycles for each instance", f"{schedule.ii / schedule.cooperation.fuse:,.0f}"
    yield "length L, cycles", cycles(schedule.length)
    yield "iterations in flight", str(schedule.copies)
    yield "crossings, cycles", cycles(schedule.objective.crossing)
    yield "warp groups", str(len(schedule.warp_groups))
    yield "solved in", f"{schedule.solve_seconds:.1f} s"


def loop_figures(view: LoopView) -> Iterator[tuple[str, str]]:
    """One loop's own figures."""
    yield "initiation interval I, cycles", cycles(view.ii)
    yield "length L, cycles", cycles(view.loop.length)
    yield "iterations in flight", str(view.loop.copies)
    yield "crossings, cycles", cycles(view.loop.objective.crossing)


def tiles(found: Iterator[tuple[str, str]]) -> str:
    """Figures side by side."""
    parts = (element("div", element("b", text(value)) + element("span", text(name))) for name, value in found)
    return element("div", "".join(parts), {"class": "tiles"})


def data_of(schedule: Schedule, drawn: tuple[LoopView, ...]) -> dict[str, object]:
    """What the page's script needs: ops and edges of every loop."""
    roles = {group.id: group.role for group in schedule.warp_groups}
    return {str(view.loop.loop): loop_data(view, roles) for view in drawn}


def loop_data(view: LoopView, roles: dict[int, str]) -> dict[str, object]:
    """Ops by id, and the edges."""
    results: dict[int, list[str]] = {}
    for value in view.loop.graph.values:
        amount = f"{value.registers} registers a thread" if value.space == "register" else f"{value.bytes} bytes"
        results.setdefault(value.producer, []).append(f"{label(value.name, value.block)} in {value.space}, {amount}")
    ops = {
        str(item.op.id): {
            "label": item.label, "op": item.op.op, "unit": item.op.unit, "line": item.op.line, "start": item.op.start,
            "stage": item.op.stage, "row": item.op.row, "cycles": item.op.cycles, "hold": item.op.hold,
            "group": roles[item.op.warp_group], "async": item.instruction.asynchronous,
            "uses": [f"{use.unit} {use.cycles}" for use in item.instruction.uses],
            "result": "; ".join(results.get(item.op.id, [])),
        }
        for item in view.items
    }  # fmt: skip
    edges = [
        {"src": e.src, "dst": e.dst, "delay": e.delay, "distance": e.distance, "crossing": e.crossing, "kind": e.kind}
        for e in view.loop.graph.edges
    ]
    return {"ii": view.ii, "ops": ops, "edges": edges}
