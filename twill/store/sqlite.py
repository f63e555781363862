"""The second level: one SQLite file, shared by every process of a user."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from twill.store.database import Database
from twill.store.sql import Session, SqlStore
from twill.store.tables import MIGRATIONS

LIMIT = 2**30  # bytes; some thirty thousand schedules with their graphs
WAIT = 10.0  # seconds for another writer


class SqliteStore(SqlStore):
    """A `ScheduleStore` in the file `path`, which is made if needed.

    limit: bytes of schedules, graphs and artifacts; the least recently used give way. wait: seconds to wait
    for another writer. Raises StoreUnavailable.
    """

    def __init__(self, path: str | Path, *, limit: int = LIMIT, wait: float = WAIT) -> None:
        super().__init__(str(path), limit)
        self.path = Path(path)
        self.database = Database(self.path, MIGRATIONS, wait)

    def reading(self) -> AbstractContextManager[Session]:
        """See SqlStore."""
        return self.database.reading()

    def writing(self) -> AbstractContextManager[Session]:
        """See SqlStore."""
        return self.database.writing()

    def taken(self, c: Session) -> int:
        """See SqlStore."""
        question = "SELECT sum(bytes) FROM totals WHERE name IN ('schedules', 'artifacts')"
        return int(c.execute(question).fetchone()[0])

    def close_database(self) -> None:
        """See SqlStore."""
        self.database.close()
