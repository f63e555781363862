"""A schedule's timeline as one SVG file, for documents: `python -m twill.show.picture SCHEDULE.json > FILE.svg`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.show.html import resource
from twill.show.html_timeline import TOP, TimelineDrawing
from twill.show.markup import element, rect, text, words_at
from twill.show.view import LoopView, views
from twill.show.words import cycles, verdict

NAMES, HEAD, MARGIN = 150, 40, 14  # pixels


def picture(schedule: Schedule) -> str:
    """The main loop's timeline with its row names and a title, drawn for light and dark paper."""
    view = next(v for v in views(schedule) if v.loop.ii == schedule.ii and v.loop.length == schedule.length)
    drawn = TimelineDrawing(view)
    width, height = drawn.width + NAMES + 2 * MARGIN, drawn.height + HEAD + 2 * MARGIN
    title = (
        f"{schedule.kernel} on {schedule.machine}: one iteration every {cycles(view.ii)} cycles, {verdict(schedule)}"
    )
    parts = (
        element("style", resource("page.css")),
        rect(0, 0, width, height, {"fill": "var(--card)", "rx": 10}),
        words_at(MARGIN, MARGIN + 16, title, "title-text"),
        element("g", "".join(names(view, drawn)), {"transform": f"translate({MARGIN},{HEAD + MARGIN})"}),
        element("g", "".join(drawn.parts()), {"transform": f"translate({NAMES + MARGIN},{HEAD + MARGIN})"}),
    )
    attributes: dict[str, str | int | float] = {
        "xmlns": "http://www.w3.org/2000/svg", "width": width, "height": height, "viewBox": f"0 0 {width} {height}",
        "role": "img", "aria-label": title,
    }  # fmt: skip
    return element("svg", element("title", text(title)) + "".join(parts), attributes) + "\n"


def names(view: LoopView, drawn: TimelineDrawing) -> Iterator[str]:
    """Row names and how busy one iteration keeps each row."""
    y = TOP
    rows = [*view.units, *(row for _, row in view.groups)]
    for row, height in zip(rows, drawn.heights, strict=True):
        yield words_at(NAMES - 50, y + 18, row.name, "row-name", "end")
        yield words_at(NAMES - 10, y + 18, f"{100 * row.busy / view.ii:.0f}%", "tick", "end")
        y += height


if __name__ == "__main__":
    sys.stdout.write(picture(load_schedule(sys.argv[1])))
