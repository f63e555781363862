"""Every kind of job queue, empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from server.queue_postgres import PostgresQueue
from server.queue_sql import SqlQueue
from server.queue_sqlite import SqliteQueue
from tests.postgres import server
from tests.server.queues import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgres"])
def again(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Callable[[], SqlQueue]]:
    """Opens the same queue once more, as another process does."""
    opened: list[SqlQueue] = []
    url = server().fresh() if request.param == "postgres" else ""

    def open_it() -> SqlQueue:
        queue = PostgresQueue(url, clock) if url else SqliteQueue(tmp_path / "jobs.sqlite", clock)
        opened.append(queue)
        return queue

    yield open_it
    for queue in opened:
        queue.close()


@pytest.fixture
def queue(again: Callable[[], SqlQueue]) -> SqlQueue:
    return again()


@pytest.fixture
def postgres_url() -> str:
    return server().fresh()


@pytest.fixture
def postgres_queue(postgres_url: str) -> Iterator[PostgresQueue]:
    opened = PostgresQueue(postgres_url)
    yield opened
    opened.close()
