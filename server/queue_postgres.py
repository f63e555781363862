"""The job queue in PostgreSQL: front ends and workers anywhere, one database, its clock.

A job is one INSERT: a partial unique index makes a key that is queued or running one job, whoever submits it, and a
claim is one row that nobody else has locked (FOR UPDATE SKIP LOCKED). What happens to a job is told to all processes
with NOTIFY in the transaction that writes it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from importlib.metadata import version

import psycopg
from psycopg.rows import dict_row

from twill.store.api import Job
from twill.store.pg import Postgres
from twill.store.session import SqlSession

from .queue import QueueUnavailable
from .queue_sql import SqlQueue

FIRST = (
    """CREATE TABLE jobs (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id TEXT NOT NULL UNIQUE, key TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
        kernel TEXT NOT NULL, spec TEXT NOT NULL, machine TEXT NOT NULL, client TEXT NOT NULL,
        machine_digest TEXT NOT NULL, version TEXT NOT NULL, trace TEXT NOT NULL,
        priority INTEGER NOT NULL, rank DOUBLE PRECISION NOT NULL,
        created DOUBLE PRECISION NOT NULL, started DOUBLE PRECISION, ended DOUBLE PRECISION,
        attempts INTEGER NOT NULL DEFAULT 0, token BIGINT NOT NULL DEFAULT 0, cancelling INTEGER NOT NULL DEFAULT 0,
        worker TEXT, lease DOUBLE PRECISION, bounds TEXT, problem TEXT, document TEXT NOT NULL)""",
    "CREATE UNIQUE INDEX jobs_in_flight ON jobs (key) WHERE state IN ('queued', 'running')",
    "CREATE INDEX jobs_by_state ON jobs (state, number)",
    "CREATE INDEX jobs_by_key ON jobs (key, number)",
    "CREATE INDEX jobs_waiting ON jobs (version, priority DESC, rank, number) WHERE state = 'queued'",
    "CREATE INDEX jobs_by_lease ON jobs (lease) WHERE state = 'running'",
    "CREATE INDEX jobs_begun ON jobs (priority, rank) WHERE started IS NOT NULL",
    "CREATE INDEX jobs_by_client ON jobs (client, priority, rank)",
    "CREATE INDEX jobs_kept ON jobs (ended) WHERE document <> '' AND state IN ('failed', 'cancelled')",
    """CREATE TABLE events (
        job BIGINT NOT NULL REFERENCES jobs (number), sequence INTEGER NOT NULL, document TEXT NOT NULL,
        PRIMARY KEY (job, sequence))""",
    "CREATE TABLE job_machines (digest TEXT PRIMARY KEY, document TEXT NOT NULL)",
    "CREATE TABLE probe (one INTEGER PRIMARY KEY CHECK (one = 1), at DOUBLE PRECISION NOT NULL)",
    """CREATE TABLE audit (
        number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at DOUBLE PRECISION NOT NULL,
        client TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL)""",
)

EDITIONS = (FIRST,)

CHANNEL = "twill_jobs"
LISTENING = 1.0  # seconds after which a listener looks whether it is to end, or tries to connect again

log = logging.getLogger("twill.server.queue")


def database_clock(db: SqlSession) -> float:
    """Seconds since the epoch, by the clock of the database's host."""
    return float(db.execute("SELECT extract(epoch FROM clock_timestamp())::float8 AS now").fetchone()["now"])


class PostgresQueue(SqlQueue):
    """See `server.queue.JobQueue`. clock: asked in a connection for the time, for tests. version: of Twill.

    Raises QueueUnavailable.
    """

    locking = " FOR UPDATE"
    skipping = " FOR UPDATE SKIP LOCKED"
    machines = "job_machines"
    database: Postgres

    def __init__(
        self, url: str, clock: Callable[[SqlSession], float] = database_clock, version: str = version("twill-gpu")
    ) -> None:
        self.clock = clock
        self.version = version
        super().__init__(
            Postgres(url, "jobs", EDITIONS, lambda why: QueueUnavailable(f"the job queue, {why}"), rows=dict_row)
        )
        self.closing = threading.Event()
        self.listeners: list[threading.Thread] = []

    def now(self, db: SqlSession) -> float:
        """See SqlQueue."""
        return self.clock(db)

    def damage(self) -> str:
        """See JobQueue. Whether its files are damaged is for the database to find (checksums, pg_amcheck)."""
        return ""

    def announce(self, db: SqlSession, job: Job) -> None:
        """See SqlQueue."""
        db.execute("SELECT pg_notify(?, ?)", (CHANNEL, f"{job.id} {job.state}"))

    def hold_machines(self, db: SqlSession) -> None:
        """See SqlQueue. Whoever adds a job holds a lock against this one, also if its machine was there."""
        db.execute(f"LOCK TABLE {self.machines} IN EXCLUSIVE MODE")

    def listen(self, heard: Callable[[str], None]) -> bool:
        """See JobQueue."""
        thread = threading.Thread(target=self.hear, args=(heard,), name="listener", daemon=True)
        self.listeners.append(thread)
        thread.start()
        return True

    def hear(self, heard: Callable[[str], None]) -> None:
        """Pass on what the database tells, until the end; connect again when the connection is lost."""
        while not self.closing.is_set():
            try:
                with self.database.connected() as connection:
                    connection.execute(f"LISTEN {CHANNEL}".encode())
                    heard("")  # whatever happened while nobody listened
                    while not self.closing.is_set():
                        for news in connection.notifies(timeout=LISTENING):
                            heard(news.payload)
            except psycopg.Error as error:
                log.warning("the database tells nothing: %s", " ".join(str(error).split()))
                self.closing.wait(LISTENING)

    def close(self) -> None:
        """See JobQueue."""
        self.closing.set()
        for thread in self.listeners:
            thread.join()
        super().close()
