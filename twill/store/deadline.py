"""httpx with one deadline for all that a thread asks: its own time-outs begin anew with every byte that comes."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

_of_thread = threading.local()


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What this thread asks in the block has so many seconds. Raises httpx.TimeoutException."""
    before = getattr(_of_thread, "end", None)
    _of_thread.end = time.monotonic() + seconds
    try:
        left()
        yield
    except httpcore.TimeoutException as error:
        raise httpx.TimeoutException(str(error)) from error
    finally:
        _of_thread.end = before


def left() -> float:
    """Seconds left. Raises httpcore.TimeoutException if there are none."""
    seconds = float(_of_thread.end - time.monotonic())
    if seconds <= 0:
        raise httpcore.ReadTimeout("the time is over")
    return seconds


class DeadlineTransport(httpx.HTTPTransport):
    """One whose connections keep the deadline."""

    def __init__(self, verify: ssl.SSLContext, trust_env: bool) -> None:
        super().__init__(verify=verify, trust_env=trust_env)
        self._pool = httpcore.ConnectionPool(ssl_context=verify, max_connections=None, network_backend=Backend())


class Backend(httpcore.SyncBackend):
    """Sockets that keep the deadline."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A new connection."""
        return DeadlineStream(super().connect_tcp(host, port, left(), local_address, socket_options))


class DeadlineStream(httpcore.NetworkStream):
    """A connection that keeps the deadline."""

    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self.inner = inner
        self.close, self.get_extra_info = inner.close, inner.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What is there, or what comes."""
        return self.inner.read(max_bytes, left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it."""
        self.inner.write(buffer, left())

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The same, encrypted."""
        return DeadlineStream(self.inner.start_tls(ssl_context, server_hostname, left()))
