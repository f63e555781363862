"""The job queue in one SQLite file: nothing to install, survives kill -9 of everybody who uses it."""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from twill.store.api import ENDED, Job, JobBounds, JobProblem, State
from twill.store.database import Database

from .queue import STATES, Claim, Event, QueueFull, QueueUnavailable, Request

FIRST = """
CREATE TABLE IF NOT EXISTS jobs (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  key TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'done', 'failed', 'cancelled')),
  kernel TEXT NOT NULL, spec TEXT NOT NULL, machine TEXT NOT NULL, client TEXT NOT NULL,
  document TEXT NOT NULL,
  created REAL NOT NULL, started REAL, ended REAL,
  attempts INTEGER NOT NULL DEFAULT 0,
  cancelling INTEGER NOT NULL DEFAULT 0,
  worker TEXT, lease REAL,
  bounds TEXT, problem TEXT
);
CREATE UNIQUE INDEX IF NOT EXISTS in_flight ON jobs (key) WHERE state IN ('queued', 'running');
CREATE INDEX IF NOT EXISTS by_state ON jobs (state, number);
CREATE INDEX IF NOT EXISTS by_key ON jobs (key, number);
CREATE TABLE IF NOT EXISTS events (
  job INTEGER NOT NULL REFERENCES jobs (number),
  sequence INTEGER NOT NULL,
  document TEXT NOT NULL,
  PRIMARY KEY (job, sequence)
) WITHOUT ROWID;
"""

MACHINES_ONCE = """
CREATE TABLE machines (digest TEXT PRIMARY KEY, document TEXT NOT NULL);
ALTER TABLE jobs ADD COLUMN machine_digest TEXT NOT NULL DEFAULT '';
CREATE INDEX by_lease ON jobs (lease) WHERE state = 'running';
CREATE INDEX by_machine ON jobs (machine_digest) WHERE state IN ('queued', 'running');
CREATE INDEX kept ON jobs (ended) WHERE document != '' AND state IN ('failed', 'cancelled');
CREATE TABLE probe (one INTEGER PRIMARY KEY CHECK (one = 1), at REAL NOT NULL);
"""

EDITIONS = tuple(tuple(filter(str.strip, script.split(";\n"))) for script in (FIRST, MACHINES_ONCE))
"""Statements from one edition of the file to the next. A job of the first one has its machine in its document."""

HEAD = "number, cancelling, attempts, machine_digest"  # of an open job

KEPT = "document != '' AND state IN ('failed', 'cancelled')"  # jobs that can be tried again
MOST_KEPT = 200  # of those; with the largest documents, less than a gigabyte

MOST_ATTEMPTS = 5  # a job that took that many workers with it is not given to another
MOST_EVENTS = 1000  # of one job; a longer story keeps its beginning, and how it ended

PATIENCE = 15.0  # seconds to wait for another process that writes

LOST = JobProblem(
    kind="WorkerLost",
    message=f"{MOST_ATTEMPTS} workers were lost while they solved it",
    hint="look into the server's log; a smaller kernel, or a larger memory limit",
)


class SqliteQueue:
    """See `twill.server.queue.JobQueue`. `clock`: seconds since the epoch, for tests."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self.database = Database(path, EDITIONS, PATIENCE, durable=True, application=0, refusal=unavailable)
        self.clock = clock
        if self.database.access:
            raise unavailable(str(path), "it can only be read")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for questions; its rows have names."""
        with self.database.reading() as db:
            db.row_factory = sqlite3.Row
            yield db

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the block or, if it raises, nothing of it."""
        with self.database.writing() as db:
            db.row_factory = sqlite3.Row
            yield db

    # -- by the service

    def submit(self, request: Request, limit: int, solved: bool = False) -> tuple[Job, bool]:
        """See JobQueue."""
        with self.writing() as db:
            wanted = ("done",) if solved else ("queued", "running")
            marks = ", ".join("?" * len(wanted))
            row = db.execute(
                f"SELECT * FROM jobs WHERE key = ? AND state IN ({marks}) ORDER BY number DESC LIMIT 1",
                (request.key, *wanted),
            ).fetchone()
            if row is not None and not (row["cancelling"] and row["state"] == "running"):
                return job_of(row), False
            if row is not None:
                # Asked to end, and now wanted again: the work that was done so far is not thrown away.
                db.execute("UPDATE jobs SET cancelling = 0 WHERE number = ?", (row["number"],))
                return job_of(self.row(db, row["number"])), False
            (waiting,) = db.execute("SELECT count(*) FROM jobs WHERE state = 'queued'").fetchone()
            if waiting >= limit and not solved:
                raise QueueFull(waiting)
            return self.add(db, request, "done" if solved else "queued"), True

    def add(self, db: sqlite3.Connection, request: Request, state: State) -> Job:
        """A new row. A document is worth its room only until the job is solved."""
        now = self.clock()
        document = "" if state in ENDED else request.document
        added = db.execute(
            "INSERT INTO jobs (id, key, state, kernel, spec, machine, client, document, created, ended, machine_digest)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                uuid.uuid4().hex, request.key, state, request.kernel, request.spec, request.machine, request.client,
                document, now, now if state in ENDED else None, request.machine_digest,
            ),
        )  # fmt: skip
        if document:
            machine = (request.machine_digest, request.machine_document)
            db.execute("INSERT OR IGNORE INTO machines VALUES (?, ?)", machine)
        assert added.lastrowid is not None
        return self.tell(db, added.lastrowid)

    def get(self, job: str) -> Job | None:
        """See JobQueue."""
        with self.reading() as db:
            row = db.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
        return None if row is None else job_of(row)

    def request(self, job: str) -> Request | None:
        """See JobQueue."""
        with self.reading() as db:
            row = db.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
            if row is None:
                return None
            question = "SELECT document FROM machines WHERE digest = ?"
            machine = db.execute(question, (row["machine_digest"],)).fetchone()
        head = (row["key"], row["document"], row["kernel"], row["spec"], row["machine"], row["client"])
        return Request(*head, row["machine_digest"], machine["document"] if row["document"] and machine else "")

    def recent(self, limit: int, state: State | None = None) -> tuple[Job, ...]:
        """See JobQueue."""
        where, values = ("", ()) if state is None else ("WHERE state = ?", (state,))
        with self.reading() as db:
            question = f"SELECT * FROM jobs {where} ORDER BY number DESC LIMIT ?"
            rows = db.execute(question, (*values, limit)).fetchall()
        return tuple(job_of(row) for row in rows)

    def events(self, job: str, after: int = 0) -> tuple[Event, ...]:
        """See JobQueue."""
        question = "SELECT sequence, document FROM events WHERE job = (SELECT number FROM jobs WHERE id = ?)"
        with self.reading() as db:
            rows = db.execute(f"{question} AND sequence > ? ORDER BY sequence", (job, after)).fetchall()
        return tuple(Event(row["sequence"], row["document"]) for row in rows)

    def cancel(self, job: str) -> Job | None:
        """See JobQueue."""
        with self.writing() as db:
            row = db.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
            if row is None:
                return None
            if row["state"] == "queued":
                self.end(db, row["number"], "cancelled", None)
            elif row["state"] == "running":
                db.execute("UPDATE jobs SET cancelling = 1 WHERE number = ?", (row["number"],))
            return job_of(self.row(db, row["number"]))

    def counts(self) -> Mapping[State, int]:
        """See JobQueue."""
        with self.reading() as db:
            rows = db.execute("SELECT state, count(*) AS n FROM jobs GROUP BY state").fetchall()
        return {**dict.fromkeys(STATES, 0), **{row["state"]: row["n"] for row in rows}}

    def trouble(self) -> str:
        """See JobQueue."""
        try:
            with self.writing() as db:
                db.execute("INSERT OR REPLACE INTO probe VALUES (1, ?)", (self.clock(),))
        except QueueUnavailable as error:
            return str(error)
        return ""

    def damage(self) -> str:
        """See JobQueue."""
        try:
            with self.reading() as db:
                found = [row[0] for row in db.execute("PRAGMA quick_check(1)").fetchall()]
        except QueueUnavailable as error:
            return str(error)
        return "" if found == ["ok"] else f"the job queue: it is damaged: {found[0]}"

    # -- by the workers

    def claim(self, worker: str, seconds: float) -> Claim | None:
        """See JobQueue."""
        with self.reading() as db:
            if self.oldest(db) is None:
                return None  # idle workers do not write
        with self.writing() as db:
            while (row := self.oldest(db)) is not None and not self.may_run(db, row):
                pass  # it has ended, and is open no more
            if row is None:
                return None
            now = self.clock()
            db.execute(
                "UPDATE jobs SET state = 'running', worker = ?, lease = ?, attempts = attempts + 1,"
                " started = coalesce(started, ?) WHERE number = ?",
                (worker, now + seconds, now, row["number"]),
            )
            taken = self.tell(db, row["number"])
            (document,) = db.execute("SELECT document FROM jobs WHERE number = ?", (row["number"],)).fetchone()
            found = db.execute("SELECT document FROM machines WHERE digest = ?", (row["machine_digest"],)).fetchone()
            return Claim(taken, document, "" if found is None else found["document"], taken.attempts)

    def oldest(self, db: sqlite3.Connection) -> sqlite3.Row | None:
        """The job that waits longest or whose lease ran out, without its document; one look into an index for each."""
        waiting = db.execute(f"SELECT {HEAD} FROM jobs WHERE state = 'queued' ORDER BY number LIMIT 1").fetchone()
        lost = db.execute(
            f"SELECT {HEAD} FROM jobs INDEXED BY by_lease WHERE state = 'running' AND lease < ?"
            " ORDER BY number LIMIT 1",
            (self.clock(),),
        ).fetchone()
        rows = [row for row in (waiting, lost) if row is not None]
        return min(rows, key=lambda row: int(row["number"]), default=None)

    def may_run(self, db: sqlite3.Connection, row: sqlite3.Row) -> bool:
        """End a job whose worker is gone if nobody wants it any more or it took too many; True if it can run."""
        if row["cancelling"]:
            self.end(db, row["number"], "cancelled", None)
            return False
        if row["attempts"] >= MOST_ATTEMPTS:
            self.end(db, row["number"], "failed", LOST)
            return False
        return True

    def beat(self, claim: Claim, seconds: float) -> Literal["go on", "cancel", "lost"]:
        """See JobQueue."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return "lost"
            db.execute("UPDATE jobs SET lease = ? WHERE number = ?", (self.clock() + seconds, row["number"]))
            return "cancel" if row["cancelling"] else "go on"

    def progress(self, claim: Claim, bounds: JobBounds) -> None:
        """See JobQueue."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return
            db.execute("UPDATE jobs SET bounds = ? WHERE number = ?", (bounds.canonical(), row["number"]))
            self.tell(db, row["number"], MOST_EVENTS)

    def finish(self, claim: Claim, state: State, problem: JobProblem | None = None) -> bool:
        """See JobQueue."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return False
            if state == "cancelled" and not row["cancelling"]:
                self.wait_again(db, row["number"])
            else:
                self.end(db, row["number"], state, problem)
            return True

    def give_back(self, claim: Claim, blameless: bool = True) -> bool:
        """See JobQueue. A blameless attempt does not count."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return False
            less = 1 if blameless else 0
            db.execute("UPDATE jobs SET attempts = attempts - ? WHERE number = ?", (less, row["number"]))
            if blameless or self.may_run(db, row):
                self.wait_again(db, row["number"])
            return True

    def orphans(self, gone: Callable[[str], bool]) -> int:
        """See JobQueue. The attempts do not count: a solve runs apart from its worker, and cannot have killed it."""
        with self.writing() as db:
            rows = db.execute("SELECT * FROM jobs WHERE state = 'running' ORDER BY number").fetchall()
            found = [row for row in rows if gone(row["worker"])]
            for row in found:
                db.execute("UPDATE jobs SET attempts = attempts - 1 WHERE number = ?", (row["number"],))
                if self.may_run(db, self.row(db, row["number"])):
                    self.wait_again(db, row["number"])
            return len(found)

    def forget(self, before: float) -> int:
        """See JobQueue."""
        with self.writing() as db:
            old = "state IN ('done', 'failed', 'cancelled') AND ended < ?"
            db.execute(f"DELETE FROM events WHERE job IN (SELECT number FROM jobs WHERE {old})", (before,))
            forgotten = db.execute(f"DELETE FROM jobs WHERE {old}", (before,)).rowcount
            used = "SELECT machine_digest FROM jobs WHERE state IN ('queued', 'running')"
            used += f" UNION SELECT machine_digest FROM jobs INDEXED BY kept WHERE {KEPT}"
            db.execute(f"DELETE FROM machines WHERE digest NOT IN ({used})")
            return forgotten

    def close(self) -> None:
        """See JobQueue."""
        self.database.close()

    # -- inside a transaction

    def row(self, db: sqlite3.Connection, number: int) -> sqlite3.Row:
        """The row of a job that is there."""
        row: sqlite3.Row = db.execute("SELECT * FROM jobs WHERE number = ?", (number,)).fetchone()
        return row

    def mine(self, db: sqlite3.Connection, claim: Claim) -> sqlite3.Row | None:
        """The row of a claim that still holds."""
        row: sqlite3.Row | None = db.execute(
            "SELECT * FROM jobs WHERE id = ? AND state = 'running' AND attempts = ?", (claim.job.id, claim.attempt)
        ).fetchone()
        return row

    def end(self, db: sqlite3.Connection, number: int, state: State, problem: JobProblem | None) -> None:
        """Write down how a job ended."""
        db.execute(
            "UPDATE jobs SET state = ?, problem = ?, ended = ?, worker = NULL, lease = NULL, cancelling = 0,"
            " document = CASE WHEN ? THEN '' ELSE document END WHERE number = ?",
            (state, None if problem is None else problem.canonical(), self.clock(), state == "done", number),
        )
        too_many = f"SELECT number FROM jobs INDEXED BY kept WHERE {KEPT} ORDER BY ended DESC LIMIT -1 OFFSET ?"
        db.execute(f"UPDATE jobs SET document = '' WHERE number IN ({too_many})", (MOST_KEPT,))
        self.tell(db, number)

    def wait_again(self, db: sqlite3.Connection, number: int) -> None:
        """From running back to queued."""
        db.execute("UPDATE jobs SET state = 'queued', worker = NULL, lease = NULL WHERE number = ?", (number,))
        self.tell(db, number)

    def tell(self, db: sqlite3.Connection, number: int, most: int | None = None) -> Job:
        """Add the job as it is now to its events, unless it has `most` already."""
        job = job_of(self.row(db, number))
        (last,) = db.execute("SELECT coalesce(max(sequence), 0) FROM events WHERE job = ?", (number,)).fetchone()
        if most is None or last < most:
            db.execute("INSERT INTO events VALUES (?, ?, ?)", (number, last + 1, job.canonical()))
        return job


def unavailable(path: str, why: str, hint: str = "") -> QueueUnavailable:
    """What cannot be done with the queue's file, and why."""
    return QueueUnavailable(f"the job queue {path}: {why}")


def job_of(row: sqlite3.Row) -> Job:
    """A row as a job."""
    return Job(
        id=row["id"],
        key=row["key"],
        state=row["state"],
        kernel=row["kernel"],
        spec=row["spec"],
        machine=row["machine"],
        created=utc(row["created"]),
        started=None if row["started"] is None else utc(row["started"]),
        ended=None if row["ended"] is None else utc(row["ended"]),
        attempts=row["attempts"],
        bounds=None if row["bounds"] is None else JobBounds.parse(row["bounds"]),
        problem=None if row["problem"] is None else JobProblem.parse(row["problem"]),
    )


def utc(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
