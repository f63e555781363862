"""The job queue in one SQLite file: nothing to install, survives kill -9 of everybody who uses it."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from twill.store.database import Database
from twill.store.session import SqlSession

from .queue import QueueUnavailable
from .queue_sql import SqlQueue

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

FAIR_SHARES = """
ALTER TABLE jobs ADD COLUMN token INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN rank REAL NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN version TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN trace TEXT NOT NULL DEFAULT '';
CREATE INDEX waiting ON jobs (version, priority DESC, rank, number) WHERE state = 'queued';
CREATE INDEX begun ON jobs (priority, rank) WHERE started IS NOT NULL;
CREATE INDEX by_client ON jobs (client, priority, rank);
DROP INDEX kept;
CREATE INDEX kept ON jobs (ended) WHERE document <> '' AND state IN ('failed', 'cancelled');
CREATE TABLE audit (
  number INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL,
  client TEXT NOT NULL, action TEXT NOT NULL, subject TEXT NOT NULL
);
"""

EDITIONS = tuple(tuple(filter(str.strip, script.split(";\n"))) for script in (FIRST, MACHINES_ONCE, FAIR_SHARES))
"""Statements from one edition of the file to the next. A job of the first one has its machine in its document."""

PATIENCE = 15.0  # seconds to wait for another process that writes


class SqliteQueue(SqlQueue):
    """See `server.queue.JobQueue`. `clock`: seconds since the epoch, for tests."""

    database: Database

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        super().__init__(
            Database(path, EDITIONS, PATIENCE, durable=True, application=0, refusal=unavailable, rows=sqlite3.Row)
        )
        self.clock = clock
        if self.database.access:
            raise unavailable(str(path), "it can only be read")

    def now(self, db: SqlSession) -> float:
        """See SqlQueue."""
        return self.clock()

    def damage(self) -> str:
        """See JobQueue."""
        try:
            with self.reading() as db:
                found = [row[0] for row in db.execute("PRAGMA quick_check(1)").fetchall()]
        except QueueUnavailable as error:
            return str(error)
        return "" if found == ["ok"] else f"the job queue: it is damaged: {found[0]}"


def unavailable(path: str, why: str, hint: str = "") -> QueueUnavailable:
    """What cannot be done with the queue's file, and why."""
    return QueueUnavailable(f"the job queue {path}: {why}")
