"""SQLite for many threads: a connection for each, one writer at a time, nothing lost when killed."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from .queue import QueueUnavailable

PATIENCE = 15.0  # seconds to wait for another process that writes
T = TypeVar("T")

OWNERS = 0o600  # mode of the file; what SQLite puts beside it has the same


class Connection(sqlite3.Connection):
    """One whose refusals (a full disk, a damaged file) are QueueUnavailable."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As SQLite's. Raises QueueUnavailable."""
        return reported(lambda: self.cursor(Cursor).execute(sql, parameters))


class Cursor(sqlite3.Cursor):
    """Rows are read when they are asked for, so that may be refused as well."""

    def fetchone(self) -> Any:
        """As SQLite's. Raises QueueUnavailable."""
        return reported(super().fetchone)

    def fetchall(self) -> list[Any]:
        """As SQLite's. Raises QueueUnavailable."""
        return reported(super().fetchall)

    def __next__(self) -> Any:
        return reported(super().__next__)


def reported(what: Callable[[], T]) -> T:
    """What it gives back; SQLite's refusals as QueueUnavailable."""
    try:
        return what()
    except sqlite3.ProgrammingError:
        raise  # a mistake of ours
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise QueueUnavailable(f"the job queue: {error}") from error


class Database:
    """A file in WAL mode, which readers never wait for; every transaction is on the disk when it returns.

    editions: statements that bring an empty file to the first edition, that to the second, and so on. Raises
    QueueUnavailable, also for a file of a later edition.
    """

    def __init__(self, path: Path, editions: Sequence[str]) -> None:
        self.path = path
        self._local = threading.local()
        self._all: list[sqlite3.Connection] = []
        self._writing = threading.Lock()  # fairer and faster among our own threads than SQLite's own waiting
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, OWNERS))
        except OSError as error:
            raise QueueUnavailable(f"the job queue {path}: {error.strerror or error}") from None
        with self.write() as connection:
            (edition,) = connection.execute("PRAGMA user_version").fetchone()
            if edition > len(editions):
                raise QueueUnavailable(f"the job queue {path}: it is of a newer Twill (edition {edition})")
            for number in range(edition, len(editions)):
                for statement in filter(str.strip, editions[number].split(";\n")):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {len(editions)}")

    def connection(self) -> sqlite3.Connection:
        """The connection of the calling thread, in autocommit mode."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            # Only its own thread uses it; `close`, when all are done, is the exception.
            found = reported(
                lambda: sqlite3.connect(
                    self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False, factory=Connection
                )
            )
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
                with suppress(sqlite3.Error, QueueUnavailable):
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Close every thread's connection."""
        for connection in self._all:
            connection.close()
        self._all.clear()
