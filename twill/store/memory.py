"""The first level: entries in memory, the least recently used give way. A look-up is one dictionary access."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions
from twill.store.interface import Entry, Summary, summary_of
from twill.store.validation import file

ENTRIES = 1024
ARTIFACT_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Held:
    """An entry with its number. whole: it has its graph, if there is one."""

    entry: Entry
    number: int
    whole: bool


class MemoryStore:
    """A `ScheduleStore` of one process. entries: how many are kept; artifact_bytes: how much of artifacts."""

    def __init__(self, entries: int = ENTRIES, artifact_bytes: int = ARTIFACT_BYTES) -> None:
        self.limit = entries
        self.artifact_limit = artifact_bytes
        self.artifact_bytes = 0
        self.held: OrderedDict[str, Held] = OrderedDict()
        self.artifacts: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self.lock = threading.Lock()
        self.number = 0

    def get(self, key: str, *, graph: bool = True) -> Entry | None:
        """The entry; it was examined when it came in."""
        with self.lock:
            held = self.held.get(key)
            if held is None or (graph and not held.whole):
                return None
            self.held.move_to_end(key)
            return held.entry

    def put(
        self,
        schedule: Schedule,
        graph: DependenceGraph | None = None,
        *,
        asked: KeyOptions | None = None,
        machine: Machine | None = None,
    ) -> Entry:
        """See `ScheduleStore.put`."""
        there = self.get(schedule.key)
        if there is not None and (there.graph is not None or graph is None):
            return there
        entry, _ = file(schedule, graph, asked, machine)
        self.hold(entry)
        return entry

    def keep(self, entry: Entry, machine: Machine) -> Entry:
        """See `ScheduleStore.keep`."""
        there = self.get(entry.key)
        if there is None or (there.graph is None and entry.graph is not None):
            self.hold(entry)
        return self.get(entry.key) or entry

    def hold(self, entry: Entry, whole: bool = True) -> None:
        """Keep an entry that another level has examined. whole: it was read with its graph."""
        with self.lock:
            there = self.held.get(entry.key)
            if there is not None and there.whole and not whole:
                return
            self.number += 1
            self.held[entry.key] = Held(entry, self.number, whole)
            self.held.move_to_end(entry.key)
            while len(self.held) > self.limit:
                self.held.popitem(last=False)

    def find(
        self, kernel: str | None = None, machine: str | None = None, limit: int = 50, before: int | None = None
    ) -> tuple[Summary, ...]:
        """See `ScheduleStore.find`."""
        with self.lock:
            held = sorted(self.held.values(), key=lambda one: -one.number)
        wanted = (
            one
            for one in held
            if kernel in (None, one.entry.kernel)
            and machine in (None, one.entry.machine)
            and (before is None or one.number < before)
        )
        return tuple(summary_of(one.entry, one.number) for one, _ in zip(wanted, range(limit), strict=False))

    def delete(self, key: str) -> bool:
        """See `ScheduleStore.delete`."""
        with self.lock:
            for name in [name for name in self.artifacts if name[0] == key]:
                self.artifact_bytes -= len(self.artifacts.pop(name))
            return self.held.pop(key, None) is not None

    def get_artifact(self, key: str, name: str) -> bytes | None:
        """See `ScheduleStore.get_artifact`."""
        with self.lock:
            data = self.artifacts.get((key, name))
            if data is not None:
                self.artifacts.move_to_end((key, name))
            return data

    def put_artifact(self, key: str, name: str, data: bytes) -> None:
        """See `ScheduleStore.put_artifact`; one that is larger than all the room for them is not kept."""
        with self.lock:
            self.artifact_bytes += len(data) - len(self.artifacts.pop((key, name), b""))
            self.artifacts[key, name] = bytes(data)
            while self.artifact_bytes > self.artifact_limit:
                _, dropped = self.artifacts.popitem(last=False)
                self.artifact_bytes -= len(dropped)

    def close(self) -> None:
        """Forget everything."""
        with self.lock:
            self.held.clear()
            self.artifacts.clear()
            self.artifact_bytes = 0
