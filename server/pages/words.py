"""Rows, figures and states in words, the same on every page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twill.show.markup import element, row, scrolling, text
from twill.show.words import cycles
from twill.store.api import Job, JobBounds, State
from twill.store.interface import Summary

from .layout import link

PHASES = {"ii": "I", "length": "L"}
SHORT = 12  # digits of a key that tell it from others on a page


def badge(state: State, name: str = "") -> str:
    """A job's state."""
    return element("span", state, {"class": f"state {state}", **({"id": name} if name else {})})


def bounds_words(bounds: JobBounds | None) -> str:
    """`2,048 ≤ I ≤ 2,100`, `I = 2,048`, `I ≥ 2,048`; nothing if nothing is known."""
    if bounds is None:
        return ""
    name = PHASES.get(bounds.phase, bounds.phase)
    if bounds.upper is None:
        return f"{name} ≥ {cycles(bounds.lower)}"
    if bounds.lower == bounds.upper:
        return f"{name} = {cycles(bounds.lower)}"
    return f"{cycles(bounds.lower)} ≤ {name} ≤ {cycles(bounds.upper)}"


def when(time: str | None) -> str:
    """`2026-01-31 12:34:56`, UTC."""
    return "" if time is None else time[:19].replace("T", " ")


def grid(head: Iterable[str], rows: Iterable[Iterable[str]], numbers: frozenset[int] = frozenset()) -> str:
    """A table whose cells are markup."""
    top = row((text(name) for name in head), "th", numbers)
    body = "".join(row(cells, numbers=numbers) for cells in rows)
    return scrolling(element("table", element("thead", top) + element("tbody", body)))


def job_rows(jobs: Iterable[Job]) -> Iterator[tuple[str, ...]]:
    """Cells of the table of jobs."""
    for job in jobs:
        said = job.problem.kind if job.problem else bounds_words(job.bounds) if job.state == "running" else ""
        result = link(f"/schedules/{job.key}", job.key[:SHORT]) if job.state == "done" else text(said)
        yield (
            link(f"/jobs/{job.id}", job.id[:SHORT]), badge(job.state), text(job.kernel), text(job.spec),
            text(job.machine), text(when(job.created)), result,
        )  # fmt: skip


def schedule_rows(found: Iterable[Summary]) -> Iterator[tuple[str, ...]]:
    """Cells of the table of schedules."""
    for one in found:
        proof = "proven optimal" if one.optimal else f"not proven ({one.strategy})"
        yield (
            link(f"/schedules/{one.key}", one.key[:SHORT]), text(one.kernel), text(one.spec), text(one.machine),
            text(cycles(one.ii)), text(cycles(one.length)), text(one.copies), text(one.registers), text(proof),
            text(when(one.created)),
        )  # fmt: skip
