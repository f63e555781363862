"""A store in PostgreSQL, for services of many hosts; large artifacts in object storage, where one is named."""

from __future__ import annotations

from twill.exc import StoreUnavailable
from twill.store.objects import LARGE, Objects
from twill.store.pg import Postgres
from twill.store.rows import HASH, sha256
from twill.store.session import SqlSession
from twill.store.sql import SqlStore

FIRST = (
    """CREATE TABLE schedules (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key TEXT NOT NULL UNIQUE, kernel TEXT NOT NULL,
        spec TEXT NOT NULL, machine TEXT NOT NULL, machine_digest TEXT NOT NULL, created TEXT NOT NULL,
        schedule_digest TEXT NOT NULL, graph_digest TEXT NOT NULL, head_digest TEXT NOT NULL,
        strategy TEXT NOT NULL, optimal BOOLEAN NOT NULL, ii BIGINT NOT NULL, length BIGINT NOT NULL,
        copies BIGINT NOT NULL, registers BIGINT NOT NULL, bytes BIGINT NOT NULL, used DOUBLE PRECISION NOT NULL,
        checked TEXT NOT NULL,
        asked BYTEA NOT NULL, schedule BYTEA NOT NULL, graph BYTEA NOT NULL)""",
    "CREATE INDEX schedules_by_kernel ON schedules (kernel, machine, number)",
    "CREATE INDEX schedules_by_use ON schedules (used)",
    """CREATE TABLE artifacts (
        key TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, bytes BIGINT NOT NULL,
        used DOUBLE PRECISION NOT NULL, data BYTEA NOT NULL, PRIMARY KEY (key, name))""",
    "CREATE INDEX artifacts_by_use ON artifacts (used)",
    """CREATE TABLE schedule_machines (
        digest TEXT PRIMARY KEY, name TEXT NOT NULL, bytes BIGINT NOT NULL, document BYTEA NOT NULL)""",
    "CREATE TABLE pins (key TEXT PRIMARY KEY)",
    """CREATE TABLE quarantine (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key TEXT NOT NULL, what TEXT NOT NULL,
        reason TEXT NOT NULL, found TEXT NOT NULL, bytes BIGINT NOT NULL, data BYTEA NOT NULL)""",
)

EDITIONS = (FIRST,)
ELSEWHERE = b""  # the data of an artifact that is in object storage


class PostgresStore(SqlStore):
    """A `ScheduleStore` in the database of `url`.

    objects: where artifacts of more than `LARGE` bytes are (None: in the database, too). limit: bytes, as `SqlStore`
    has them. Raises StoreUnavailable.
    """

    machines_table = "schedule_machines"

    def __init__(self, url: str, objects: Objects | None = None, *, limit: int | None = None) -> None:
        database = Postgres(url, "schedules", EDITIONS, unavailable)
        self.objects = objects
        super().__init__(database, database.place, limit)

    def taken(self, c: SqlSession) -> int:
        """See SqlStore."""
        sums = "(SELECT coalesce(sum(bytes), 0) FROM schedules) + (SELECT coalesce(sum(bytes), 0) FROM artifacts)"
        return int(c.execute(f"SELECT {sums}").fetchone()[0])

    def on_disk(self, c: SqlSession) -> int:
        """See SqlStore; object storage is not among it."""
        tables = ("schedules", "artifacts", "quarantine", self.machines_table)
        sizes = " + ".join(f"pg_total_relation_size('{table}')" for table in tables)
        return int(c.execute(f"SELECT {sizes}").fetchone()[0])

    def broken(self, c: SqlSession) -> list[str]:
        """See SqlStore. Nothing: pg_amcheck and checksums are the database's own."""
        return []

    def give_room_back(self) -> None:
        """See SqlStore. The database does so by itself (autovacuum)."""

    # -- large artifacts

    def get_artifact(self, key: str, name: str) -> bytes | None:
        """See `ScheduleStore.get_artifact`. An object of the wrong hash is set aside as a row would be."""
        with self.reading() as c:
            row = c.execute(
                "SELECT digest, bytes FROM artifacts WHERE key = ? AND name = ? AND length(data) = 0", (key, name)
            ).fetchone()
        if row is None or row[1] == 0:
            return super().get_artifact(key, name)
        digest = str(row[0])
        if self.objects is None:
            self.warnings.warn(
                f"{self.place}: large artifacts are in object storage, which this process was not told of"
            )
            return None
        data = self.objects.get(object_of(key, digest))
        if data is None or sha256(data) != digest:
            self.quarantine_artifact(key, name, digest)
            return None
        self.touch(key, name)
        return data

    def artifact_fault(self, key: str, name: str) -> str | None:
        """See SqlStore."""
        question = "SELECT bytes > 0 AND length(data) = 0 FROM artifacts WHERE key = ? AND name = ?"
        with self.reading() as c:
            elsewhere = c.execute(question, (key, name)).fetchone() == (True,)
        if not elsewhere:
            return super().artifact_fault(key, name)
        if self.objects is None:
            return "it is in object storage, which is not named (TWILL_OBJECTS)"
        return HASH if self.get_artifact(key, name) is None else ""

    def put_artifact(self, key: str, name: str, data: bytes) -> None:
        """See `ScheduleStore.put_artifact`. The object is there before its row is."""
        if self.objects is None or len(data) <= LARGE:
            super().put_artifact(key, name, data)
            return
        self.refuse_larger("an artifact", len(data))
        digest = sha256(data)
        self.objects.put(object_of(key, digest), data)
        with self.writing() as c:
            self.write_artifact(c, key, name, digest, len(data), ELSEWHERE)
            self.make_room(c)

    def delete(self, key: str) -> bool:
        """See `ScheduleStore.delete`. Objects go after their rows: one without a row is in nobody's way."""
        there = super().delete(key)
        if self.objects is not None:
            self.objects.remove(key)
        return there


def object_of(key: str, digest: str) -> str:
    """The name of an artifact's object: never the same for other bytes."""
    return f"{key}/{digest}"


def unavailable(why: str) -> StoreUnavailable:
    """What the database refuses, as the store's error."""
    place, _, reason = why.partition(": ")
    return StoreUnavailable(place, reason)
