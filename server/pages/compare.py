"""Two schedules side by side: their figures, and what is drawn of each loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from twill.schedule.document import Schedule
from twill.show import html as drawn
from twill.show.html_timeline import timeline
from twill.show.markup import element, row, scrolling, text
from twill.show.view import views
from twill.show.words import cooperation_words, verdict
from twill.store.interface import Summary

from .layout import choice, link
from .words import SHORT

Figures = Sequence[tuple[str, str]]


def compare_page(first: Schedule, second: Schedule) -> str:
    """What differs first, then the loops of both in pairs. Raises InvalidSchedule if one contradicts itself."""
    rows = "".join(
        row((text(name), text(one), text(two)), numbers=frozenset({1, 2}) if one[:1].isdigit() else frozenset())
        if one == two
        else row((element("b", text(name)), element("b", text(one)), element("b", text(two))))
        for name, one, two in paired(figures(first), figures(second))
    )
    columns = (link(f"/schedules/{one.key}", one.key[:SHORT]) for one in (first, second))
    head = row(("figure", *columns), "th")
    table = scrolling(element("table", element("thead", head) + element("tbody", rows)))
    title = element("h1", text(first.kernel if first.kernel == second.kernel else f"{first.kernel}, {second.kernel}"))
    note = element("p", "What differs is in bold.")
    return title + drawn.section("Figures", note + table) + "".join(pictures(first, second))


def figures(schedule: Schedule) -> Figures:
    """What is compared, the same names in the same order for every schedule."""
    return (
        ("machine", schedule.machine),
        ("specialization", schedule.spec),
        ("strategy", schedule.strategy),
        ("cooperation", cooperation_words(schedule.cooperation)),
        ("claim", verdict(schedule)),
        *drawn.figures(schedule),
        ("registers of a thread, summed over warp groups", str(schedule.objective.registers)),
        ("buffers", str(len(schedule.buffers))),
    )


def paired(first: Figures, second: Figures) -> Iterator[tuple[str, str, str]]:
    """Name, the first schedule's figure, the second's ("" where it has none)."""
    ones, twos = dict(first), dict(second)
    for name in dict.fromkeys([*ones, *twos]):
        yield name, ones.get(name, ""), twos.get(name, "")


def pictures(first: Schedule, second: Schedule) -> Iterator[str]:
    """The timelines of each pair of loops."""
    for one, two in zip_longest(views(first), views(second)):
        sides = []
        for side, view in (("first", one), ("second", two)):
            content = (
                element("h3", text(f"{side}: {view.title}")) + timeline(view) if view else element("p", "No such loop.")
            )
            sides.append(element("div", content))
        yield drawn.section("Timelines", element("div", "".join(sides), {"class": "beside"}))


def compare_form(key: str, others: Sequence[Summary]) -> str:
    """The way from a schedule to another of its kernel; nothing if there is no other."""
    options = [
        (other.key, f"{other.key[:SHORT]}: {other.spec} on {other.machine}, {other.strategy}, I = {other.ii}")
        for other in others
        if other.key != key
    ]
    if not options:
        return ""
    hidden = f'<input type="hidden" name="first" value="{key}">'
    fields = element("label", element("span", "compare with") + choice("second", options))
    return element("form", hidden + fields + element("button", "Compare"), {"action": "/compare", "method": "get"})
