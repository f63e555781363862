"""What runs in the process of one solve, and how it speaks to the worker that started it.

The process limits its own memory and writes messages to a pipe: bounds now and then, and at the end the entry of the
schedule, examined as the store asks for, or a problem.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TYPE_CHECKING

from twill.document import Document
from twill.store.api import JobBounds, JobProblem, Submission

from . import processes

if TYPE_CHECKING:
    from twill.machine.description import Machine
    from twill.solve.pipeline import Report

NICENESS = 5  # solves give way to answers
FAILURES_OF_MEMORY = ("out of memory", "memory exhausted", "bad_alloc", "PyObject pointer is null")
FULL = 0.9  # of the limit; what failed may have been a large allocation
NO_ROOM_TO_SAY_SO = 77  # exit code of a process without the memory for a last message


class Message(Document):
    """What the process says: one of these. entry: an `Entry` as canonical JSON."""

    bounds: JobBounds | None = None
    problem: JobProblem | None = None
    entry: str | None = None


def start(document: str, machine: str, megabytes: int) -> tuple[ForkServerProcess, Connection]:
    """A process that solves `document` for `machine`, and the end of the pipe that its messages come out of."""
    return processes.spawn(main, document, machine, megabytes)


def main(pipe: Connection, parent: int, document: str, machine: str, megabytes: int) -> None:
    """The whole life of the process."""
    processes.begin(parent)
    os.nice(NICENESS)
    limit = megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def notify(message: Message) -> None:
        pipe.send_bytes(message.canonical().encode())

    try:
        notify(Message(entry=solved(document, machine, lambda bounds: notify(Message(bounds=bounds)))))
    except BrokenPipeError:
        return  # nobody listens any more
    except BaseException as error:
        try:
            notify(Message(problem=problem_of(error, megabytes)))
        except BaseException:
            os._exit(NO_ROOM_TO_SAY_SO)
    pipe.close()
    os._exit(0)  # what the solvers still hold is not worth a tidy end


def machine_of(document: str, machine: str) -> Machine:
    """The machine of a job: the document that came with it, or its submission's (an earlier edition of the queue)."""
    from twill.machine.description import Machine

    if machine:
        return Machine.parse(machine)
    whole = Submission.parse(document).machine
    assert isinstance(whole, Machine)
    return whole


def solved(document: str, machine: str, notify: Callable[[JobBounds], None]) -> str:
    """The entry of the schedule of what is asked for in `document`, examined, as canonical JSON."""
    from twill.solve.pipeline import SolveOptions, solve
    from twill.store.validation import file

    asked, target = Submission.parse(document), machine_of(document, machine)
    options = SolveOptions(**dict(asked.options))
    schedule = solve(asked.graph, target, options, lambda report: notify(bounds_of(report)))
    return file(schedule, asked.graph, asked.options.asked, target)[0].canonical()


def bounds_of(report: Report) -> JobBounds:
    """A report of the solver as the service passes it on."""
    from twill.show.words import cooperation_words

    progress = report.progress
    about = f"loop {report.loop}, {cooperation_words(report.cooperation)}"
    return JobBounds(
        phase=progress.phase,
        lower=progress.lower,
        upper=progress.upper,
        seconds=round(progress.seconds, 3),
        about=about,
    )


def problem_of(error: BaseException, megabytes: int) -> JobProblem:
    """An exception as a job's problem."""
    from twill.exc import TwillError

    if isinstance(error, TwillError):
        where = error.describe().split("\n  instead: ")[0]
        return JobProblem(kind=type(error).__name__, message=where, hint=error.hint, exit_code=error.exit_code)
    text = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, MemoryError) or any(words in text for words in FAILURES_OF_MEMORY) or is_full(megabytes):
        return out_of_memory(megabytes)
    return JobProblem(kind="Internal", message=f"a mistake of Twill's own: {text}", hint="report it, with the graph")


def is_full(megabytes: int) -> bool:
    """Whether the process has come close to its limit; libraries have many ways to say that an allocation failed."""
    words = Path("/proc/self/status").read_text(encoding="utf-8").split()
    return int(words[words.index("VmPeak:") + 1]) * 1024 > FULL * megabytes * 1024 * 1024


def out_of_memory(megabytes: int) -> JobProblem:
    """What is said of a solve that asked for more memory than it may have."""
    return JobProblem(
        kind="MemoryLimit",
        message=f"the solve needed more than {megabytes} MB of memory",
        hint="smaller tiles, --normalize U, or a service started with a larger --memory-limit",
        exit_code=4,
    )
