"""The process that prepares kernels for this one: extracts, looks up or solves, emits. Started when first needed.

Preparing takes seconds of Python. In a thread it would hold the interpreter's lock while launches wait for it; in a
process of low priority it costs them nothing. Requests are answered one after the other.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from twill.runtime.forks import renew_after_fork
from twill.runtime.request import Prepared, PrepareRequest, read_answer

MODULE = "twill.cli.jit_helper"
PACKAGE = Path(__file__).resolve().parent.parent
DEBUG = "TWILL_DEBUG"

_strangers: list[subprocess.Popen[str]] = []  # which a parent process started

Notify = Callable[[Prepared], None]


class Helper:
    """Requests go in from any thread; each is answered by a call of its `notify`, on the helper's own thread."""

    def __init__(self, command: tuple[str, ...] = ()) -> None:
        self.command = command or (sys.executable, "-P", "-m", MODULE)
        self.waiting: SimpleQueue[tuple[PrepareRequest, Notify]] = SimpleQueue()
        self.lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.process: subprocess.Popen[str] | None = None
        renew_after_fork(self)

    def after_fork(self) -> None:
        """See `Renewed`: the process that prepares is the parent's, and so is the other end of its pipes."""
        process, self.process = self.process, None
        self.lock, self.waiting, self.thread = threading.Lock(), SimpleQueue(), None
        if process is None:
            return
        _strangers.append(process)
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None and not pipe.closed:
                os.dup2(nothing, pipe.fileno(), inheritable=False)  # not closed, as that would write what is buffered
        os.close(nothing)

    def ask(self, request: PrepareRequest, notify: Notify) -> None:
        """Returns at once."""
        with self.lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self.serve, name="twill-prepare", daemon=True)
                self.thread.start()
        self.waiting.put((request, notify))

    def serve(self) -> None:
        """Pass on one request after the other."""
        while True:
            request, notify = self.waiting.get()
            try:
                answer = self.exchange(request)
            except (OSError, ValueError) as error:
                self.end()
                answer = Prepared(request.key, "failed", f"the process that prepares kernels is gone: {error}")
            notify(answer)

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
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TWILL_JIT": "off"}
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
