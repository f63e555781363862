"""Promises of the store in PostgreSQL, and of what is too large for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.postgres import PostgresServer, server
from tests.stores import entry_of
from twill.exc import StoreUnavailable
from twill.store.objects import LARGE, Objects
from twill.store.postgres import PostgresStore

BIG = bytes(range(256)) * (LARGE // 128)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[bool], PostgresStore]]:
    """Opens a store, with object storage in a directory or without."""
    url, stores = server().fresh(), []

    def open_it(beside: bool = True) -> PostgresStore:
        stores.append(PostgresStore(url, Objects(f"file://{tmp_path}/objects") if beside else None))
        return stores[-1]

    yield open_it
    for store in stores:
        store.close()


def objects_in(directory: Path) -> list[Path]:
    return [path for path in (directory / "objects").rglob("*") if path.is_file()]


def test_a_large_artifact_is_an_object_and_a_small_one_a_row(
    opened: Callable[..., PostgresStore], tmp_path: Path
) -> None:
    store = opened()
    store.put_artifact("k", "small", b"x" * LARGE)
    assert objects_in(tmp_path) == []
    store.put_artifact("k", "large", BIG)
    assert [path.read_bytes() for path in objects_in(tmp_path)] == [BIG]
    other = opened()
    assert other.get_artifact("k", "large") == BIG and other.get_artifact("k", "small") == b"x" * LARGE
    store.put_artifact("k", "empty", b"")
    assert other.get_artifact("k", "empty") == b""


def test_an_object_that_is_not_what_was_stored_is_never_given_out(
    opened: Callable[..., PostgresStore], tmp_path: Path
) -> None:
    store = opened()
    store.put_artifact("k", "large", BIG)
    objects_in(tmp_path)[0].write_bytes(BIG[::-1])
    assert store.get_artifact("k", "large") is None
    store.put_artifact("k", "large", BIG)
    objects_in(tmp_path)[0].unlink()
    assert store.get_artifact("k", "large") is None
    store.put_artifact("k", "large", BIG)
    assert opened(False).get_artifact("k", "large") is None  # it cannot look, and leaves everything as it is
    assert store.get_artifact("k", "large") == BIG


def test_objects_go_with_their_entry(opened: Callable[..., PostgresStore], tmp_path: Path) -> None:
    store = opened()
    store.keep(entry_of(), H100)
    for key in (entry_of().key, "other"):
        store.put_artifact(key, "large", BIG)
    assert store.delete(entry_of().key)
    assert [path.parent.name for path in objects_in(tmp_path)] == ["other"]


def test_what_is_no_object_storage_is_refused() -> None:
    with pytest.raises(StoreUnavailable, match="no address of object storage"):
        Objects("/tmp/somewhere")


def test_a_newer_schema_is_refused(opened: Callable[..., PostgresStore]) -> None:
    store = opened()
    with store.writing() as c:
        c.execute("UPDATE twill_editions SET edition = 99 WHERE part = 'schedules'")
    with pytest.raises(StoreUnavailable, match="its schedules have schema 99, and this Twill knows up to 1"):
        opened()


def test_a_database_that_is_down_is_told_and_what_was_kept_is_there_when_it_is_back() -> None:
    own = PostgresServer()
    try:
        store = PostgresStore(own.fresh())
        store.keep(entry_of(), H100)
        own.stop()
        with pytest.raises(StoreUnavailable, match="127.0.0.1"):
            store.get(entry_of().key)
        own.start()
        assert store.get(entry_of().key) == entry_of()
        store.close()
    finally:
        own.remove()
