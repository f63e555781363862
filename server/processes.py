"""Processes of the service's own, forked from a server of processes that has everything loaded.

They execute nothing but Twill, die with their parent, and speak through a pipe.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.forkserver import ensure_running
from typing import Any

OWN = ("solver_process", "admission_process")
PRELOADED = ("twill.solve.pipeline", "twill.store.validation", "twill.show.words")
PR_SET_PDEATHSIG = 1  # prctl(2)

_context = multiprocessing.get_context("forkserver")
_starting = threading.Lock()  # multiprocessing's own tables are not made for many threads


def warm() -> None:
    """Load the solvers now rather than at the first job. Returns at once."""
    with _starting:
        preload()
        ensure_running()


def preload() -> None:
    """Have the server of processes load everything when it starts, whoever needs it first."""
    here = __name__.rpartition(".")[0]
    _context.set_forkserver_preload([*PRELOADED, *(f"{here}.{name}" for name in OWN)])


def spawn(main: Callable[..., None], *given: Any, duplex: bool = False) -> tuple[ForkServerProcess, Connection]:
    """A process that runs `main(pipe, parent, *given)`, and our end of its pipe. duplex: we speak to it, too."""
    ours, theirs = _context.Pipe(duplex)
    with _starting:
        preload()
        process = _context.Process(target=main, args=(theirs, os.getpid(), *given), daemon=True)
        process.start()
    theirs.close()  # so that the pipe ends when the process does
    return process, ours


def begin(parent: int) -> None:
    """The first thing that such a process does."""
    let_go_of_server()
    die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the service's, which then ends us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def let_go_of_server() -> None:
    """Close our end of the pipe by which the server of processes knows that it is still wanted.

    `multiprocessing` gives one to each process, for processes that it may start itself. With it a solve would keep the
    server alive when the service was killed, and so itself, until it next speaks.
    """
    server: Any = vars(forkserver)["_forkserver"]  # there is no other way to it
    end: int | None = server._forkserver_alive_fd
    if end is not None:
        os.close(end)
        server._forkserver_alive_fd = None


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


def end(process: ForkServerProcess, pipe: Connection) -> int | None:
    """End a process whatever it does; its exit code (None: nobody knows)."""
    pipe.close()
    process.kill()
    process.join()
    code = process.exitcode
    process.close()
    return code
