"""Every kind of store with tables, empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.postgres import server
from twill.store.postgres import PostgresStore
from twill.store.sql import SqlStore
from twill.store.sqlite import SqliteStore

Open = Callable[..., SqlStore]


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the same store once more, as another process does."""
    stores: list[SqlStore] = []
    url = server().fresh() if request.param == "postgres" else ""

    def open_it(limit: int = 2**30) -> SqlStore:
        store = PostgresStore(url, limit=limit) if url else SqliteStore(tmp_path / "store.sqlite3", limit=limit)
        stores.append(store)
        return store

    yield open_it
    for store in stores:
        store.close()


@pytest.fixture
def anywhere(opened: Open) -> SqlStore:
    return opened()
