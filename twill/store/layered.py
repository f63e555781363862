"""The levels together: memory, then SQLite, then a service; what a level finds, those before it keep.

Nothing that goes wrong in a level is an error here: it is logged once, and reads as a miss. A look-up waits for
the service at most `budget` seconds, and only once: after a wait that was in vain, look-ups do not wait for
`PATIENCE` seconds, while what they ask for is fetched in the background and is there the next time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from twill.exc import StoreUnavailable
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions
from twill.store.http import HttpStore
from twill.store.interface import Entry, Summary
from twill.store.memory import MemoryStore
from twill.store.sqlite import SqliteStore
from twill.store.validation import OnceLogger

BUDGET = 0.05  # seconds
PATIENCE = 30.0  # seconds without waiting after a wait in vain
MISS = 60.0  # seconds for which the service is not asked again for what it did not have
FETCHES = 8  # at a time
MISSES = 10_000

T = TypeVar("T")


class LayeredStore:
    """A `ScheduleStore` of up to three levels.

    budget: seconds that a look-up may wait for the service (None: as long as its client does).
    """

    def __init__(
        self,
        memory: MemoryStore | None = None,
        sqlite: SqliteStore | None = None,
        http: HttpStore | None = None,
        *,
        budget: float | None = BUDGET,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.memory = memory or MemoryStore()
        self.sqlite = sqlite
        self.http = http
        self.budget = budget
        self.clock = clock
        self.warnings = OnceLogger()
        self.lock = threading.Lock()
        self.fetching: dict[str, threading.Event] = {}
        self.missed: dict[str, float] = {}  # key -> when the service may be asked again
        self.impatient_until = 0.0
        self.closed = False

    def get(self, key: str, *, graph: bool = True) -> Entry | None:
        """See `ScheduleStore.get`."""
        begun = self.clock()
        entry = self.here(key, graph=graph)
        return self.fetched(key, begun) if entry is None and self.http is not None else entry

    def here(self, key: str, *, graph: bool = True) -> Entry | None:
        """The entry as memory or the file has it."""
        entry = self.memory.get(key, graph=graph)
        if entry is None and self.sqlite is not None:
            entry = self.quietly(lambda store: store.get(key, graph=graph))
            if entry is not None:
                self.memory.hold(entry, whole=graph)
        return entry

    def know(self, machine: Machine) -> None:
        """Look-ups for this machine need not look for its document."""
        if self.sqlite is not None:
            self.sqlite.machines[machine.digest()] = machine
        if self.http is not None:
            self.http.know(machine)

    def put(
        self,
        schedule: Schedule,
        graph: DependenceGraph | None = None,
        *,
        asked: KeyOptions | None = None,
        machine: Machine | None = None,
    ) -> Entry:
        """See `ScheduleStore.put`; if SQLite cannot be written, memory still keeps it."""
        entry = self.quietly(lambda store: store.put(schedule, graph, asked=asked, machine=machine))
        if entry is None:
            return self.memory.put(schedule, graph, asked=asked, machine=machine)
        self.memory.hold(entry)
        return entry

    def keep(self, entry: Entry, machine: Machine) -> Entry:
        """See `ScheduleStore.keep`; if SQLite cannot be written, memory still keeps it."""
        there = self.quietly(lambda store: store.keep(entry, machine)) or entry
        self.memory.hold(there)
        return there

    def find(
        self, kernel: str | None = None, machine: str | None = None, limit: int = 50, before: int | None = None
    ) -> tuple[Summary, ...]:
        """See `ScheduleStore.find`: what SQLite has (memory, if there is no SQLite)."""
        store = self.sqlite or self.memory
        return store.find(kernel, machine, limit, before)

    def delete(self, key: str) -> bool:
        """See `ScheduleStore.delete`; the service keeps what it has."""
        here = self.memory.delete(key)
        there = self.sqlite.delete(key) if self.sqlite is not None else False
        return here or there

    def get_artifact(self, key: str, name: str) -> bytes | None:
        """See `ScheduleStore.get_artifact`; a service has none."""
        data = self.memory.get_artifact(key, name)
        if data is None:
            data = self.quietly(lambda store: store.get_artifact(key, name))
            if data is not None:
                self.memory.put_artifact(key, name, data)
        return data

    def put_artifact(self, key: str, name: str, data: bytes) -> None:
        """See `ScheduleStore.put_artifact`; if SQLite cannot be written, memory still keeps it."""
        self.quietly(lambda store: store.put_artifact(key, name, data))
        self.memory.put_artifact(key, name, data)

    def close(self) -> None:
        """Close every level; fetches in the background end by themselves and are not kept."""
        self.closed = True
        for level in (self.memory, self.sqlite, self.http):
            if level is not None:
                level.close()

    # -- the service

    def fetched(self, key: str, begun: float) -> Entry | None:
        """What the service has under a key, if it says so in time for a look-up that began then."""
        with self.lock:
            running = self.fetching.get(key)
            if running is None:
                if self.missed.get(key, 0.0) > self.clock() or len(self.fetching) >= FETCHES:
                    return None
                running = self.fetching[key] = threading.Event()
                threading.Thread(target=self.fetch, args=(key, running), name="twill-fetch", daemon=True).start()
            waits = self.budget is None or self.clock() >= self.impatient_until
        if not waits:
            return None
        if running.wait(None if self.budget is None else max(0.0, begun + self.budget - self.clock())):
            return self.memory.get(key)
        with self.lock:
            self.impatient_until = self.clock() + PATIENCE
        assert self.http is not None
        self.warnings.warn(f"the service {self.http.client.address} did not answer within {self.budget} s")
        return None

    def fetch(self, key: str, done: threading.Event) -> None:
        """Get an entry from the service and keep it in the levels before it."""
        assert self.http is not None
        found = None
        try:
            found = self.http.get(key)
            if found is not None and not self.closed:
                entry, machine = found
                self.memory.hold(entry)
                self.quietly(lambda store: store.keep(entry, machine))
        except Exception as error:
            self.warnings.warn(
                f"a look-up at the service failed: {' '.join(f'{type(error).__name__}: {error}'.split())}"
            )
        finally:
            with self.lock:
                self.fetching.pop(key, None)
                if found is None:
                    if len(self.missed) >= MISSES:
                        self.missed.clear()
                    self.missed[key] = self.clock() + MISS
            done.set()

    # -- the file

    def quietly(self, what: Callable[[SqliteStore], T]) -> T | None:
        """Do something with SQLite if there is one; what goes wrong is logged once."""
        if self.sqlite is None:
            return None
        try:
            return what(self.sqlite)
        except StoreUnavailable as error:
            self.warnings.warn(error.message)
            return None
