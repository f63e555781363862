"""Promises of the job queue: nothing accepted is lost, one job a key, a claim that ran out is not heard."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from server.queue import JobQueue, QueueFull, QueueUnavailable, Request
from server.queue_sqlite import FIRST, MOST_ATTEMPTS, MOST_EVENTS, SqliteQueue
from twill.store.api import Job, JobBounds, JobProblem
from twill.store.database import Database

MANY = 1000
LEASE = 10.0
PROBLEM = JobProblem(kind="Infeasible", message="no schedule", exit_code=3)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(tmp_path: Path, clock: Clock) -> Iterator[SqliteQueue]:
    opened = SqliteQueue(tmp_path / "jobs.sqlite", clock)
    yield opened
    opened.close()


def request(key: str = "a", client: str = "me") -> Request:
    document = f'{{"asked":"{key}"}}'
    return Request(key * 64, document, "kernel", "default", "h100", client, "digest", "the machine")


def bounds(lower: int) -> JobBounds:
    return JobBounds(phase="ii", lower=lower, upper=None, seconds=0.5)


def submit(queue: JobQueue, key: str = "a", **more: object) -> Job:
    return queue.submit(request(key), MANY)[0]


def states(queue: JobQueue, job: Job) -> list[str]:
    return [Job.parse(event.job).state for event in queue.events(job.id)]


def test_a_job_is_there_when_submit_returns_also_for_another_process(queue: SqliteQueue) -> None:
    job, new = queue.submit(request(), MANY)
    assert new and job.state == "queued" and job.created.endswith("Z")
    other = SqliteQueue(queue.database.path)
    assert other.get(job.id) == job
    assert other.request(job.id) == request()
    other.close()


def test_one_job_for_a_key_that_is_queued_or_running_and_a_new_one_after_it_failed(queue: SqliteQueue) -> None:
    job = submit(queue)
    assert queue.submit(request(client="another"), MANY) == (job, False)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    running, new = queue.submit(request(), MANY)
    assert (running.id, running.state, new) == (job.id, "running", False)
    queue.finish(claim, "failed", PROBLEM)
    again, new = queue.submit(request(), MANY)
    assert new and again.id != job.id


def test_what_is_solved_already_is_one_job_that_is_done(queue: SqliteQueue) -> None:
    job, new = queue.submit(request(), MANY, solved=True)
    assert new and job.state == "done" and states(queue, job) == ["done"]
    assert queue.submit(request(), MANY, solved=True) == (job, False)
    assert queue.claim("w", LEASE) is None


def test_no_more_jobs_wait_than_the_limit_but_solved_and_joined_ones_are_answered(queue: SqliteQueue) -> None:
    submit(queue, "a")
    with pytest.raises(QueueFull, match="1 jobs are waiting"):
        queue.submit(request("b"), 1)
    assert queue.submit(request("a"), 1)[1] is False
    assert queue.submit(request("c"), 1, solved=True)[0].state == "done"


def test_the_longest_waiting_job_is_claimed_once(queue: SqliteQueue) -> None:
    first, second = submit(queue, "a"), submit(queue, "b")
    claims = [queue.claim("w", LEASE) for _ in range(3)]
    assert [claim and claim.job.id for claim in claims] == [first.id, second.id, None]
    assert claims[0] is not None and claims[0].document == request("a").document


def test_threads_never_claim_the_same_job(queue: SqliteQueue) -> None:
    jobs = {submit(queue, key).id for key in "abcdefgh"}
    taken: list[str] = []

    def work() -> None:
        while (claim := queue.claim("w", LEASE)) is not None:
            taken.append(claim.job.id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(jobs)


def test_a_silent_workers_job_runs_again_and_the_late_answer_is_not_heard(queue: SqliteQueue, clock: Clock) -> None:
    job = submit(queue)
    lost = queue.claim("lost", LEASE)
    assert lost is not None
    clock.now += LEASE + 1
    heir = queue.claim("heir", LEASE)
    assert heir is not None and heir.job.id == job.id and heir.job.attempts == 2
    assert queue.beat(lost, LEASE) == "lost"
    queue.progress(lost, bounds(7))
    assert not queue.finish(lost, "failed", PROBLEM) and not queue.give_back(lost)
    assert queue.finish(heir, "done")
    found = queue.get(job.id)
    assert found is not None and (found.state, found.problem, found.bounds) == ("done", None, None)


def test_a_beating_worker_keeps_its_job(queue: SqliteQueue, clock: Clock) -> None:
    submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    for _ in range(5):
        clock.now += LEASE - 1
        assert queue.beat(claim, LEASE) == "go on"
        assert queue.claim("another", LEASE) is None


def test_a_job_that_takes_its_workers_with_it_is_given_up(queue: SqliteQueue, clock: Clock) -> None:
    job = submit(queue)
    for _ in range(MOST_ATTEMPTS):
        assert queue.claim("w", LEASE) is not None
        clock.now += LEASE + 1
    assert queue.claim("w", LEASE) is None
    found = queue.get(job.id)
    assert found is not None and found.state == "failed"
    assert found.problem is not None and found.problem.kind == "WorkerLost"


def test_jobs_of_workers_known_to_be_gone_wait_again_at_once(queue: SqliteQueue) -> None:
    first, second = submit(queue, "a"), submit(queue, "b")
    queue.claim("gone", LEASE)
    queue.claim("here", LEASE)
    assert queue.orphans(lambda worker: worker == "gone") == 1
    assert states(queue, first) == ["queued", "running", "queued"]
    assert states(queue, second) == ["queued", "running"]


def test_a_service_may_be_killed_any_number_of_times(queue: SqliteQueue) -> None:
    job = submit(queue)
    for _ in range(2 * MOST_ATTEMPTS):
        assert queue.claim("gone", LEASE) is not None
        assert queue.orphans(lambda _: True) == 1
    assert states(queue, job)[-1] == "queued"


def test_a_job_that_was_being_cancelled_when_the_service_was_killed_is_cancelled(queue: SqliteQueue) -> None:
    job = submit(queue)
    queue.claim("gone", LEASE)
    queue.cancel(job.id)
    queue.orphans(lambda _: True)
    assert states(queue, job)[-1] == "cancelled"


def test_a_job_given_back_waits_and_has_not_used_up_an_attempt(queue: SqliteQueue) -> None:
    job = submit(queue)
    for _ in range(2 * MOST_ATTEMPTS):
        claim = queue.claim("w", LEASE)
        assert claim is not None and claim.job.id == job.id
        assert queue.give_back(claim)
        assert not queue.finish(claim, "done")


def test_cancelling_ends_a_waiting_job_now_and_a_running_one_through_its_worker(queue: SqliteQueue) -> None:
    waiting = queue.cancel(submit(queue, "a").id)
    assert waiting is not None and waiting.state == "cancelled" and waiting.ended is not None
    job = submit(queue, "b")
    claim = queue.claim("w", LEASE)
    assert claim is not None
    running = queue.cancel(job.id)
    assert running is not None and running.state == "running"
    assert queue.beat(claim, LEASE) == "cancel"
    assert queue.finish(claim, "cancelled")
    assert states(queue, job) == ["queued", "running", "cancelled"]
    ended = queue.cancel(job.id)
    assert ended is not None and ended.state == "cancelled"
    assert queue.cancel("0" * 32) is None


def test_a_job_that_is_wanted_again_while_it_is_being_cancelled_is_not_lost(queue: SqliteQueue) -> None:
    job = submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    queue.cancel(job.id)
    assert queue.beat(claim, LEASE) == "cancel"
    assert submit(queue).id == job.id
    assert queue.finish(claim, "cancelled")
    found = queue.get(job.id)
    assert found is not None and found.state == "queued"


def test_a_cancelled_job_of_a_lost_worker_is_not_run_again(queue: SqliteQueue, clock: Clock) -> None:
    job = submit(queue)
    queue.claim("w", LEASE)
    queue.cancel(job.id)
    clock.now += LEASE + 1
    assert queue.claim("another", LEASE) is None
    assert states(queue, job)[-1] == "cancelled"


def test_events_tell_the_whole_story_and_can_be_resumed(queue: SqliteQueue) -> None:
    job = submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    queue.progress(claim, bounds(3))
    queue.progress(claim, bounds(4))
    queue.finish(claim, "failed", PROBLEM)
    told = queue.events(job.id)
    assert [event.sequence for event in told] == [1, 2, 3, 4, 5]
    stages = [Job.parse(event.job) for event in told]
    assert [s.bounds and s.bounds.lower for s in stages] == [None, None, 3, 4, 4]
    assert stages[-1] == queue.get(job.id) and stages[-1].problem == PROBLEM
    assert queue.events(job.id, after=3) == told[3:]


def test_a_long_story_keeps_its_beginning_and_its_end(queue: SqliteQueue) -> None:
    job = submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    for lower in range(MOST_EVENTS + 5):
        queue.progress(claim, bounds(lower))
    queue.finish(claim, "done")
    told = queue.events(job.id)
    assert len(told) == MOST_EVENTS + 1
    last = Job.parse(told[-1].job)
    assert last.state == "done" and last.bounds is not None and last.bounds.lower == MOST_EVENTS + 4


def test_counts_and_recent_jobs(queue: SqliteQueue) -> None:
    jobs = [submit(queue, key) for key in "abc"]
    queue.cancel(jobs[0].id)
    assert queue.counts() == {"queued": 2, "running": 0, "done": 0, "failed": 0, "cancelled": 1}
    assert [job.id for job in queue.recent(2)] == [jobs[2].id, jobs[1].id]
    assert [job.id for job in queue.recent(9, "cancelled")] == [jobs[0].id]


def test_a_document_takes_room_until_its_job_is_done(queue: SqliteQueue) -> None:
    done, failed = submit(queue, "a"), submit(queue, "b")
    for state in ("done", "failed"):
        claim = queue.claim("worker", LEASE)
        assert claim is not None and queue.finish(claim, state)
    known = queue.submit(request("c"), MANY, solved=True)[0]
    kept = [queue.request(job.id) for job in (done, failed, known)]
    assert [one and (one.document, one.machine_document) for one in kept] == [
        ("", ""), (request("b").document, "the machine"), ("", ""),
    ]  # fmt: skip


def test_only_so_many_that_can_be_tried_again_are_remembered(
    queue: SqliteQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.queue_sqlite.MOST_KEPT", 2)
    jobs = []
    for key in "abcd":
        clock.now += 1
        jobs.append(submit(queue, key))
        queue.cancel(jobs[-1].id)
    kept = [queue.request(job.id) for job in jobs]
    assert [bool(one and one.document) for one in kept] == [False, False, True, True]
    queue.forget(clock.now - 100)
    again = queue.request(jobs[-1].id)
    assert again is not None and again.machine_document == "the machine"


def test_only_ended_jobs_are_forgotten(queue: SqliteQueue, clock: Clock) -> None:
    gone, kept = submit(queue, "a"), submit(queue, "b")
    queue.cancel(gone.id)
    assert queue.forget(clock.now) == 0
    assert queue.forget(clock.now + 1) == 1
    assert queue.get(gone.id) is None and queue.events(gone.id) == ()
    assert queue.get(kept.id) == kept


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
    with queue.reading() as connection:
        connection.set_trace_callback(read.append)
    claim = queue.claim("worker", 60)
    connection.set_trace_callback(None)
    assert claim is not None and claim.job.key == "w0" * 64
    questions = [statement for statement in read if statement.startswith("SELECT") and "FROM jobs" in statement]
    assert len(questions) <= 8
    for question in questions:
        plan = " ".join(row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {question}").fetchall())
        assert "SEARCH" in plan and "SCAN" not in plan, (question, plan)


def test_a_machine_is_kept_once_for_all_jobs_and_goes_with_the_last(queue: SqliteQueue, clock: Clock) -> None:
    def machines() -> int:
        with queue.reading() as db:
            return int(db.execute("SELECT count(*) FROM machines").fetchone()[0])

    jobs = [submit(queue, key) for key in "abc"]
    assert machines() == 1
    claim = queue.claim("worker", 60)
    assert claim is not None and (claim.document, claim.machine) == (request("a").document, "the machine")
    for job in jobs[1:]:
        queue.cancel(job.id)
    queue.forget(clock.now + 1)
    assert machines() == 1
    clock.now += 1
    queue.finish(claim, "done")
    queue.forget(clock.now + 1)
    assert machines() == 0


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
    with pytest.raises(QueueUnavailable, match="has schema 99, this version of Twill reads up to 2"):
        SqliteQueue(queue.database.path)


def test_a_full_disk_is_told_and_what_was_accepted_stays(queue: SqliteQueue) -> None:
    kept = submit(queue)
    with queue.reading() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")  # SQLite then says what it says of a full disk
    with pytest.raises(QueueUnavailable, match="full"):
        queue.submit(dataclasses.replace(request("b"), document="x" * 10**6), MANY)
    assert queue.trouble() == "" and queue.recent(9) == (kept,)


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
