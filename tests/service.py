"""A service to test: graphs that are solved at once, a store in memory, requests without a network."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from server.pool import SolveLimits
from server.queue_sqlite import SqliteQueue
from server.run import Server, configuration
from server.sample import vector_scale
from server.service import Service
from server.settings import Settings
from tests.kernels import H100
from twill.cli.serve import listen
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions
from twill.store.interface import Entry, Summary, summary_of

graph = vector_scale


class MemoryStore:
    """The narrow interface, in a dictionary."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.pins: set[str] = set()
        self.lock = threading.Lock()

    def get(self, key: str, *, graph: bool = True) -> Entry | None:
        return self.entries.get(key)

    def has(self, key: str) -> bool:
        return key in self.entries

    def put(
        self,
        schedule: Schedule,
        graph: DependenceGraph | None = None,
        *,
        asked: KeyOptions | None = None,
        machine: Machine | None = None,
    ) -> Entry:
        check_or_raise(schedule, machine or H100)
        entry = Entry(
            key=schedule.key,
            kernel=schedule.kernel,
            spec=schedule.spec,
            machine=schedule.machine,
            machine_digest=schedule.machine_digest,
            created=datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
            schedule_digest=schedule.digest(),
            schedule=schedule,
            graph=graph,
            asked=asked,
        )
        with self.lock:
            return self.entries.setdefault(schedule.key, entry)

    def keep(self, entry: Entry, machine: Machine) -> Entry:
        with self.lock:
            return self.entries.setdefault(entry.key, entry)

    def find(
        self, kernel: str | None = None, machine: str | None = None, limit: int = 50, before: int | None = None
    ) -> tuple[Summary, ...]:
        found = [summary_of(entry, number) for number, entry in enumerate(self.entries.values(), 1)]
        retained = [
            one
            for one in reversed(found)
            if kernel in (None, one.kernel)
            and machine in (None, one.machine)
            and (before is None or one.number < before)
        ]
        return tuple(retained[:limit])

    def delete(self, key: str) -> bool:
        return self.entries.pop(key, None) is not None

    def pin(self, key: str, pinned: bool = True) -> bool:
        (self.pins.add if pinned else self.pins.discard)(key)
        return key in self.entries

    def pinned(self) -> frozenset[str]:
        return frozenset(self.pins)

    def get_artifact(self, key: str, name: str) -> bytes | None:
        return None

    def put_artifact(self, key: str, name: str, data: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def body(of: DependenceGraph | None = None, machine: Any = "h100", **options: Any) -> dict[str, Any]:
    """The JSON value of a submission."""
    return {"graph": json.loads((of or graph()).canonical()), "machine": machine, "options": options}


class Client(httpx.Client):
    """Speaks to `service` over loopback, from the same process."""

    service: Service
    server: Server


@contextmanager
def running(directory: Path, store: MemoryStore | None = None, **settings: Any) -> Iterator[Client]:
    """A service at work on a free port, and a client of it."""
    chosen = Settings(
        data=directory, **{"workers": 1, "rate": 0, "solve": SolveLimits(seconds=60.0, megabytes=4096), **settings}
    )
    with serving(Service(chosen, store or MemoryStore(), SqliteQueue(directory / "jobs.sqlite"))) as client:
        yield client


@contextmanager
def serving(service: Service) -> Iterator[Client]:
    """The service on a free port, and a client of it."""
    server = Server(configuration(service), service)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), name="server")
        thread.start()
        try:
            with Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=60) as client:
                client.service, client.server = service, server
                yield client
        finally:
            service.stopping.set()
            server.should_exit = True
            thread.join()


def ended(client: httpx.Client, job: str, seconds: float = 300.0) -> dict[str, Any]:
    """The job when it has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found: dict[str, Any] = client.get(f"/v1/jobs/{job}").json()
        if found["state"] in ("done", "failed", "cancelled"):
            return found
        time.sleep(0.02)
    raise AssertionError(f"job {job} did not end within {seconds} s")
