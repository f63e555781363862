"""A function that a forked copy of this process calls while this one does other work.

The copy gives back the function's result, or the error for users that it raised. If it ends otherwise, the function is
called again in this process, so that the result does not depend on there being a copy.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Generic, TypeVar

from twill.exc import TwillError

Answer = TypeVar("Answer")


def processors() -> int:
    """How many processes can work at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def fork() -> int:
    """As `os.fork`, without the warning about threads, in which the copy has no part."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


class ForkedAnswer(Generic[Answer]):
    """The result of `ask`, which a copy begins to compute at once; without a second process, `answer` computes it. The
    end of a `with` kills the copy. processes: that may be at work. prepare: called by the copy first, which then waits
    for the arguments of `ask` (`about`). seconds: that the copy took."""

    def __init__(self, ask: Callable[..., Answer], processes: int, prepare: Callable[[], object] | None = None) -> None:
        self.ask, self.seconds = ask, 0.0
        self._prepare, self._given = prepare, tuple[object, ...]()
        self._copy: int | None = None
        if processes > 1 and hasattr(os, "fork"):
            self._begin()

    def _begin(self) -> None:
        told, self._telling = os.pipe()
        self._answer, writing = os.pipe()
        waiting, self._needed = os.pipe()  # closed when nobody waits any more
        copy = fork()
        if copy == 0:
            code = 1
            try:
                os.close(self._needed)
                os.close(self._telling)
                threading.Thread(target=_end_with, args=(waiting,), daemon=True).start()
                if self._prepare is not None:
                    self._prepare()
                    self._given = pickle.loads(_read(told))
                _write(writing, _answered(partial(self.ask, *self._given)))
                code = 0
            finally:
                os._exit(code)
        for end in (told, writing, waiting):
            os.close(end)
        self._copy = copy

    def __enter__(self) -> ForkedAnswer[Answer]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._copy is not None:
            os.kill(self._copy, signal.SIGKILL)
            self._over()

    def about(self, *given: object) -> None:
        """Gives the arguments of `ask`. To be called once, where there is something to prepare."""
        self._given = given
        if self._copy is not None:
            with suppress(OSError):  # of a copy that has ended
                _write(self._telling, pickle.dumps(given))
            os.close(self._telling)
            self._telling = -1

    def answer(self) -> Answer:
        """Waits for the result. Raises what `ask` raises. To be called once."""
        if self._copy is not None:
            found = _read(self._answer)
            if self._over() == 0 and found:
                self.seconds, answer, error = pickle.loads(found)
                if error is not None:
                    raise error
                return answer  # type: ignore[no-any-return]
        return self.ask(*self._given)

    def _over(self) -> int:
        """Waits for the copy, which is done: its exit code."""
        assert self._copy is not None
        copy, self._copy = self._copy, None
        for end in (self._answer, self._needed, self._telling):
            if end >= 0:
                os.close(end)
        return os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1])


def _answered(ask: Callable[[], Answer]) -> bytes:
    """The answer, or what a user can mend, with the seconds that it took. Raises everything else."""
    begun, answer, error = time.monotonic(), None, None
    try:
        answer = ask()
    except TwillError as refused:
        error = refused
    made = pickle.dumps((time.monotonic() - begun, answer, error))
    pickle.loads(made)  # errors are not all made of what they are given
    return made


def _end_with(waiting: int) -> None:
    """Ends this process when the one that waits for it has ended, or does not wait any more."""
    os.read(waiting, 1)
    os._exit(1)


def _write(pipe: int, given: bytes) -> None:
    """All of it."""
    left = memoryview(given)
    while left:
        left = left[os.write(pipe, left) :]


def _read(pipe: int) -> bytes:
    """All that comes until nobody writes any more."""
    parts = []
    while part := os.read(pipe, 1 << 16):
        parts.append(part)
    return b"".join(parts)
