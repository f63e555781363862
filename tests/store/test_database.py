"""Promises of the file itself: its schema, its editions, and what it says when it cannot be used."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kernels import H100
from tests.stores import entry_of
from twill.exc import StoreUnavailable
from twill.store.database import APPLICATION, Database, number
from twill.store.sqlite import SqliteStore
from twill.store.tables import MIGRATIONS

FIRST = ("CREATE TABLE a (x INTEGER)", "INSERT INTO a VALUES (1)")
SECOND = ("ALTER TABLE a ADD COLUMN y INTEGER DEFAULT 7",)


def rows(path: Path) -> list[tuple[int, ...]]:
    """What is in the table of these tests."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT * FROM a").fetchall()
    connection.close()
    return found


def test_a_new_file_is_in_wal_mode_and_of_the_newest_edition(tmp_path: Path) -> None:
    database = Database(tmp_path / "d", [FIRST, SECOND], 1.0)
    with database.reading() as c:
        assert c.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert c.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert (number(c, "PRAGMA application_id"), number(c, "PRAGMA user_version")) == (APPLICATION, 2)
    database.close()
    assert rows(tmp_path / "d") == [(1, 7)]


def test_an_older_edition_is_brought_up_and_keeps_what_it_has(tmp_path: Path) -> None:
    Database(tmp_path / "d", [FIRST], 1.0).close()
    Database(tmp_path / "d", [FIRST, SECOND], 1.0).close()
    Database(tmp_path / "d", [FIRST, SECOND], 1.0).close()
    assert rows(tmp_path / "d") == [(1, 7)]


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    Database(tmp_path / "d", [FIRST], 1.0).close()
    with pytest.raises(StoreUnavailable, match="no such table: b"):
        Database(tmp_path / "d", [FIRST, (*SECOND, "INSERT INTO b VALUES (1)")], 1.0)
    assert rows(tmp_path / "d") == [(1,)]
    Database(tmp_path / "d", [FIRST], 1.0).close()


def test_a_newer_edition_is_not_touched(tmp_path: Path) -> None:
    Database(tmp_path / "d", [FIRST, SECOND], 1.0).close()
    with pytest.raises(StoreUnavailable, match="it has schema 2, this version of Twill reads up to 1"):
        Database(tmp_path / "d", [FIRST], 1.0)


def test_the_database_of_another_program_is_not_touched(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "d")
    connection.execute("CREATE TABLE b (x)")
    connection.close()
    before = (tmp_path / "d").read_bytes()
    with pytest.raises(StoreUnavailable, match="the database of another program"):
        SqliteStore(tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == before


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at " * 100, os.urandom(5000)])
def test_what_is_no_database_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "d").write_bytes(content)
    with pytest.raises(StoreUnavailable, match="not a database\n  instead: move the file away"):
        SqliteStore(tmp_path / "d")
    assert (tmp_path / "d").read_bytes() == content


def test_a_damaged_page_is_said(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "d")
    for n in range(50):
        store.put_artifact("k", f"{n}", b"x" * 3000)
    store.close()
    data = bytearray((tmp_path / "d").read_bytes())
    for page in range(4096, len(data), 4096):
        data[page : page + 64] = b"\xff" * 64
    (tmp_path / "d").write_bytes(bytes(data))
    with pytest.raises(StoreUnavailable):
        broken = SqliteStore(tmp_path / "d")
        broken.get_artifact("k", "7")


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="store .*/file/d: "):
        SqliteStore(tmp_path / "file" / "d")
    with pytest.raises(StoreUnavailable, match="Is a directory"):
        SqliteStore(tmp_path)


def test_a_transaction_is_whole_or_not_there(tmp_path: Path) -> None:
    database = Database(tmp_path / "d", [FIRST], 1.0)
    with pytest.raises(ZeroDivisionError), database.writing() as c:
        c.execute("INSERT INTO a VALUES (2)")
        raise ZeroDivisionError
    assert rows(tmp_path / "d") == [(1,)]
    with pytest.raises(StoreUnavailable, match="no such table"), database.writing() as c:
        c.execute("INSERT INTO a VALUES (2)")
        c.execute("INSERT INTO b VALUES (2)")
    assert rows(tmp_path / "d") == [(1,)]
    with database.writing() as c:
        c.execute("INSERT INTO a VALUES (2)")
    assert rows(tmp_path / "d") == [(1,), (2,)]
    database.close()


def test_another_writer_is_waited_for_only_so_long(tmp_path: Path) -> None:
    database = Database(tmp_path / "d", [FIRST], 0.05)
    with database.writing(), pytest.raises(StoreUnavailable, match="locked"), database.writing():
        pass
    database.close()


def test_connections_are_used_again_and_closed_at_the_end(tmp_path: Path) -> None:
    database = Database(tmp_path / "d", [FIRST], 1.0)
    for _ in range(5):
        with database.reading() as c:
            assert number(c, "SELECT x FROM a") == 1
    assert len(database.idle) == 1
    with database.reading():
        database.close()
    assert database.idle == []
    with pytest.raises(StoreUnavailable, match="closed"), database.reading():
        pass


def test_threads_that_open_the_same_new_file_all_get_it(tmp_path: Path) -> None:
    stores: list[SqliteStore] = []
    threads = [threading.Thread(target=lambda: stores.append(SqliteStore(tmp_path / "d"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 8
    assert len(MIGRATIONS) >= 1
    for store in stores:
        store.close()


# -- a file that may only be read


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user whom permissions bind."""
    user = os.geteuid()
    if not user:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A directory that everybody may read, and its owner alone write."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    place.chmod(0o755)
    shutil.rmtree(place)


def read_only(path: Path) -> None:
    """Let nobody write a file or its directory."""
    for part in path.parent.glob("*"):
        part.chmod(0o444)
    path.parent.chmod(0o555)


def test_a_store_that_may_only_be_read_is_read(shelf: Path) -> None:
    path = shelf / "s # %41?.sqlite3"
    store = SqliteStore(path)
    store.keep(entry_of(), H100)
    store.put_artifact(entry_of().key, "launch", b"code")
    store.close()
    before = path.read_bytes()
    read_only(path)
    with unprivileged():
        only = SqliteStore(path)
        assert only.get(entry_of().key) == entry_of()
        assert only.get_artifact(entry_of().key, "launch") == b"code"
        assert [one.key for one in only.find()] == [entry_of().key]
        with pytest.raises(StoreUnavailable, match="readonly"):
            only.put_artifact("k", "a", b"1")
        with pytest.raises(StoreUnavailable, match="readonly"):
            only.delete(entry_of().key)
        only.close()
    assert path.read_bytes() == before and [one.name for one in shelf.iterdir()] == [path.name]


def test_a_store_that_another_user_writes_is_read_beside_it(shelf: Path) -> None:
    path = shelf / "s"
    writer = SqliteStore(path)
    writer.keep(entry_of(), H100)
    read_only(path)
    with unprivileged():
        only = SqliteStore(path)
        assert only.get(entry_of().key) == entry_of()
        only.close()
    shelf.chmod(0o755)
    writer.close()


def test_what_may_only_be_read_and_is_of_an_older_edition_is_refused(shelf: Path) -> None:
    path = shelf / "s"
    Database(path, MIGRATIONS, 1.0).close()
    read_only(path)
    with unprivileged(), pytest.raises(StoreUnavailable, match="older schema"):
        Database(path, (*MIGRATIONS, ("SELECT 1",)), 1.0)


def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "deep" / "s")
    store.keep(entry_of(), H100)
    assert all(one.stat().st_mode & 0o077 == 0 for one in (tmp_path / "deep").glob("s*"))
    store.close()
