"""Clients of the service's benchmark: threads with a connection each, who wait for every answer."""

from __future__ import annotations

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
