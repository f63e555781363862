"""The processes that prepare kernels for this one: extract, look up or solve, emit. Started when first needed.

Preparing takes seconds of Python. In a thread it would hold the interpreter's lock while launches wait for it; in
processes of low priority it costs them nothing. There are a few of them at most, and each answers one request after the
other: whichever waits of the variant that was launched most.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from twill.runtime.forks import renew_after_fork
from twill.runtime.request import Prepared, PrepareRequest, read_answer

MODULE = "twill.cli.jit_helper"
PACKAGE = Path(__file__).resolve().parent.parent
DEBUG, WORKERS = "TWILL_DEBUG", "TWILL_JIT_WORKERS"
MOST = 4  # processes, if nobody says otherwise
CORES = 4  # that one of them keeps busy while it solves

_strangers: list[subprocess.Popen[str]] = []  # which a parent process started

Notify = Callable[[Prepared], None]


@dataclass(frozen=True)
class WaitingRequest:
    """A request, who wants its answer, and how often its variant was launched until now."""

    request: PrepareRequest
    notify: Notify
    launches: Callable[[], int]


class Helper:
    """Requests go in from any thread; each is answered by a call of its `notify`, on a thread of the helper's.

    count: processes at most, as `workers` has it.
    """

    def __init__(self, command: tuple[str, ...] = (), count: int | None = None) -> None:
        self.command = command or (sys.executable, "-P", "-m", MODULE)
        self.count = count
        self.waiting: list[WaitingRequest] = []
        self.changed = threading.Condition()
        self.workers: list[Worker] = []
        renew_after_fork(self)

    def after_fork(self) -> None:
        """See `Renewed`: the processes are the parent's, and so are the other ends of their pipes."""
        workers, self.workers = self.workers, []
        self.changed, self.waiting = threading.Condition(), []
        for worker in workers:
            worker.disown()

    def ask(self, request: PrepareRequest, notify: Notify, launches: Callable[[], int] = lambda: 0) -> None:
        """Returns at once."""
        with self.changed:
            self.waiting.append(WaitingRequest(request, notify, launches))
            count = self.count if self.count is not None else workers()
            if len(self.workers) < min(count, len(self.waiting) + sum(worker.busy for worker in self.workers)):
                worker = Worker(self.command)
                self.workers.append(worker)
                threading.Thread(target=self.serve, args=(worker,), name="twill-prepare", daemon=True).start()
            self.changed.notify()

    def serve(self, worker: Worker) -> None:
        """Have a worker answer one request after the other."""
        while True:
            with self.changed:
                worker.busy = False
                while not self.waiting:
                    self.changed.wait()
                asked = max(self.waiting, key=lambda one: one.launches())  # the first one of equals
                self.waiting.remove(asked)
                worker.busy = True
            asked.notify(worker.answer(asked.request))

    def end(self) -> None:
        """Without the processes; the next request starts another."""
        for worker in self.workers:
            worker.end()


class Worker:
    """A process that prepares, started when it is first asked."""

    def __init__(self, command: tuple[str, ...]) -> None:
        self.command = command
        self.busy = False
        self.process: subprocess.Popen[str] | None = None

    def answer(self, request: PrepareRequest) -> Prepared:
        """Nothing raises here."""
        try:
            return self.exchange(request)
        except (OSError, ValueError) as error:
            self.end()
            return Prepared(request.key, "failed", f"the process that prepares kernels is gone: {error}")

    def disown(self) -> None:
        """The process is another's."""
        process, self.process = self.process, None
        if process is None:
            return
        _strangers.append(process)
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                os.dup2(nothing, pipe.fileno(), inheritable=False)  # not closed, as that would write what is buffered
        os.close(nothing)

    def exchange(self, request: PrepareRequest) -> Prepared:
        """Errors: OSError, ValueError."""
        process = self.process
        if process is None or process.poll() is not None:
            process = self.process = self.start()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(request.line() + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise ValueError(f"exit code {process.wait()} (TWILL_DEBUG=1 shows what it says)")
        answer = read_answer(line)
        if answer.key != request.key:
            raise ValueError("it answers another request")
        return answer

    def start(self) -> subprocess.Popen[str]:
        """It ends when this process does: its input ends then."""
        paths = [str(PACKAGE.parent), *(path for path in sys.path[1:] if path)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TWILL_JIT": "off", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get(DEBUG) else subprocess.DEVNULL,
            env=environment,
            text=True,
            encoding="utf-8",
        )

    def end(self) -> None:
        """Without the process; the next request starts another."""
        process, self.process = self.process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        process.kill()
        process.wait()


def workers() -> int:
    """How many processes may prepare at once: what TWILL_JIT_WORKERS says, else one for four cores that are idle now,
    and four at most."""
    said = os.environ.get(WORKERS, "")
    if said.isdigit() and int(said):
        return int(said)
    idle = (os.cpu_count() or 1) - os.getloadavg()[0]
    return max(1, min(MOST, int(idle // CORES)))
