"""PostgreSQL for many threads: a pool of connections, statements as SQLite's (`?`), editions of a schema.

Store and queue each have a `Postgres` of their own, possibly in one database. What the database refuses, or does not
answer in time, is one error of the caller's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import RowFactory, tuple_row
from psycopg_pool import ConnectionPool

SCHEMES = ("postgresql://", "postgres://")
WAIT = 5.0  # seconds for a connection
CONNECTIONS = 10  # of one pool
# A statement that takes longer is given up; so is the transaction of a process that stands still, with its locks.
LIMITS = "SET statement_timeout = '15s'; SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '30s'"
# A database whose host is gone without a word is noticed.
NOTICED = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}

EDITIONS = "CREATE TABLE IF NOT EXISTS twill_editions (part TEXT PRIMARY KEY, edition INTEGER NOT NULL)"


class PgSession:
    """A connection that takes statements in the form of SQLite's."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        """One statement; `?` stands for a value."""
        # A statement is a text of ours, never of a user; psycopg's type asks for a literal.
        return self.connection.execute(statement.replace("?", "%s").encode(), values)


class Postgres:
    """A database, brought to the newest edition of one part of its schema.

    part: the name under which the edition is kept. editions: the statements from each edition to the next, the first
    one from nothing. failure: makes the error from its words. rows: what a row is. Raises what `failure` makes, also
    for a schema that is newer than the editions.
    """

    def __init__(
        self,
        url: str,
        part: str,
        editions: Sequence[Sequence[str]],
        failure: Callable[[str], Exception],
        rows: RowFactory[Any] = tuple_row,
    ) -> None:
        self.url = url
        self.failure = failure
        self.place = ""
        with self.reporting():
            self.place = place_of(url)
            with self.connected() as connection:
                prepare(PgSession(connection), part, editions, self.refused)
        self.pool = ConnectionPool(
            url,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=WAIT,
            kwargs={**NOTICED, "autocommit": True, "row_factory": rows, "application_name": f"twill {part}"},
            configure=limited,
            check=ConnectionPool.check_connection,  # so that a database that was restarted is not noticed
            open=True,
        )

    def connected(self) -> psycopg.Connection[Any]:
        """A connection beside the pool's, in autocommit mode."""
        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    @contextmanager
    def reading(self) -> Iterator[PgSession]:
        """A connection for single statements."""
        with self.reporting(), self.pool.connection() as connection:
            yield PgSession(connection)

    @contextmanager
    def writing(self) -> Iterator[PgSession]:
        """A connection in a transaction that is committed whole at the end, or not at all."""
        with self.reporting(), self.pool.connection() as connection, connection.transaction():
            yield PgSession(connection)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """What the database refuses, as the caller's error."""
        try:
            yield
        except psycopg.Error as error:
            raise self.refused(" ".join(str(error).split())) from error

    def refused(self, why: str) -> Exception:
        """The caller's error, with the place in front, whose URL may hold a password."""
        return self.failure(f"{self.place or 'the address of the database'}: {why}")

    def close(self) -> None:
        """Close every connection."""
        self.pool.close()


def limited(connection: psycopg.Connection[Any]) -> None:
    """What every connection of a pool is told first."""
    for statement in LIMITS.split("; "):
        connection.execute(statement.encode())


def place_of(url: str) -> str:
    """A database as people may be told of it: without user and password."""
    known = conninfo_to_dict(url)
    return f"database {known.get('dbname') or 'postgres'} at {known.get('host') or 'localhost'}"


def prepare(db: PgSession, part: str, editions: Sequence[Sequence[str]], refused: Callable[[str], Exception]) -> None:
    """Bring a part of the schema to the newest edition, in one transaction; many processes may begin at once."""
    with db.connection.transaction():
        # Only for whoever else is here: it ends with the transaction, also when its process is killed.
        db.execute("SELECT pg_advisory_xact_lock(hashtext('twill_editions'))")
        if db.execute("SELECT to_regclass('twill_editions')").fetchone() == (None,):
            db.execute(EDITIONS)
        row = db.execute("SELECT edition FROM twill_editions WHERE part = ?", (part,)).fetchone()
        edition = 0 if row is None else int(row[0])
        if edition > len(editions):
            raise refused(
                f"its {part} have schema {edition}, and this Twill knows up to {len(editions)}: a newer Twill"
            )
        if edition == len(editions):
            return
        for statements in editions[edition:]:
            for statement in statements:
                db.execute(statement)
        keep = "INSERT INTO twill_editions VALUES (?, ?) ON CONFLICT (part) DO UPDATE SET edition = excluded.edition"
        db.execute(keep, (part, len(editions)))
