"""A store as statements that SQLite and PostgreSQL both take; `sqlite` and `postgres` say where.

What is read has the hash it was stored with, and passed `examine` when it was written or, if it carries no
mark of that (`examine.mark`), passes it now. What does not is moved into quarantine and reads as a miss.
"""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from contextlib import AbstractContextManager

from pydantic import ValidationError

from twill.exc import StoreUnavailable
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions
from twill.store.eviction import LookUps, evict
from twill.store.examine import examine
from twill.store.interface import Entry, Summary
from twill.store.rows import HASH, HEAD, MalformedRow, StoredRow, row_of, sha256
from twill.store.session import SqlDatabase, SqlSession
from twill.store.validation import OnceLogger, described, file, now

ROOM = 0.9  # of the limit is kept when something has to give way, so that not every write makes room
ATTEMPTS = 3  # at writing where something bad was, which others may be doing, too
KEPT_IN_QUARANTINE = 100
SAMPLE = 2**20  # bytes of something bad that are kept

SUMMARY = (
    "number, key, kernel, spec, machine, machine_digest, created, schedule_digest, strategy, optimal, ii, length,"
    " copies, registers, bytes"
)
READ = f"SELECT {HEAD} FROM schedules WHERE key = ?"
READ_WHOLE = f"SELECT {HEAD}, graph FROM schedules WHERE key = ?"
WRITE_ARTIFACT = """INSERT INTO artifacts VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key, name) DO UPDATE SET
    digest = excluded.digest, bytes = excluded.bytes, used = excluded.used, data = excluded.data"""


class SqlStore:
    """A `ScheduleStore` in a database.

    place: the database, as people are told of it. limit: bytes of schedules, graphs and artifacts; the least recently
    used that are not pinned give way (None: nothing does). machines_table: where machines are kept.
    """

    machines_table = "machines"

    def __init__(self, database: SqlDatabase, place: str, limit: int | None) -> None:
        self.database = database
        self.place = place
        self.limit = limit
        self.warnings = OnceLogger()
        self.machines: dict[str, Machine] = {}
        self.looked_up = LookUps()

    def reading(self) -> AbstractContextManager[SqlSession]:
        """A connection for single statements. Raises StoreUnavailable."""
        return self.database.reading()

    def writing(self) -> AbstractContextManager[SqlSession]:
        """A connection in a transaction that is committed whole at the end, or not at all. Raises StoreUnavailable."""
        return self.database.writing()

    @abstractmethod
    def taken(self, c: SqlSession) -> int:
        """Bytes of schedules and artifacts."""

    @abstractmethod
    def on_disk(self, c: SqlSession) -> int:
        """Bytes that the database takes on its disk."""

    @abstractmethod
    def broken(self, c: SqlSession) -> list[str]:
        """What is wrong with the database's own structure, as far as it can tell."""

    @abstractmethod
    def give_room_back(self) -> None:
        """Let the disk have what is free now."""

    # -- schedules

    def get(self, key: str, *, graph: bool = True) -> Entry | None:
        """See `ScheduleStore.get`."""
        row = self.read(key, graph)
        if row is None:
            return None
        if row.graph is None and row.checked != row.mark():
            row = self.read(key, True) or row
        entry, reason = self.believe(row)
        if entry is None:
            self.quarantine(row, reason)
            return None
        self.touch(key, None)
        return entry

    def has(self, key: str) -> bool:
        """See `ServedStore.has`. Bytes that are as they were stored, and were examined then, need not be parsed."""
        row = self.read(key, graph=False)
        if row is None:
            return False
        if row.fault() or row.checked != row.mark():
            return self.get(key, graph=False) is not None
        self.touch(key, None)
        return True

    def read(self, key: str, graph: bool) -> StoredRow | None:
        """The row of a key. graph: with its graph."""
        with self.reading() as c:
            row = c.execute(READ_WHOLE if graph else READ, (key,)).fetchone()
        return None if row is None else StoredRow(*row)

    def believe(self, row: StoredRow, *, again: bool = False) -> tuple[Entry | None, str]:
        """The entry of a row, or what is wrong with it. again: examine it even if it has a mark."""
        reason = row.fault()
        if reason:
            return None, reason
        try:
            entry = row.entry()
        except MalformedRow as malformed:
            return None, str(malformed)
        expected = row.mark()
        if row.checked == expected and not again:
            return entry, ""
        machine = self.machine(entry.machine, entry.machine_digest)
        reason = examine(entry, machine) if machine else "its machine is not in the store"
        if reason:
            return None, reason
        if row.checked != expected:
            self.write_mark(row, expected)
        return entry, ""

    def put(
        self,
        schedule: Schedule,
        graph: DependenceGraph | None = None,
        *,
        asked: KeyOptions | None = None,
        machine: Machine | None = None,
    ) -> Entry:
        """See `ScheduleStore.put`. An entry without a graph gives way to one that has it."""
        there = self.get(schedule.key)
        if there is not None and (there.graph is not None or graph is None):
            return there
        machine = machine or self.machine(schedule.machine, schedule.machine_digest)
        return self.keep(*file(schedule, graph, asked, machine))

    def keep(self, entry: Entry, machine: Machine) -> Entry:
        """Keep an entry that was examined, unless its key has a good one with as much; the one that is there now."""
        for _ in range(ATTEMPTS):
            if self.insert(entry, machine):
                return entry
            there = self.get(entry.key)
            if there is not None:
                return there
        raise StoreUnavailable(self.place, f"the bad entry of key {entry.key[:12]} cannot be removed")

    def insert(self, entry: Entry, machine: Machine) -> bool:
        """Write an entry, unless its key has one with as much; whether it was written."""
        row = row_of(entry)
        document = machine.canonical().encode()
        self.refuse_larger("an entry", row["bytes"])
        with self.writing() as c:
            # One statement decides: of two who write at once, the second must not remove the first one's entry.
            if entry.graph is not None:
                c.execute("DELETE FROM schedules WHERE key = ? AND length(graph) = 0", (entry.key,))
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            added = f"INSERT INTO schedules ({names}) VALUES ({marks}) ON CONFLICT DO NOTHING"
            stays = c.execute(added, tuple(row.values())).rowcount == 0
            if not stays:
                machine_row = (entry.machine_digest, machine.name, len(document), document)
                c.execute(f"INSERT INTO {self.machines_table} VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", machine_row)
                self.make_room(c)
        return not stays

    def find(
        self, kernel: str | None = None, machine: str | None = None, limit: int = 50, before: int | None = None
    ) -> tuple[Summary, ...]:
        """See `ScheduleStore.find`. What it says of an entry is for people; `get` checks it."""
        wanted = {"kernel = ?": kernel, "machine = ?": machine, "number < ?": before}
        given = {condition: value for condition, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        question = f"SELECT {SUMMARY} FROM schedules{where} ORDER BY number DESC LIMIT ?"
        with self.reading() as c:
            rows = c.execute(question, (*given.values(), limit)).fetchall()
        found = (self.summary(row) for row in rows)
        return tuple(summary for summary in found if summary is not None)

    def summary(self, row: tuple[object, ...]) -> Summary | None:
        """A row of a list; None, and said once, if it is not what Twill writes."""
        names = (name.strip() for name in SUMMARY.split(","))
        try:
            return Summary.model_validate(dict(zip(names, row, strict=True)), strict=False)
        except ValidationError:
            self.warnings.warn(
                f"{self.place}: entries are left out of lists, because their rows are damaged (twill store verify)"
            )
            return None

    def delete(self, key: str) -> bool:
        """See `ScheduleStore.delete`."""
        with self.writing() as c:
            c.execute("DELETE FROM pins WHERE key = ?", (key,))
            c.execute("DELETE FROM artifacts WHERE key = ?", (key,))
            return c.execute("DELETE FROM schedules WHERE key = ?", (key,)).rowcount > 0

    def pin(self, key: str, pinned: bool = True) -> bool:
        """See `ServedStore.pin`."""
        with self.writing() as c:
            if c.execute("SELECT 1 FROM schedules WHERE key = ?", (key,)).fetchone() is None:
                return False
            statement = (
                "INSERT INTO pins VALUES (?) ON CONFLICT DO NOTHING" if pinned else "DELETE FROM pins WHERE key = ?"
            )
            c.execute(statement, (key,))
        return True

    def pinned(self) -> frozenset[str]:
        """See `ServedStore.pinned`."""
        with self.reading() as c:
            return frozenset(row[0] for row in c.execute("SELECT key FROM pins").fetchall())

    # -- artifacts

    def get_artifact(self, key: str, name: str) -> bytes | None:
        """See `ScheduleStore.get_artifact`."""
        with self.reading() as c:
            row = c.execute("SELECT digest, data FROM artifacts WHERE key = ? AND name = ?", (key, name)).fetchone()
        if row is None:
            return None
        digest, data = row
        if not isinstance(data, bytes) or sha256(data) != digest:
            self.quarantine_artifact(key, name, digest)
            return None
        self.touch(key, name)
        return data

    def artifact_fault(self, key: str, name: str) -> str | None:
        """What is wrong with an artifact, which is then set aside; "" if nothing is, None if there is none."""
        with self.reading() as c:
            row = c.execute("SELECT digest, data FROM artifacts WHERE key = ? AND name = ?", (key, name)).fetchone()
        if row is None:
            return None
        if isinstance(row[1], bytes) and sha256(row[1]) == row[0]:
            return ""
        self.quarantine_artifact(key, name, row[0])
        return HASH

    def put_artifact(self, key: str, name: str, data: bytes) -> None:
        """See `ScheduleStore.put_artifact`."""
        self.refuse_larger("an artifact", len(data))
        with self.writing() as c:
            self.write_artifact(c, key, name, sha256(data), len(data), data)
            self.make_room(c)

    def write_artifact(self, c: SqlSession, key: str, name: str, digest: str, size: int, data: bytes) -> None:
        """The row of an artifact, within a transaction."""
        c.execute(WRITE_ARTIFACT, (key, name, digest, size, time.time(), bytes(data)))

    def close(self) -> None:
        """Write down what was looked up, and close."""
        self.flush()
        self.database.close()

    # -- machines

    def machine(self, name: str, digest: str) -> Machine | None:
        """The machine of that digest: one that came with a schedule, or the described one of that name."""
        if digest in self.machines:
            return self.machines[digest]
        with self.reading() as c:
            row = c.execute(f"SELECT document FROM {self.machines_table} WHERE digest = ?", (digest,)).fetchone()
        found = machine_in(row[0], digest) if row is not None else None
        if row is not None and found is None:
            self.warnings.warn(f"{self.place}: the document of machine {name} is not what was stored")
        found = found or described(name, digest)
        if found is not None:
            self.machines[digest] = found
        return found

    # -- what is not believed

    def quarantine(self, row: StoredRow, reason: str) -> None:
        """Move an entry into quarantine, if it is still there, and say so once."""
        self.warnings.warn(f"{self.place}: the schedule of key {row.key[:12]} is put into quarantine: {reason}")
        where = ("schedules", "schedule", "number = ?", (row.number,))
        self.set_aside(row.key, "schedule", reason, *where)

    def quarantine_artifact(self, key: str, name: str, digest: str) -> None:
        """Move an artifact into quarantine, if it is still there, and say so once."""
        self.warnings.warn(f"{self.place}: the artifact {name} of key {key[:12]} is put into quarantine: {HASH}")
        where = ("artifacts", "data", "key = ? AND name = ? AND digest = ?", (key, name, digest))
        self.set_aside(key, f"artifact {name}", HASH, *where)

    def set_aside(
        self, key: str, what: str, reason: str, table: str, column: str, where: str, given: tuple[object, ...]
    ) -> None:
        """Move one row into quarantine; where that cannot be written it stays, and is a miss every time."""
        with contextlib.suppress(StoreUnavailable), self.writing() as c:
            row = c.execute(f"SELECT substr({column}, 1, {SAMPLE}) FROM {table} WHERE {where}", given).fetchone()
            if row is None:
                return
            data = row[0] if isinstance(row[0], bytes) else str(row[0]).encode()
            c.execute(f"DELETE FROM {table} WHERE {where}", given)
            c.execute(
                "INSERT INTO quarantine (key, what, reason, found, bytes, data) VALUES (?, ?, ?, ?, ?, ?)",
                (key, what, reason, now(), len(data), data),
            )
            c.execute(
                "DELETE FROM quarantine WHERE number <= (SELECT max(number) FROM quarantine) - ?", (KEPT_IN_QUARANTINE,)
            )

    # -- what was used, and what gives way

    def touch(self, key: str, artifact: str | None) -> None:
        """Note that something was looked up (artifact: None for the schedule)."""
        if self.looked_up.note(key, artifact):
            self.flush()

    def flush(self) -> None:
        """Write down what was looked up."""
        with contextlib.suppress(StoreUnavailable):
            if self.looked_up.at:
                with self.writing() as c:
                    self.looked_up.write(c)

    def make_room(self, c: SqlSession, limit: int | None = None, room: float = ROOM) -> None:
        """If there is more than the limit, remove what was used least recently until `room` of it is taken."""
        limit = self.limit if limit is None else limit
        if limit is None or (total := self.taken(c)) <= limit:
            return
        self.looked_up.write(c)
        evict(c, total - int(limit * room))

    def write_mark(self, row: StoredRow, expected: str) -> None:
        """Remember that a content passed; where that cannot be written it is examined again next time."""
        with contextlib.suppress(StoreUnavailable), self.writing() as c:
            c.execute("UPDATE schedules SET checked = ? WHERE number = ?", (expected, row.number))

    def refuse_larger(self, what: str, size: int) -> None:
        """Raise StoreUnavailable for what could never be kept."""
        if self.limit is not None and size > self.limit * ROOM:
            why = f"{what} of {size} bytes is too large for its limit of {self.limit}"
            raise StoreUnavailable(self.place, why, "a larger limit (--max-bytes)")


def machine_in(document: object, digest: str) -> Machine | None:
    """A machine document, if it still is the one of that digest."""
    try:
        machine = Machine.parse(document) if isinstance(document, bytes) else None
    except ValidationError:
        return None
    return machine if machine is not None and machine.digest() == digest else None
