"""Ctrl-C while z3 works.

z3 takes SIGINT for itself and answers "unknown", as when its time is up. So it is told not to, and
works in a thread, while the calling thread waits where Python can raise KeyboardInterrupt. A z3 that was
not told so leaves Python's handler behind in a way that does not end waits: it is put in place again.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

import z3

T = TypeVar("T")


def interruptible(solver: z3.Solver, work: Callable[[], T]) -> T:
    """`work()`, which uses `solver`; Ctrl-C stops it and raises KeyboardInterrupt in the calling thread."""
    solver.set("ctrl_c", False)
    if threading.current_thread() is not threading.main_thread():
        return work()  # signals are the main thread's
    handler = signal.getsignal(signal.SIGINT)
    if handler is not None:  # somebody's who is not Python
        signal.signal(signal.SIGINT, handler)
    results: list[T] = []
    errors: list[BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name="z3")
    thread.start()
    try:
        done.wait()  # a join that is interrupted takes the thread for finished (Python 3.11)
    except BaseException:
        while not done.wait(0.05):
            solver.ctx.interrupt()  # again and again: one that comes before z3 has begun is lost
        raise
    finally:
        thread.join()
    if errors:
        raise errors[0]
    return results[0]
