"""SQLite for many threads: a connection for each, one writer at a time, nothing lost when killed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 15.0  # seconds to wait for another process that writes


class Database:
    """A file in WAL mode, which readers never wait for; every transaction is on the disk when it returns."""

    def __init__(self, path: Path, schema: str) -> None:
        self.path = path
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._writing = threading.Lock()  # fairer and faster among our own threads than SQLite's own waiting
        with self.write() as connection:
            for statement in filter(str.strip, schema.split(";\n")):
                connection.execute(statement)

    def connection(self) -> sqlite3.Connection:
        """The connection of the calling thread, in autocommit mode."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            # Only its own thread uses it; `close`, when all are done, is the exception.
            found = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            found.row_factory = sqlite3.Row
            found.execute("PRAGMA journal_mode = WAL")
            found.execute("PRAGMA synchronous = FULL")
            self._local.connection = found
            self._all.append(found)
        return found

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of the block or, if it raises, nothing of it."""
        with self._writing:
            connection = self.connection()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close every thread's connection."""
        for connection in self._all:
            connection.close()
        self._all.clear()
