"""Clients of the service's benchmark, with a connection each, who wait for every answer.

`load` has a thread for each, which may do several things with an answer; `stream` has one thread for all, which sends
requests that were written before, so that it takes little of a machine that it shares with the service.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

RETRIES = 600  # times that a request is tried again while the service is down
PAUSE = 0.1  # seconds between them


class Connection:
    """Keeps a connection; asks again when the service was killed under it."""

    def __init__(self, port: Callable[[], int]) -> None:
        self.port = port
        self.retained: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of an answer."""
        for _ in range(RETRIES):
            try:
                if self.retained is None:
                    self.retained = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=60)
                headers = {"Content-Type": "application/json"} if body is not None else {}
                self.retained.request(method, path, body, headers)
                answer = self.retained.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                time.sleep(PAUSE)
        raise AssertionError("the service did not come back")

    def close(self) -> None:
        """Let go of the connection."""
        if self.retained is not None:
            self.retained.close()
        self.retained = None


@dataclass
class Taken:
    """What clients found: seconds of each request, statuses, and what else they bring back."""

    seconds: list[float] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    brought: list[Any] = field(default_factory=list)
    wall: float = 0.0

    def summary(self) -> dict[str, float | int]:
        """Milliseconds and requests a second."""
        cuts = statistics.quantiles(self.seconds, n=100)
        return {
            "requests": len(self.seconds),
            "per_second": round(len(self.seconds) / self.wall, 1),
            "p50_ms": round(1000 * cuts[49], 3),
            "p99_ms": round(1000 * cuts[98], 3),
            "most_ms": round(1000 * max(self.seconds), 3),
        }


def load(
    port: Callable[[], int], clients: int, work: Sequence[Any], one: Callable[[Connection, Any], tuple[int, Any]]
) -> Taken:
    """Let `clients` threads do all of the work, each item once; `one` does an item."""
    taken = Taken()
    items: Iterator[Any] = iter(work)
    lock = threading.Lock()

    def client() -> None:
        connection = Connection(port)
        while True:
            with lock:
                item = next(items, None)
            if item is None:
                connection.close()
                return
            begun = time.perf_counter()
            status, brought = one(connection, item)
            seconds = time.perf_counter() - begun
            with lock:
                taken.seconds.append(seconds)
                taken.statuses.append(status)
                taken.brought.append(brought)

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken.wall = time.perf_counter() - begun
    return taken


class Streamed(asyncio.Protocol):
    """A connection of `stream`: the next request as soon as an answer is whole."""

    def __init__(self, requests: Iterator[bytes], taken: Taken, over: asyncio.Future[None]) -> None:
        self.requests = requests
        self.taken = taken
        self.over = over
        self.heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        """The next request, or the end."""
        request = next(self.requests, None)
        if request is None:
            self.over.set_result(None)
            self.transport.close()
            return
        self.heard, self.begun = b"", time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Some of an answer."""
        self.heard += data
        head, empty, body = self.heard.partition(b"\r\n\r\n")
        if not empty or len(body) < int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]):
            return
        self.taken.seconds.append(time.perf_counter() - self.begun)
        self.taken.statuses.append(int(head[9:12]))
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        """The service closed it, which it must not."""
        if not self.over.done():
            self.over.set_exception(exc or ConnectionError("the service closed a connection"))


def stream(port: int, clients: int, requests: Sequence[bytes]) -> Taken:
    """Let `clients` connections send all requests, each once."""

    async def all_of_them() -> None:
        loop = asyncio.get_running_loop()
        ends = [loop.create_future() for _ in range(clients)]
        for end in ends:
            await loop.create_connection(lambda end=end: Streamed(items, taken, end), "127.0.0.1", port)
        await asyncio.gather(*ends)

    taken, items = Taken(), iter(requests)
    begun = time.perf_counter()
    asyncio.run(all_of_them())
    taken.wall = time.perf_counter() - begun
    return taken


def written(method: str, path: str, body: bytes = b"") -> bytes:
    """A request as it is sent."""
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{kind}\r\n".encode() + body


def ended(connection: Connection, job: str, seconds: float = 600.0) -> dict[str, Any]:
    """The job when it has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        status, body = connection.ask("GET", f"/v1/jobs/{job}")
        assert status == 200, (status, body)
        found: dict[str, Any] = json.loads(body)
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(PAUSE)
    raise AssertionError(f"job {job} did not end within {seconds} s")
