"""What the statements of a store need of a database: a connection as SQLite and PostgreSQL both have it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol


class Rows(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:
        """The next row, a tuple; None if there is no more."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""


class SqlSession(Protocol):
    """A connection: to read, or in a transaction."""

    def execute(self, sql: str, parameters: Any = (), /) -> Rows:
        """One statement; `?` stands for a value."""


class SqlDatabase(Protocol):
    """Where connections come from. What is raised is for whoever made it to say."""

    def reading(self) -> AbstractContextManager[SqlSession]:
        """A connection for single statements."""

    def writing(self) -> AbstractContextManager[SqlSession]:
        """A connection in a transaction that is committed whole at the end, or not at all."""

    def close(self) -> None:
        """Let go of every connection."""
