"""What a store of schedules is, whatever it is made of.

A store is never trusted with correctness: whatever comes out of one has been checked, against its
hash, its key and every rule of docs/model.md (`twill.schedule.checker.check`), before the caller sees it. What fails
is put into quarantine with the reason, and reads as a miss.

The first valid schedule of a key stays (a key has one answer, apart from solve times): a second
`put` changes nothing and returns what is there.
"""

from __future__ import annotations

from typing import Literal, Protocol

from pydantic import Field

from twill.document import Document
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule, Strategy
from twill.schedule.key import KeyOptions


class Entry(Document):
    """A stored schedule with all that proves that it belongs to its key.

    created: UTC time, ISO 8601 with microseconds and "Z". schedule_digest: `schedule.digest()`. graph and asked:
    what was solved; with both, the key can be computed again, and an entry from elsewhere is believed.
    """

    schema_version: Literal["twill.entry/1"] = Field(default="twill.entry/1", alias="schema")
    key: str
    kernel: str
    spec: str
    machine: str
    machine_digest: str
    created: str
    schedule_digest: str
    schedule: Schedule
    graph: DependenceGraph | None = None
    asked: KeyOptions | None = None


class Summary(Document):
    """An entry in one line. number: the store's own, larger for later entries. bytes: what it takes in the store.

    registers: summed budgets, registers per thread, over warp groups.
    """

    number: int
    key: str
    kernel: str
    spec: str
    machine: str
    machine_digest: str
    created: str
    schedule_digest: str
    strategy: Strategy
    optimal: bool
    ii: int
    length: int
    copies: int
    registers: int
    bytes: int = 0


class Quarantined(Document):
    """Something that was stored and is not believed. what: "schedule", "artifact NAME", "machine"; bytes: its size."""

    number: int
    key: str
    what: str
    reason: str
    found: str  # UTC time, as `Entry.created`
    bytes: int


class ScheduleStore(Protocol):
    """See the top of this file. Every method may be called from any thread; a store that cannot be reached raises
    `StoreUnavailable` (twill.exc), and nothing else but what is named here.
    """

    def get(self, key: str, *, graph: bool = True) -> Entry | None:
        """The checked entry, or None if there is none or a bad one. graph: whether to read its graph, too."""

    def put(
        self,
        schedule: Schedule,
        graph: DependenceGraph | None = None,
        *,
        asked: KeyOptions | None = None,
        machine: Machine | None = None,
    ) -> Entry:
        """Store a schedule under `schedule.key` and return the entry that is now there.

        machine: the one it was solved for (None: the described machine of that name, or one that the store knows).
        Raises `InvalidSchedule` if it breaks a rule or graph and asked do not give its key, `UnknownMachine` if the
        machine is not known.
        """

    def keep(self, entry: Entry, machine: Machine) -> Entry:
        """Store an entry that was examined (`twill.store.validation.file`), and return the entry that is now there."""

    def find(
        self,
        kernel: str | None = None,
        machine: str | None = None,
        limit: int = 50,
        before: int | None = None,
    ) -> tuple[Summary, ...]:
        """Entries of a kernel and a machine (exact names; None: any), newest first; before: only smaller numbers."""

    def delete(self, key: str) -> bool:
        """Remove the entry and artifacts of a key; whether there was an entry."""

    def get_artifact(self, key: str, name: str) -> bytes | None:
        """An artifact whose bytes still have the hash they were stored with, or None."""

    def put_artifact(self, key: str, name: str, data: bytes) -> None:
        """Store an artifact (emitted source, cubin ...) under a key; it replaces one of the same name."""

    def close(self) -> None:
        """Let go of files and connections; no method is called after this."""


class ServedStore(ScheduleStore, Protocol):
    """The store of a service, in which entries can be pinned."""

    def has(self, key: str) -> bool:
        """Whether `get` would find an entry, without its documents being read."""

    def pin(self, key: str, pinned: bool = True) -> bool:
        """Keep an entry and its artifacts when others give way to new ones, or no longer; whether there is one."""

    def pinned(self) -> frozenset[str]:
        """Keys of what is kept so."""


def summary_of(entry: Entry, number: int, size: int = 0) -> Summary:
    """An entry in one line."""
    schedule = entry.schedule
    return Summary(
        number=number,
        key=entry.key,
        kernel=entry.kernel,
        spec=entry.spec,
        machine=entry.machine,
        machine_digest=entry.machine_digest,
        created=entry.created,
        schedule_digest=entry.schedule_digest,
        strategy=schedule.strategy,
        optimal=schedule.certificate.optimal,
        ii=schedule.ii,
        length=schedule.length,
        copies=schedule.copies,
        registers=schedule.objective.registers,
        bytes=size,
    )
