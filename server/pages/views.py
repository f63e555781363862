"""The content of each page, from what is known of jobs and schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import urlencode

from twill.schedule.document import Schedule
from twill.show import html as drawn
from twill.show.html import data_of, script_json
from twill.show.markup import element, text
from twill.show.view import views
from twill.store.api import ENDED, Job, State
from twill.store.interface import Summary

from ..queue import QueuedRequest
from .layout import blank, choice, field, link, trouble
from .words import badge, bounds_words, grid, job_rows, schedule_rows, when

STRATEGIES = (("joint", "joint (proves the optimum)"), ("paper", "paper"), ("heuristic", "heuristic"), ("none", "none"))
JOB_HEAD = ("job", "state", "kernel", "specialization", "machine", "submitted (UTC)", "result")
SCHEDULE_HEAD = (
    "schedule", "kernel", "specialization", "machine", "I", "L", "in flight", "registers", "proof", "stored (UTC)",
)  # fmt: skip
SCHEDULE_NUMBERS = frozenset({4, 5, 6, 7})


def queue_page(counts: Mapping[State, int], jobs: Sequence[Job], machines: Iterable[str]) -> str:
    """How the queue stands, and the jobs that came last."""
    figures = ((state, str(number)) for state, number in counts.items())
    table = grid(JOB_HEAD, job_rows(jobs)) if jobs else element("p", "No job yet.", {"class": "empty"})
    search = drawn.section("Find a schedule", search_form("", "", machines))
    return element("h1", "Queue") + drawn.tiles(figures) + drawn.section("Recent jobs", table) + search


def search_form(kernel: str, machine: str, machines: Iterable[str]) -> str:
    """The fields of a search."""
    anything = [("", "any machine"), *((name, name) for name in machines)]
    if machine and machine not in dict(anything):
        anything.append((machine, machine))
    return element(
        "form",
        field("kernel", blank("kernel", kernel, placeholder="any kernel"))
        + field("machine", choice("machine", anything, machine))
        + element("button", "Search"),
        {"action": "/schedules", "method": "get"},
    )


def search_page(
    found: Sequence[Summary], kernel: str, machine: str, machines: Iterable[str], following: int | None
) -> str:
    """What is stored, of a kernel or a machine or all."""
    table = grid(SCHEDULE_HEAD, schedule_rows(found), SCHEDULE_NUMBERS)
    body = table if found else element("p", "No schedule of that kernel and machine is stored.", {"class": "empty"})
    if following is not None:
        words = {name: value for name, value in (("kernel", kernel), ("machine", machine)) if value}
        body += element("p", link(f"/schedules?{urlencode({**words, 'before': following})}", "older"))
    form = element("section", search_form(kernel, machine, machines))
    return element("h1", "Schedules") + form + element("section", body)


def submit_page(machines: Iterable[str], error: tuple[str, str] | None = None) -> str:
    """The form of a submission, with what was wrong with the one before."""
    described = [(name, name) for name in machines]
    more = element(
        "details",
        element("summary", "Options")
        + element(
            "div",
            field("strategy", choice("strategy", STRATEGIES))
            + field("budget, seconds", blank("budget", inputmode="decimal"), "empty: as long as this service allows")
            + field("normalize, U", blank("normalize", inputmode="numeric"), "empty: exact cycles")
            + field("row blocks", blank("blocks", inputmode="numeric"), "empty: all that could fit"),
        ),
    )
    form = element(
        "form",
        field(
            "dependence graph",
            '<input type="file" name="graph" accept=".json,application/json" required>',
            "the file that `twill extract kernel.py --json > graph.json` writes; no Python is sent or executed",
        )
        + field("machine", choice("machine", described, "h100"))
        + more
        + element("button", "Submit"),
        {"action": "/submit", "method": "post", "enctype": "multipart/form-data", "class": "tall"},
    )
    return element("h1", "Submit a kernel") + (trouble(*error) if error else "") + element("section", form)


def job_page(job: Job, request: QueuedRequest | None, may_cancel: bool) -> str:
    """A job as far as it has come."""
    title = element("h1", f"{text(job.kernel)} {element('small', text(job.spec))}")
    head = element("div", title + badge(job.state, "state"), {"class": "title"})
    on = element("p", f"on {element('b', text(job.machine))}")
    parts = [element("header", head + on)]
    if job.problem is not None:
        parts.append(trouble(job.problem.message, job.problem.hint))
    if job.state == "done":
        parts.append(element("p", link(f"/schedules/{job.key}", "Open the schedule"), {"class": "links now"}))
    if job.state not in ENDED:
        about = job.bounds.about if job.bounds else "waiting for a worker" if job.state == "queued" else "at work"
        now = element("p", text(bounds_words(job.bounds)), {"id": "bounds", "class": "now"})
        parts.append(drawn.section("Progress", now + element("p", text(about), {"id": "about"})))
    facts = {
        "submitted": f"{when(job.created)} UTC",
        "begun": f"{when(job.started)} UTC" if job.started else "",
        "ended": f"{when(job.ended)} UTC" if job.ended else "",
        "attempts": str(job.attempts) if job.attempts > 1 else "",
        "by": request.client if request else "",
        "key": job.key,
        "job": job.id,
    }
    listed = "".join(element("dt", name) + element("dd", text(value)) for name, value in facts.items() if value)
    parts.append(element("section", element("dl", listed)))
    if job.state not in ENDED and may_cancel:
        button = element("button", "Cancel this job", {"class": "quiet"})
        parts.append(element("form", button, {"action": f"/jobs/{job.id}/cancel", "method": "post"}))
    return element("div", "".join(parts), {"id": "job", "data-job": job.id})


def schedule_page(schedule: Schedule) -> tuple[str, str]:
    """The drawing of a schedule (as `twill solve --html` has it), and what its script needs after it."""
    loops = views(schedule)
    links = element("p", link(f"/v1/schedules/{schedule.key}", "JSON"), {"class": "links"})
    content = "".join(drawn.sections(schedule, loops)) + links
    data = f'<script type="application/json" id="data">{script_json(data_of(schedule, loops))}</script>'
    return content, '<div id="tip" role="status" aria-live="polite" hidden></div>' + data


def login_page(wrong: bool) -> str:
    """The form for a token."""
    error = trouble("this service knows no such token", "a token that its operator gave you") if wrong else ""
    form = element(
        "form",
        field("token", blank("token", type="password", autocomplete="current-password", required=""))
        + element("button", "Sign in"),
        {"action": "/login", "method": "post", "class": "tall"},
    )
    return element("h1", "Sign in") + error + element("section", form)


def refused_page(message: str, hint: str) -> str:
    """A page that is not there, or not for everybody."""
    return element("h1", "Sorry") + trouble(message, hint)
