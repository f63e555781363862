"""Where jobs and schedules are: SQLite files in a directory, or PostgreSQL by its URL. Only URLs load its libraries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twill.exc import StoreUnavailable

from .queue import QueueUnavailable
from .queue_sqlite import SqliteQueue

if TYPE_CHECKING:
    from twill.store.interface import ServedStore

    from .queue import JobQueue

SCHEMES = ("postgresql://", "postgres://")


def is_url(place: str) -> bool:
    """Whether a place is a database's URL, not a directory."""
    return place.startswith(SCHEMES)


def open_places(store: str, queue: str, objects: str = "") -> tuple[ServedStore, JobQueue]:
    """Store and queue. store: a directory for both, or a URL. queue: a URL ("": where the store is).

    objects: the URL of object storage for large artifacts ("": they are in the store). Raises StoreUnavailable.
    """
    queue = queue or store
    if is_url(store) != is_url(queue):
        hint = "--queue and --store both as postgresql://..., or --store DIRECTORY for both"
        raise StoreUnavailable(store, "workers of a queue in a database reach a store in a database alone", hint)
    if not is_url(store):
        if objects:
            raise StoreUnavailable(store, "a directory holds its artifacts itself", "no --objects")
        return open_directory(Path(store))
    from twill.store.postgres import PostgresStore

    from .queue_postgres import PostgresQueue

    beside = None
    if objects:
        from twill.store.objects import Objects

        beside = Objects(objects)
    schedules = PostgresStore(store, beside)
    try:
        return schedules, PostgresQueue(queue)
    except QueueUnavailable as error:
        schedules.close()
        place, _, why = str(error).partition(": ")
        raise StoreUnavailable(place, why, "a database that can be reached") from None


def open_directory(data: Path) -> tuple[ServedStore, JobQueue]:
    """Both in SQLite files of a directory, which is made if need be. Raises StoreUnavailable."""
    from twill.store.sqlite import SqliteStore

    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnavailable(str(data), error.strerror or str(error)) from None
    try:
        queue = SqliteQueue(data / "jobs.sqlite3")
    except QueueUnavailable as error:
        raise StoreUnavailable(str(data), str(error), "another --store") from None
    return SqliteStore(data / "schedules.sqlite3"), queue
