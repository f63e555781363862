"""Time on a GPU between two points of a stream, read without waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from twill.exc import DriverFailed
from twill.runtime.delay import delay
from twill.runtime.driver import bindings, call


class TimedInterval:
    """From where it is made to `close`, in one stream. Errors of both: DriverFailed.

    delayed: the stream is kept busy before, so that the host has closed the interval before the GPU begins it; fed:
    whether it was so, and the GPU never waited for the host in between.
    """

    def __init__(self, stream: int, *, delayed: bool = False) -> None:
        self.stream = stream
        self.events: list[Any] = []
        self.fed = False
        try:
            if delayed:
                with relaxed():
                    delay(stream)
            self.mark()
        except DriverFailed:
            self.forget()
            raise

    def mark(self) -> None:
        """The stream is here."""
        with relaxed():
            event = call("cuEventCreate", 0)  # with a time
            self.events.append(event)
            call("cuEventRecord", event, self.stream)

    def close(self) -> None:
        """It ends here."""
        self.mark()
        driver = bindings()
        with relaxed():
            (code,) = driver.cuEventQuery(self.events[0])
        self.fed = int(code) == int(driver.CUresult.CUDA_ERROR_NOT_READY)

    def microseconds(self) -> float | None:
        """How long it took; None while the GPU is not there yet. Errors: DriverFailed, as for a destroyed stream."""
        driver = bindings()
        first, last = self.events
        with relaxed():
            (code,) = driver.cuEventQuery(last)
            if int(code) == int(driver.CUresult.CUDA_ERROR_NOT_READY):
                return None
            return float(call("cuEventElapsedTime", first, last)) * 1000

    def forget(self) -> None:
        """Give the driver its events back."""
        driver = bindings()
        for event in self.events:
            driver.cuEventDestroy(event)
        self.events = []


@contextmanager
def relaxed() -> Iterator[None]:
    """What this thread asks of the driver does not break a graph that another stream captures."""
    mode = bindings().CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = call("cuThreadExchangeStreamCaptureMode", mode)
    try:
        yield
    finally:
        call("cuThreadExchangeStreamCaptureMode", before)


def captures(stream: int) -> bool:
    """Whether a CUDA graph is being captured in a stream."""
    code, status = bindings().cuStreamIsCapturing(stream)
    return not code and bool(int(status))
