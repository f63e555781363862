"""Promises of the job queue, in SQLite and in PostgreSQL: nothing accepted is lost, one job a key, and what a worker
whose claim ran out says is not heard."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from server.queue import QueueFull, QuotaUsed
from server.queue_rows import count
from server.queue_sql import MOST_ATTEMPTS, SqlQueue
from tests.server.queues import LEASE, MANY, PROBLEM, Clock, bounds, request, states, submit
from twill.store.api import Job


def test_a_job_is_there_when_submit_returns_also_for_another_process(
    queue: SqlQueue, again: Callable[[], SqlQueue]
) -> None:
    job, new = queue.submit(request(), MANY)
    assert new and job.state == "queued" and job.created.endswith("Z")
    other = again()
    assert other.get(job.id) == job
    assert other.request(job.id) == request()


def test_one_job_for_a_key_that_is_queued_or_running_and_a_new_one_after_it_failed(queue: SqlQueue) -> None:
    job = submit(queue)
    assert queue.submit(request(client="another"), MANY) == (job, False)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    running, new = queue.submit(request(), MANY)
    assert (running.id, running.state, new) == (job.id, "running", False)
    queue.finish(claim, "failed", PROBLEM)
    again, new = queue.submit(request(), MANY)
    assert new and again.id != job.id


def test_what_is_solved_already_is_one_job_that_is_done(queue: SqlQueue) -> None:
    job, new = queue.submit(request(), MANY, solved=True)
    assert new and job.state == "done" and states(queue, job) == ["done"]
    assert queue.submit(request(), MANY, solved=True) == (job, False)
    assert queue.claim("w", LEASE) is None


def test_a_job_that_ended_since_the_store_was_asked_is_the_answer(queue: SqlQueue) -> None:
    job = submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None and queue.finish(claim, "done")
    found, new = queue.submit(request(), MANY, False, lambda: True)
    assert (found.id, found.state, new) == (job.id, "done", False)


def test_no_more_jobs_wait_than_the_limit_but_solved_and_joined_ones_are_answered(queue: SqlQueue) -> None:
    submit(queue, "a")
    with pytest.raises(QueueFull, match="1 jobs are waiting"):
        queue.submit(request("b"), 1)
    assert queue.submit(request("a"), 1)[1] is False
    assert queue.submit(request("c"), 1, solved=True)[0].state == "done"


def test_the_longest_waiting_job_is_claimed_once(queue: SqlQueue) -> None:
    first, second = submit(queue, "a"), submit(queue, "b")
    claims = [queue.claim("w", LEASE) for _ in range(3)]
    assert [claim and claim.job.id for claim in claims] == [first.id, second.id, None]
    assert claims[0] is not None and claims[0].document == request("a").document


def test_threads_never_claim_the_same_job(queue: SqlQueue) -> None:
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


def test_a_silent_workers_job_runs_again_and_the_late_answer_is_not_heard(queue: SqlQueue, clock: Clock) -> None:
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


def test_a_beating_worker_keeps_its_job(queue: SqlQueue, clock: Clock) -> None:
    submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    for _ in range(5):
        clock.now += LEASE - 1
        assert queue.beat(claim, LEASE) == "go on"
        assert queue.claim("another", LEASE) is None


def test_a_job_that_takes_its_workers_with_it_is_given_up(queue: SqlQueue, clock: Clock) -> None:
    job = submit(queue)
    for _ in range(MOST_ATTEMPTS):
        assert queue.claim("w", LEASE) is not None
        clock.now += LEASE + 1
    assert queue.claim("w", LEASE) is None
    found = queue.get(job.id)
    assert found is not None and found.state == "failed"
    assert found.problem is not None and found.problem.kind == "WorkerLost"


def test_jobs_of_workers_known_to_be_gone_wait_again_at_once(queue: SqlQueue) -> None:
    first, second = submit(queue, "a"), submit(queue, "b")
    queue.claim("gone", LEASE)
    queue.claim("here", LEASE)
    assert queue.orphans(lambda worker: worker == "gone") == 1
    assert states(queue, first) == ["queued", "running", "queued"]
    assert states(queue, second) == ["queued", "running"]


def test_a_service_may_be_killed_any_number_of_times(queue: SqlQueue) -> None:
    job = submit(queue)
    for _ in range(2 * MOST_ATTEMPTS):
        assert queue.claim("gone", LEASE) is not None
        assert queue.orphans(lambda _: True) == 1
    assert states(queue, job)[-1] == "queued"


def test_a_job_that_was_being_cancelled_when_the_service_was_killed_is_cancelled(queue: SqlQueue) -> None:
    job = submit(queue)
    queue.claim("gone", LEASE)
    queue.cancel(job.id)
    queue.orphans(lambda _: True)
    assert states(queue, job)[-1] == "cancelled"


def test_a_job_given_back_waits_and_has_not_used_up_an_attempt(queue: SqlQueue) -> None:
    job = submit(queue)
    for _ in range(2 * MOST_ATTEMPTS):
        claim = queue.claim("w", LEASE)
        assert claim is not None and claim.job.id == job.id
        assert queue.give_back(claim)
        assert not queue.finish(claim, "done")


def test_cancelling_ends_a_waiting_job_now_and_a_running_one_through_its_worker(queue: SqlQueue) -> None:
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


def test_a_job_that_is_wanted_again_while_it_is_being_cancelled_is_not_lost(queue: SqlQueue) -> None:
    job = submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    queue.cancel(job.id)
    assert queue.beat(claim, LEASE) == "cancel"
    assert submit(queue).id == job.id
    assert queue.finish(claim, "cancelled")
    found = queue.get(job.id)
    assert found is not None and found.state == "queued"


def test_a_cancelled_job_of_a_lost_worker_is_not_run_again(queue: SqlQueue, clock: Clock) -> None:
    job = submit(queue)
    queue.claim("w", LEASE)
    queue.cancel(job.id)
    clock.now += LEASE + 1
    assert queue.claim("another", LEASE) is None
    assert states(queue, job)[-1] == "cancelled"


def test_events_tell_the_whole_story_and_can_be_resumed(queue: SqlQueue) -> None:
    job = submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    queue.progress(claim, bounds(3))
    queue.progress(claim, bounds(4))
    queue.finish(claim, "failed", PROBLEM)
    listed = queue.events(job.id)
    assert [event.sequence for event in listed] == [1, 2, 3, 4, 5]
    stages = [Job.parse(event.job) for event in listed]
    assert [s.bounds and s.bounds.lower for s in stages] == [None, None, 3, 4, 4]
    assert stages[-1] == queue.get(job.id) and stages[-1].problem == PROBLEM
    assert queue.events(job.id, after=3) == listed[3:]


def test_a_long_story_keeps_its_beginning_and_its_end(queue: SqlQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.queue_sql.MOST_EVENTS", 20)
    job = submit(queue)
    claim = queue.claim("w", LEASE)
    assert claim is not None
    for lower in range(25):
        queue.progress(claim, bounds(lower))
    queue.finish(claim, "done")
    listed = queue.events(job.id)
    assert len(listed) == 21
    last = Job.parse(listed[-1].job)
    assert last.state == "done" and last.bounds is not None and last.bounds.lower == 24


def test_counts_and_recent_jobs(queue: SqlQueue) -> None:
    jobs = [submit(queue, key) for key in "abc"]
    queue.cancel(jobs[0].id)
    assert queue.counts() == {"queued": 2, "running": 0, "done": 0, "failed": 0, "cancelled": 1}
    assert [job.id for job in queue.recent(2)] == [jobs[2].id, jobs[1].id]
    assert [job.id for job in queue.recent(9, "cancelled")] == [jobs[0].id]


def test_a_document_takes_room_until_its_job_is_done(queue: SqlQueue) -> None:
    done, failed = submit(queue, "a"), submit(queue, "b")
    for state in ("done", "failed"):
        claim = queue.claim("worker", LEASE)
        assert claim is not None and queue.finish(claim, state)
    known = queue.submit(request("c"), MANY, solved=True)[0]
    retained = [queue.request(job.id) for job in (done, failed, known)]
    assert [one and (one.document, one.machine_document) for one in retained] == [
        ("", ""), (request("b").document, "the machine"), ("", ""),
    ]  # fmt: skip


def test_only_so_many_that_can_be_tried_again_are_remembered(
    queue: SqlQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.queue_sql.MOST_KEPT", 2)
    jobs = []
    for key in "abcd":
        clock.now += 1
        jobs.append(submit(queue, key))
        queue.cancel(jobs[-1].id)
    retained = [queue.request(job.id) for job in jobs]
    assert [bool(one and one.document) for one in retained] == [False, False, True, True]
    queue.forget(100)
    again = queue.request(jobs[-1].id)
    assert again is not None and again.machine_document == "the machine"


def test_only_ended_jobs_are_forgotten(queue: SqlQueue, clock: Clock) -> None:
    gone, retained = submit(queue, "a"), submit(queue, "b")
    queue.cancel(gone.id)
    assert queue.forget(0) == 0
    clock.now += 1
    assert queue.forget(0) == 1
    assert queue.get(gone.id) is None and queue.events(gone.id) == ()
    assert queue.get(retained.id) == retained


def test_a_machine_is_kept_once_for_all_jobs_and_goes_with_the_last(queue: SqlQueue, clock: Clock) -> None:
    def machines() -> int:
        with queue.reading() as db:
            return count(db, f"SELECT count(*) AS n FROM {queue.machines}")

    jobs = [submit(queue, key) for key in "abc"]
    assert machines() == 1
    claim = queue.claim("worker", 60)
    assert claim is not None and (claim.document, claim.machine) == (request("a").document, "the machine")
    for job in jobs[1:]:
        queue.cancel(job.id)
    clock.now += 1
    queue.forget(0)
    assert machines() == 1
    queue.finish(claim, "done")
    clock.now += 1
    queue.forget(0)
    assert machines() == 0


def test_what_a_worker_says_after_it_gave_the_job_back_is_not_heard_whatever_attempt_counts(queue: SqlQueue) -> None:
    """Both claims are the first attempt, as the first one was nobody's fault."""
    job = submit(queue)
    first = queue.claim("w", LEASE)
    assert first is not None and queue.give_back(first)
    second = queue.claim("w", LEASE)
    assert second is not None and second.job.attempts == first.job.attempts == 1 and second.token > first.token
    assert queue.beat(first, LEASE) == "lost" and not queue.finish(first, "failed", PROBLEM)
    found = queue.get(job.id)
    assert found is not None and found.state == "running"


def test_tokens_only_grow_whatever_happens_to_a_job(queue: SqlQueue, clock: Clock) -> None:
    submit(queue)
    seen = []
    for turn in range(4):
        claim = queue.claim("w", LEASE)
        assert claim is not None
        seen.append(claim.token)
        if turn == 0:
            queue.give_back(claim)
        elif turn == 1:
            queue.orphans(lambda _: True)
        elif turn == 2:
            clock.now += LEASE + 1
            assert queue.stalled() == 1
    assert seen == sorted(set(seen))


def test_a_job_whose_lease_ran_out_waits_again_without_a_worker_that_asks(queue: SqlQueue, clock: Clock) -> None:
    job = submit(queue)
    queue.claim("w", LEASE)
    assert queue.stalled() == 0
    clock.now += LEASE + 1
    assert queue.stalled() == 1 and queue.stalled() == 0
    assert states(queue, job) == ["queued", "running", "queued"]


def test_many_who_submit_one_key_at_once_have_one_job(queue: SqlQueue) -> None:
    found: list[tuple[str, bool]] = []
    together = threading.Barrier(8)

    def work(client: str) -> None:
        together.wait()
        for key in "abcd":
            job, new = queue.submit(request(key, client), MANY)
            found.append((job.id, new))

    threads = [threading.Thread(target=work, args=(f"c{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 32 and len({job for job, _ in found}) == 4 and sum(new for _, new in found) == 4


def test_clients_take_turns_by_their_shares_however_many_jobs_one_has(queue: SqlQueue) -> None:
    for number in range(9):
        submit(queue, f"m{number}", "many")
    claims = [queue.claim("w", LEASE)]
    for number in range(4):
        submit(queue, f"f{number}", "few", share=2.0)
    claims += [queue.claim("w", LEASE) for _ in range(7)]
    order = [claim.job.key[:2] for claim in claims if claim is not None]
    assert order == ["m0", "f0", "m1", "f1", "f2", "m2", "f3", "m3"]


def test_a_client_that_comes_late_does_not_get_what_it_did_not_ask_for_before(queue: SqlQueue) -> None:
    for number in range(4):
        submit(queue, f"m{number}", "many")
        claim = queue.claim("w", LEASE)
        assert claim is not None and queue.finish(claim, "done")
    for number in range(3):
        submit(queue, f"n{number}", "new")
        submit(queue, f"o{number}", "many")
    claims = [queue.claim("w", LEASE) for _ in range(4)]
    assert [claim.job.key[:2] for claim in claims if claim is not None] == ["n0", "o0", "n1", "o1"]


def test_a_higher_priority_goes_first(queue: SqlQueue) -> None:
    submit(queue, "a")
    submit(queue, "b", "urgent", priority=5)
    claims = [queue.claim("w", LEASE) for _ in range(2)]
    assert [claim and claim.job.key[0] for claim in claims] == ["b", "a"]


def test_a_quota_holds_for_open_jobs_alone(queue: SqlQueue) -> None:
    queue.submit(request("a", quota=1), MANY)
    with pytest.raises(QuotaUsed, match="1 jobs of this token"):
        queue.submit(request("b", quota=1), MANY)
    assert queue.submit(request("a", quota=1), MANY)[1] is False
    assert queue.submit(request("b", "another", quota=1), MANY)[1]
    claim = queue.claim("w", LEASE)
    assert claim is not None and queue.finish(claim, "done")
    assert queue.submit(request("c", quota=1), MANY)[1]


def test_what_was_noted_is_told_newest_first(queue: SqlQueue, clock: Clock) -> None:
    for number in range(3):
        queue.note("me", "submit", f"job {number}")
    page = queue.notes(2)
    assert [(note.client, note.action, note.subject) for note in page] == [
        ("me", "submit", "job 2"), ("me", "submit", "job 1"),
    ]  # fmt: skip
    assert [note.subject for note in queue.notes(9, page[-1].number)] == ["job 0"] and page[0].at.startswith("1970")
    clock.now += 1
    queue.forget(0)
    assert queue.notes(9) == ()
