"""What runs in the process of one solve, and how it speaks to the worker that started it.

The process is forked from a server of processes that has the solvers loaded, limits its own memory,
dies with its parent, and writes messages to a pipe: bounds now and then, and at the end the
schedule or a problem. It executes nothing but Twill.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import resource
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import TYPE_CHECKING

from twill.document import Document
from twill.store.api import JobBounds, JobProblem, Submission

if TYPE_CHECKING:
    from twill.solve.pipeline import Report

PRELOADED = ["twill.solve.pipeline", __name__]
PR_SET_PDEATHSIG = 1  # prctl(2)
NICENESS = 5  # solves give way to answers
FAILURES_OF_MEMORY = ("out of memory", "memory exhausted", "bad_alloc", "PyObject pointer is null")
FULL = 0.9  # of the limit; what failed may have been a large allocation
NO_ROOM_TO_SAY_SO = 77  # exit code of a process without the memory for a last message

_context = multiprocessing.get_context("forkserver")
_starting = threading.Lock()  # multiprocessing's own tables are not made for many threads


class Message(Document):
    """What the process says: one of these. schedule: the document's canonical JSON."""

    bounds: JobBounds | None = None
    problem: JobProblem | None = None
    schedule: str | None = None


def warm() -> None:
    """Load the solvers now rather than at the first job. Returns at once."""
    with _starting:
        _context.set_forkserver_preload(PRELOADED)
        ensure_running()


def start(document: str, megabytes: int) -> tuple[ForkServerProcess, Connection]:
    """A process that solves `document`, and the end of the pipe that its messages come out of."""
    ours, theirs = _context.Pipe(duplex=False)
    with _starting:
        process = _context.Process(target=main, args=(theirs, document, megabytes, os.getpid()), daemon=True)
        process.start()
    theirs.close()  # so that the pipe ends when the process does
    return process, ours


def main(pipe: Connection, document: str, megabytes: int, server: int) -> None:
    """The whole life of the process."""
    die_with_parent(server)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which then ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.nice(NICENESS)
    limit = megabytes * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def tell(message: Message) -> None:
        pipe.send_bytes(message.canonical().encode())

    try:
        tell(Message(schedule=solved(document, lambda bounds: tell(Message(bounds=bounds)))))
    except BrokenPipeError:
        return  # nobody listens any more
    except BaseException as error:
        try:
            tell(Message(problem=problem_of(error, megabytes)))
        except BaseException:
            os._exit(NO_ROOM_TO_SAY_SO)
    pipe.close()
    os._exit(0)  # what the solvers still hold is not worth a tidy end


def die_with_parent(server: int) -> None:
    """Be killed when the server of processes ends, which ends with the service's own process."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if not alive(server):
        os._exit(1)  # it ended before we asked


def alive(process: int) -> bool:
    """Whether there is a process of that number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def solved(document: str, tell: Callable[[JobBounds], None]) -> str:
    """The schedule of what is asked for in `document`, as canonical JSON."""
    from twill.machine.description import Machine
    from twill.solve.pipeline import SolveOptions, solve

    asked = Submission.parse(document)
    assert isinstance(asked.machine, Machine)
    options = SolveOptions(**dict(asked.options))
    return solve(asked.graph, asked.machine, options, lambda report: tell(bounds_of(report))).canonical()


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
