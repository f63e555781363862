"""Questions that two processes answer: this one, and a copy of it that ends with the last of them.

The copy only ever says that all it looked at holds. Whatever else becomes of it, what it had looked at is asked again
here, so that an answer is that of one process.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from twill.forked import fork

LEAST_WAIT, WAIT = 5.0, 3.0  # for the copy: seconds, and so many times what this process took
LOOK = 0.01  # seconds between looks at the copy
MOST = 256  # questions: each is a byte


def all_hold(count: int, holds: Callable[[int], bool]) -> bool:
    """Whether something holds of 0 ... count - 1. Each of the two processes takes the next number when it is done with
    the last one, so the longest should come first. holds: raises in this process what it raises."""
    if count < 2 or count > MOST or not hasattr(os, "fork"):
        return all(map(holds, range(count)))
    numbers, writing = os.pipe()
    os.write(writing, bytes(range(count)))
    os.close(writing)
    copy = fork()
    if copy == 0:
        code = 1
        try:
            code = 0 if all(map(holds, _taken(numbers))) else 1
        finally:
            os._exit(code)
    begun, mine, ended = time.monotonic(), set[int](), False
    try:
        for number in _taken(numbers):
            mine.add(number)
            if not holds(number):
                return False
        ended = _ended_well(copy, begun + max(LEAST_WAIT, WAIT * (time.monotonic() - begun)))
    finally:
        os.close(numbers)
        if not ended:
            _end(copy)
    return ended or all(holds(number) for number in range(count) if number not in mine)


def _taken(numbers: int) -> Iterator[int]:
    """Numbers that nobody else has taken."""
    while number := os.read(numbers, 1):
        yield number[0]


def _ended_well(process: int, until: float) -> bool:
    """Whether a process ends by then, and says that all holds."""
    while time.monotonic() < until:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(LOOK)
    return False


def _end(process: int) -> None:
    """Ends a process that may have ended."""
    try:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
