"""What the statements of a store need of a database: a connection as SQLite and PostgreSQL both have it."""

from __future__ import annotations

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
