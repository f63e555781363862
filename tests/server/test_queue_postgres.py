"""Promises of the queue in PostgreSQL: its clock, its news, versions side by side, a database that goes away."""

from __future__ import annotations

import queue as threads_queue
import threading
import time

import pytest

from server.queue import QueueUnavailable
from server.queue_postgres import PostgresQueue
from tests.postgres import PostgresServer
from tests.server.queues import LEASE, MANY, request, submit


def test_leases_are_on_the_databases_clock(postgres_queue: PostgresQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    job = submit(postgres_queue)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    claim = postgres_queue.claim("w", 0.2)
    assert claim is not None and postgres_queue.claim("w", LEASE) is None
    time.sleep(0.3)
    heir = postgres_queue.claim("w", LEASE)
    assert heir is not None and heir.job.id == job.id and postgres_queue.beat(claim, LEASE) == "lost"


def test_whoever_listens_hears_of_every_step_from_every_process(
    postgres_queue: PostgresQueue, postgres_url: str
) -> None:
    heard: threads_queue.Queue[str] = threads_queue.Queue()
    assert postgres_queue.listen(heard.put)
    assert heard.get(timeout=30) == ""  # it listens from now on
    other = PostgresQueue(postgres_url)
    job = submit(other)
    claim = other.claim("w", LEASE)
    assert claim is not None and other.finish(claim, "done")
    listed = [heard.get(timeout=30) for _ in range(3)]
    other.close()
    assert listed == [f"{job.id} {state}" for state in ("queued", "running", "done")]


def test_a_worker_takes_only_jobs_of_its_version(postgres_url: str) -> None:
    old, new = PostgresQueue(postgres_url, version="1"), PostgresQueue(postgres_url, version="2")
    job = submit(old)
    assert new.claim("w", LEASE) is None
    claim = old.claim("w", LEASE)
    assert claim is not None and claim.job.id == job.id
    old.close()
    new.close()


def test_a_job_that_waits_for_a_version_that_is_gone_is_taken_over_when_it_is_asked_for_again(
    postgres_url: str,
) -> None:
    old, new = PostgresQueue(postgres_url, version="1"), PostgresQueue(postgres_url, version="2")
    job = submit(old)
    again, added = new.submit(request(), MANY)
    assert again.id == job.id and not added
    assert old.claim("w", LEASE) is None and new.claim("w", LEASE) is not None
    old.close()
    new.close()


def test_a_schema_of_a_newer_twill_is_refused_in_one_sentence_and_left_alone(
    postgres_queue: PostgresQueue, postgres_url: str
) -> None:
    with postgres_queue.writing() as db:
        db.execute("UPDATE twill_editions SET edition = 99 WHERE part = 'jobs'")
    with pytest.raises(QueueUnavailable, match=r"its jobs have schema 99, and this Twill knows up to \d+") as refused:
        PostgresQueue(postgres_url)
    assert "\n" not in str(refused.value)
    assert postgres_queue.trouble() == ""


def test_many_may_make_the_schema_at_once(postgres_url: str) -> None:
    opened: list[PostgresQueue] = []
    threads = [threading.Thread(target=lambda: opened.append(PostgresQueue(postgres_url))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == 6 and opened[0].trouble() == ""
    for queue in opened:
        queue.close()


def test_an_address_that_is_none_is_told_without_its_password() -> None:
    with pytest.raises(QueueUnavailable) as refused:
        PostgresQueue("postgresql://me:secret@127.0.0.1:1/jobs")
    assert "secret" not in str(refused.value) and "database jobs at 127.0.0.1" in str(refused.value)
    with pytest.raises(QueueUnavailable, match="the address of the database"):
        PostgresQueue("postgresql://a?nonsense=1")


def test_a_database_that_may_only_be_read_is_told_and_read(postgres_queue: PostgresQueue, postgres_url: str) -> None:
    job = submit(postgres_queue)
    standby = PostgresQueue(f"{postgres_url}%20-cdefault_transaction_read_only%3Don")
    assert "read-only transaction" in standby.trouble()
    with pytest.raises(QueueUnavailable, match="read-only"):
        standby.submit(request("b"), MANY)
    assert standby.recent(9) == (job,)
    standby.close()


def test_a_database_that_ends_and_comes_back_has_every_job_and_nobody_opens_the_queue_again() -> None:
    own = PostgresServer()
    try:
        queue = PostgresQueue(own.fresh())
        jobs = [submit(queue, key) for key in "abc"]
        claim = queue.claim("w", LEASE)
        own.stop()
        with pytest.raises(QueueUnavailable):
            queue.recent(9)
        own.start()
        assert {job.id for job in queue.recent(9)} == {job.id for job in jobs}
        assert claim is not None and queue.beat(claim, LEASE) == "go on" and queue.finish(claim, "done")
        assert queue.counts()["queued"] == 2
        queue.close()
    finally:
        own.remove()
