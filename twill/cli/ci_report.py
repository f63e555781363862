"""What `twill ci` says: lines for people, annotations for GitHub, JUnit XML for everything else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from twill.ci.lock_diff import ScheduleChange, differences
from twill.ci.lock_file import Locked
from twill.exc.foreign import printable

UNPRINTABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # no characters of XML 1.0
MARK = {"same": "ok", "changed": "ok", "better": "better", "new": "new"}


def report(changes: Sequence[ScheduleChange]) -> Iterator[str]:
    """A line each, with the figures that differ under it, and a sum at the end."""
    for change in changes:
        file = change.name[0]
        where = f"{file}:{change.line}" if change.line > 1 else file
        yield printable(f"{MARK.get(change.verdict, change.verdict):<8} {where} {change.title}{figures(change)}")
        yield from (printable(f"           {line}") for line in details(change))
    counts = Counter(change.verdict for change in changes)
    yield ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())) + f" of {len(changes)} schedules"


def figures(change: ScheduleChange) -> str:
    """The three figures, if no list of differences follows."""
    if change.now is None or change.verdict not in ("same", "new"):
        return ""
    f = change.now.figures
    return (
        f": I {f.ii:,}{bound(f)}, copies {f.copies}, registers {f.registers:,}"
        f" ({change.now.origin}, {change.now.seconds:.1f} s)"
    )


def bound(figures: Locked) -> str:
    """What is proven of an I that is only the best known."""
    return "" if figures.bound is None else f" (I >= {figures.bound:,} is proven)"


def details(change: ScheduleChange) -> Iterator[str]:
    """What is different, or why there is nothing."""
    if change.problem is not None:
        yield from change.problem.message.splitlines()
    elif change.before is not None and change.now is not None and change.verdict != "same":
        yield from differences(change.before, change.now.figures)


def workflow_commands(changes: Sequence[ScheduleChange], lock: Path) -> Iterator[str]:
    """Workflow commands that GitHub shows beside the line (docs.github.com, "Workflow commands for GitHub Actions").

    Files are named relative to where the command runs, which is the repository's root in a workflow.
    """
    for change in changes:
        if change.verdict in ("same", "excluded"):
            continue
        level = "error" if change.bad else "notice"
        file = (lock.parent / change.name[0]).as_posix()
        title = f"Schedule {change.verdict}: {change.title}"
        text = "\n".join(details(change)) or f"{change.title} is not in the lock file"
        yield f"::{level} file={in_property(file)},line={change.line},title={in_property(title)}::{in_data(text)}"


def in_data(text: str) -> str:
    """Text as a workflow command has it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def in_property(text: str) -> str:
    """A property's value as a workflow command has it."""
    return in_data(text).replace(":", "%3A").replace(",", "%2C")


def junit(changes: Sequence[ScheduleChange]) -> str:
    """A JUnit document of one suite: a case for every schedule, a failure for every bad one."""
    bad = sum(change.bad for change in changes)
    seconds = sum(spent(change) for change in changes)
    counts = f'tests="{len(changes)}" failures="{bad}" errors="0" time="{seconds:.3f}"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites {counts}>",
        f'<testsuite name="twill ci" {counts} skipped="0">',
    ]
    for change in changes:
        head = f"<testcase classname={attribute(change.name[0])} name={attribute(change.title)}"
        head += f' time="{spent(change):.3f}"'
        if not change.bad:
            lines.append(f"{head}/>")
            continue
        text = "\n".join(details(change))
        message = attribute(f"{change.verdict}: {text.splitlines()[0] if text else ''}")
        lines.append(
            f"{head}><failure type={attribute(change.verdict)} message={message}>{content(text)}</failure></testcase>"
        )
    return "\n".join([*lines, "</testsuite>", "</testsuites>", ""])


def spent(change: ScheduleChange) -> float:
    """Seconds spent on a schedule."""
    return change.now.seconds if change.now else change.problem.seconds if change.problem else 0.0


def attribute(text: str) -> str:
    """A quoted attribute of XML."""
    return quoteattr(UNPRINTABLE.sub("?", text))


def content(text: str) -> str:
    """Text of an XML element."""
    return escape(UNPRINTABLE.sub("?", text))
