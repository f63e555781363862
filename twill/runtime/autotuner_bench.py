"""Launches that an autotuner makes to time its configurations: Triton's, whatever is emitted by then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class AutotunerBench(threading.local):
    """Whether an autotuner times the launches of this thread (of each thread its own).

    compares: whether emitted kernels are compared with Triton's; where they run in any case, an autotuner times them.
    running: whether it times launches now, and they are to be Triton's. A launch that an earlier one prepared, with
    equal arguments, is not asked.
    """

    def __init__(self, compares: bool) -> None:
        self.compares, self.running = compares, False

    @contextmanager
    def run(self) -> Iterator[None]:
        """An autotuner times what is launched inside. What is emitted is looked up and prepared as ever."""
        before, self.running = self.running, self.compares
        try:
            yield
        finally:
            self.running = before
