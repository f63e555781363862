"""One SQLite file shared by processes and threads: opening, connections, transactions, editions of its schema.

The file is in WAL mode: readers do not wait for a writer, and what a killed process had not committed is
not there. The store of schedules and the service's job queue are such files.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from twill.exc import StoreUnavailable

APPLICATION = 0x5477696C  # "Twil", so that no other program's database is taken for a store
OWNERS = 0o600  # mode of the file; what SQLite puts beside it has the same
PAUSE = 0.01  # seconds between attempts to change the journal mode, for which SQLite does not wait itself

Migration = Sequence[str]
"""The statements that take the schema from one edition to the next."""


class Database:
    """A file at `path` of the newest edition of `migrations`. wait: seconds to wait for another writer.

    It is made for its owner alone. One that this process may only read is read, and every write raises.
    durable: every commit is on the disk when it returns; otherwise a crash of the operating system can take back the
    last of them, and leaves the file whole. application: the number by which the file is known to be ours.
    refusal: makes what is raised, here and in every transaction, of the path, what is wrong and what to do. rows: what
    a row is (None: a tuple).
    """

    def __init__(
        self, path: Path, migrations: Sequence[Migration], wait: float, *, durable: bool = False,
        application: int = APPLICATION, refusal: Callable[..., Exception] = StoreUnavailable,
        rows: type[sqlite3.Row] | None = None,
    ) -> None:  # fmt: skip
        self.path = path
        self.migrations = migrations
        self.wait = wait
        self.synchronous = "FULL" if durable else "NORMAL"
        self.application = application
        self.refusal = refusal
        self.rows = rows
        self.turn = threading.Lock()  # fairer and faster among threads than SQLite's own waiting
        self.lock = threading.Lock()
        self.idle: list[sqlite3.Connection] = []
        self.process = os.getpid()
        self.strangers: list[sqlite3.Connection] = []  # of the process that this one was forked from: never touched
        self.closed = False
        weakref.finalize(self, close_all, self.idle, self.process)
        self.access = ""  # how the file is opened, as SQLite's URIs say it; "": to read and write
        with self.reporting():
            try:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT, OWNERS))
                with self.connection() as connection:
                    self.prepare(connection)
            except (sqlite3.OperationalError, OSError):
                if not self.only_readable():
                    raise
                self.open_to_read()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for one SELECT."""
        with self.reporting(), self.connection() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection in a transaction that is committed whole at the end, or not at all."""
        with self.reporting(), self.connection() as connection:
            turn = self.turn
            if not turn.acquire(timeout=self.wait):
                raise sqlite3.OperationalError("database is locked")  # as SQLite says it
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            finally:
                try:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                finally:
                    turn.release()

    def close(self) -> None:
        """Close what is idle, and from now on every connection that is given back."""
        with self.lock:
            self.closed = True
            close_all(self.idle, self.process)

    # -- a file that may only be read

    def only_readable(self) -> bool:
        """Whether the file is there, and may be read but not written by this process."""
        may = partial(os.access, effective_ids=os.access in os.supports_effective_ids)
        writable = may(self.path, os.W_OK) and may(self.path.parent, os.W_OK)
        return self.path.is_file() and may(self.path, os.R_OK) and not writable

    def open_to_read(self) -> None:
        """Open it as it is; refuses another edition.

        SQLite reads a file in WAL mode with the help of two files beside it. Where these are not there and cannot be
        made either, nobody writes the file (who wrote it last has put everything into it), and it is read as one that
        does not change.
        """
        for access in ("mode=ro", "immutable=1"):
            self.access = access
            log = self.path.with_name(f"{self.path.name}-wal")
            if access == "immutable=1" and log.exists() and log.stat().st_size:
                raise self.refusal(str(self.path), "it can only be read, and somebody else is writing it")
            try:
                with self.connection() as connection:
                    edition = self.edition(connection)
            except sqlite3.OperationalError:
                if access == "immutable=1":
                    raise
                continue
            if edition != len(self.migrations):
                why = f"it can only be read, and has the older schema {edition}"
                raise self.refusal(str(self.path), why, "a copy that can be written")
            return

    # -- connections

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection that nobody else uses meanwhile."""
        connection = self.take()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self.give(connection)

    def take(self) -> sqlite3.Connection:
        """An idle connection of this process, or a new one."""
        with self.lock:
            if self.closed:
                raise sqlite3.ProgrammingError("it is closed")
            if self.process != os.getpid():
                self.strangers += self.idle
                self.idle.clear()
                self.turn = threading.Lock()  # the other process may have forked while one of its threads was writing
                self.process = os.getpid()
                weakref.finalize(self, close_all, self.idle, self.process)
            if self.idle:
                return self.idle.pop()
        place = f"{self.path.resolve().as_uri()}?{self.access}" if self.access else str(self.path)
        connection = sqlite3.connect(
            place, timeout=self.wait, isolation_level=None, check_same_thread=False, uri=bool(self.access)
        )
        connection.row_factory = self.rows
        connection.execute(f"PRAGMA synchronous = {self.synchronous}")
        return connection

    def give(self, connection: sqlite3.Connection) -> None:
        """Back to the idle ones."""
        with self.lock:
            if not self.closed:
                self.idle.append(connection)
                return
        connection.close()

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """What SQLite and the operating system refuse, as `refusal` says it."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            # Python's binding fails to decode SQLite's own message where a damaged file is quoted in it.
            damaged = type(error) in (sqlite3.DatabaseError, UnicodeDecodeError)
            hint = "move the file away (nothing in it is lost that cannot be solved again)" if damaged else ""
            raise self.refusal(str(self.path), str(error), *([hint] if hint else [])) from error
        except OSError as error:
            raise self.refusal(str(self.path), error.strerror or str(error)) from error

    # -- the schema

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Bring the file to the newest edition; several processes may do so at once."""
        edition = self.edition(connection)
        if edition == len(self.migrations):
            return
        if edition == 0:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self.write_ahead(connection)
        connection.execute("BEGIN IMMEDIATE")
        try:
            for migration in self.migrations[self.edition(connection) :]:
                for statement in migration:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self.application}")
            connection.execute(f"PRAGMA user_version = {len(self.migrations)}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    def edition(self, connection: sqlite3.Connection) -> int:
        """The file's edition, 0 if it is new; refuses a file that is not ours to write."""
        application, edition, tables = self.snapshot(connection)
        if application != self.application and (application or edition or tables):
            raise self.refusal(str(self.path), "it is the database of another program")
        if edition > len(self.migrations):
            why = f"it has schema {edition}, this version of Twill reads up to {len(self.migrations)}"
            raise self.refusal(str(self.path), why, "a newer Twill, or another place")
        return edition

    def snapshot(self, connection: sqlite3.Connection) -> tuple[int, int, int]:
        """Application, edition and number of tables, all of one moment: somebody else may be making the file."""
        alone = not connection.in_transaction
        if alone:
            connection.execute("BEGIN")
        try:
            return (
                number(connection, "PRAGMA application_id"),
                number(connection, "PRAGMA user_version"),
                number(connection, "SELECT count(*) FROM sqlite_master"),
            )
        finally:
            if alone:
                connection.execute("COMMIT")

    def write_ahead(self, connection: sqlite3.Connection) -> None:
        """Switch to WAL mode, which the file then stays in."""
        end = time.monotonic() + self.wait
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(PAUSE)


def close_all(idle: list[sqlite3.Connection], process: int) -> None:
    """Close the connections of this process; one of another must not be touched (sqlite.org/howtocorrupt.html, 2.6)."""
    while idle and process == os.getpid():
        idle.pop().close()


def number(connection: sqlite3.Connection, question: str) -> int:
    """The one number that answers a question."""
    return int(connection.execute(question).fetchone()[0])
