"""Launches that an autotuner times, which are Triton's whatever is emitted by then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Timing(threading.local):
    """Of each thread. may: whether launches may be Triton's although there are emitted kernels. as_triton: whether
    those are now that nothing recognizes."""

    def __init__(self, may: bool) -> None:
        self.may, self.as_triton = may, False

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """An autotuner times what is launched inside. What is emitted is looked up and prepared as ever."""
        before, self.as_triton = self.as_triton, self.may
        try:
            yield
        finally:
            self.as_triton = before
