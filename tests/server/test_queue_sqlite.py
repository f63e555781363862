"""Promises of the queue in a file."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.queue import QueueUnavailable
from server.queue_sqlite import FIRST, SqliteQueue
from tests.server.queues import MANY, request, submit
from twill.store.database import Database


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[SqliteQueue]:
    opened = SqliteQueue(tmp_path / "jobs.sqlite")
    yield opened
    opened.close()


def test_a_transaction_that_fails_leaves_nothing(queue: SqliteQueue) -> None:
    with pytest.raises(RuntimeError), queue.writing() as db:
        db.execute("DELETE FROM jobs")
        raise RuntimeError
    with pytest.raises(RuntimeError), queue.writing() as db:
        queue.add(db, request(), "queued")
        raise RuntimeError
    assert queue.recent(9) == () and queue.trouble() == ""


def test_a_claim_reads_one_job_and_no_documents_of_others(queue: SqliteQueue) -> None:
    """The statements of a claim look into an index, whatever waits and has ended."""
    for number in range(50):
        ended = queue.submit(request(f"e{number}"), MANY)[0]
        queue.cancel(ended.id)
        submit(queue, f"w{number}")
    read: list[str] = []
    with queue.database.reading() as connection:
        connection.set_trace_callback(read.append)
    claim = queue.claim("worker", 60)
    connection.set_trace_callback(None)
    assert claim is not None and claim.job.key == "w0" * 64
    questions = [statement for statement in read if statement.startswith("SELECT") and "FROM jobs" in statement]
    assert len(questions) <= 8
    for question in questions:
        plan = " ".join(row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}").fetchall())
        assert "SEARCH" in plan and "SCAN" not in plan, (question, plan)
        # Where the order is not the index's, all that wait are read and sorted; those at work are few.
        assert "TEMP B-TREE" not in plan or "state = 'running'" in question, (question, plan)


def test_a_file_of_the_first_edition_is_brought_up_to_date_with_its_jobs(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(FIRST)
    connection.execute(
        "INSERT INTO jobs (id, key, state, kernel, spec, machine, client, document, created) VALUES"
        " ('i', 'k', 'queued', 'kernel', 's', 'h100', 'me', '{}', 1.0)"
    )
    connection.commit()
    connection.close()
    for _ in range(2):
        queue = SqliteQueue(path)
        (job,) = queue.recent(9)
        assert job.id == "i"
        queue.close()
    queue = SqliteQueue(path)
    claim = queue.claim("worker", 60)
    assert claim is not None and (claim.document, claim.machine) == ("{}", "")
    queue.close()


def test_a_file_of_a_later_edition_is_refused(queue: SqliteQueue) -> None:
    with queue.reading() as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(QueueUnavailable, match="has schema 99, this version of Twill reads up to 3"):
        SqliteQueue(queue.database.path)


def test_a_full_disk_is_told_and_what_was_accepted_stays(queue: SqliteQueue) -> None:
    retained = submit(queue)
    with queue.reading() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite then says what it says of a full disk
    with pytest.raises(QueueUnavailable, match="full"):
        queue.submit(dataclasses.replace(request("b"), document="x" * 10**6), MANY)
    assert queue.trouble() == "" and queue.recent(9) == (retained,)


def test_a_queue_that_cannot_be_written_says_why(queue: SqliteQueue) -> None:
    with queue.reading() as db:
        db.execute("PRAGMA query_only = 1")
    assert "readonly" in queue.trouble()


def test_a_damaged_file_is_told(queue: SqliteQueue) -> None:
    for number in range(200):
        submit(queue, f"k{number}")
    assert queue.damage() == ""
    path = queue.database.path
    with queue.reading() as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))
    queue.close()
    with contextlib.suppress(QueueUnavailable):  # the first page is whole
        queue = SqliteQueue(path)
    assert "job queue" in queue.damage()
    with pytest.raises(QueueUnavailable):
        for number in range(200):
            queue.submit(request(f"n{number}"), MANY)


def test_the_file_is_its_owners_alone(queue: SqliteQueue) -> None:
    submit(queue)
    for path in queue.database.path.parent.glob("jobs.sqlite*"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_commit_is_on_the_disk_when_it_returns(queue: SqliteQueue) -> None:
    with queue.reading() as db:
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_a_queue_that_may_only_be_read_is_refused(queue: SqliteQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root may write everything
    monkeypatch.setattr(Database, "only_readable", lambda self: True)
    with pytest.raises(QueueUnavailable, match="it can only be read"):
        SqliteQueue(queue.database.path)
