"""What every store does before it keeps a schedule, and after it read one."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime

from twill.exc import InvalidSchedule, UnknownMachine
from twill.exc.foreign import one_line
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions
from twill.store.examine import examine
from twill.store.interface import Entry

LOG = logging.getLogger("twill.store")
MOST_REASONS = 10_000


def now() -> str:
    """UTC time as entries have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def file(
    schedule: Schedule, graph: DependenceGraph | None, asked: KeyOptions | None, machine: Machine | None
) -> tuple[Entry, Machine]:
    """The entry of a schedule that is about to be kept, examined. Raises InvalidSchedule, UnknownMachine."""
    machine = machine or described(schedule.machine, schedule.machine_digest)
    if machine is None:
        raise UnknownMachine(schedule.machine, "give the machine that the schedule was solved for")
    entry = Entry(
        key=schedule.key,
        kernel=schedule.kernel,
        spec=schedule.spec,
        machine=schedule.machine,
        machine_digest=schedule.machine_digest,
        created=now(),
        schedule_digest=schedule.digest(),
        schedule=schedule,
        graph=graph,
        asked=asked,
    )
    wrong = examine(entry, machine)
    if wrong:
        raise InvalidSchedule(f"a schedule of {schedule.kernel} is not stored: {wrong}", hint="solve the kernel again")
    return entry, machine


_described: dict[str, Machine] = {}


def described(name: str, digest: str) -> Machine | None:
    """The described machine of that name, if it is this edition of it. Reading one takes 0.1 s, so it is kept."""
    from twill.machine.file import load_machine
    from twill.machine.names import list_machines

    if name not in list_machines():
        return None
    if name not in _described:
        _described[name] = load_machine(name)
    return _described[name] if _described[name].digest() == digest else None


class OnceLogger:
    """Reasons that have been logged: each is logged once."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.lock = threading.Lock()

    def warn(self, reason: str) -> None:
        """Log a reason as a warning, unless it has been already."""
        with self.lock:
            if reason in self.seen or len(self.seen) >= MOST_REASONS:
                return
            self.seen.add(reason)
        LOG.warning("%s", one_line(reason))
