"""Promises of the workers: every job ends, within its limits, and its schedule is stored before it is called done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from server import pool as pools
from server import solver_process
from server.admission import InputLimits, admit, read_submission
from server.pool import Pool, SolveLimits, began, is_gone, worker_name
from server.queue import QueuedRequest
from server.queue_sqlite import SqliteQueue
from tests.kernels import H100, example
from tests.served import children_of
from tests.service import MemoryStore, body, graph
from twill.exc import InvalidSchedule, StoreUnavailable
from twill.graph.anonymous import anonymous
from twill.graph.dependence import DependenceGraph
from twill.schedule.checker.check import check
from twill.store.api import ENDED, Job
from twill.store.interface import Entry

LIMITS = SolveLimits(seconds=60.0, megabytes=4096)


def request(of: DependenceGraph, **options: object) -> QueuedRequest:
    submission = read_submission(json.dumps(body(of, **options)).encode(), InputLimits())
    return admit(submission, {"h100": H100}, "me", 60.0)


def endless() -> DependenceGraph:
    """A kernel whose solve goes on for as long as it may."""
    return example("sliding_window_attention", None)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[SqliteQueue]:
    opened = SqliteQueue(tmp_path / "jobs.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def start(queue: SqliteQueue, store: MemoryStore) -> Iterator[Callable[..., Pool]]:
    begun: list[Pool] = []

    def start_pool(size: int = 1, limits: SolveLimits = LIMITS) -> Pool:
        begun.append(Pool(queue, store, size, limits))
        begun[-1].start()
        return begun[-1]

    yield start_pool
    for one in begun:
        one.stop()


def until(queue: SqliteQueue, job: Job, states: object) -> Job:
    """The job when it is in one of the states."""
    assert isinstance(states, frozenset | tuple)
    for _ in range(15_000):
        found = queue.get(job.id)
        assert found is not None
        if found.state in states:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{found} is not in {states}")


def test_a_job_is_solved_checked_and_stored_with_what_was_asked(
    queue: SqliteQueue, store: MemoryStore, start: Callable[..., Pool]
) -> None:
    job, _ = queue.submit(request(graph(), seed=5), 10)
    start()
    assert until(queue, job, ENDED).state == "done"
    entry = store.get(job.key)
    assert entry is not None and entry.graph == anonymous(graph()) and entry.asked is not None and entry.asked.seed == 5
    assert check(entry.schedule, H100) == () and entry.schedule.certificate.optimal


def test_a_mistake_of_the_user_is_the_jobs_problem_in_the_words_of_the_command_line(
    queue: SqliteQueue, start: Callable[..., Pool]
) -> None:
    job, _ = queue.submit(request(graph(), pins=["nonsense@group=1"]), 10)
    impossible, _ = queue.submit(request(graph(), ii=1), 10)
    start()
    problem = until(queue, job, ENDED).problem
    assert problem is not None and problem.kind == "BadPin" and problem.exit_code == 2 and "nonsense" in problem.message
    problem = until(queue, impossible, ENDED).problem
    assert problem is not None and problem.kind == "Infeasible" and problem.exit_code == 3


def test_a_solve_that_takes_too_long_is_ended_and_the_next_one_runs(
    queue: SqliteQueue, store: MemoryStore, start: Callable[..., Pool]
) -> None:
    slow, _ = queue.submit(request(endless()), 10)
    quick, _ = queue.submit(request(graph()), 10)
    start(limits=SolveLimits(seconds=4.0, megabytes=4096))
    problem = until(queue, slow, ENDED).problem
    assert problem is not None and problem.kind == "TimeLimit" and problem.exit_code == 4
    assert until(queue, quick, ENDED).state == "done"
    assert store.get(slow.key) is None


def test_a_budget_that_ends_first_is_reported_as_that_and_nothing_is_stored(
    queue: SqliteQueue, store: MemoryStore, start: Callable[..., Pool]
) -> None:
    job, _ = queue.submit(request(endless(), budget=0.5), 10)
    start()
    problem = until(queue, job, ENDED).problem
    assert problem is not None and problem.kind == "BudgetExhausted" and store.get(job.key) is None


def test_a_solve_that_needs_too_much_memory_fails_alone(queue: SqliteQueue, start: Callable[..., Pool]) -> None:
    job, _ = queue.submit(request(endless()), 10)
    start(limits=SolveLimits(seconds=60.0, megabytes=64))
    problem = until(queue, job, ENDED).problem
    assert problem is not None and problem.kind == "MemoryLimit" and "64 MB" in problem.message


def test_a_running_solve_is_cancelled(queue: SqliteQueue, start: Callable[..., Pool]) -> None:
    job, _ = queue.submit(request(endless()), 10)
    start()
    until(queue, job, ("running",))
    queue.cancel(job.id)
    assert until(queue, job, ENDED).state == "cancelled"


def test_progress_is_written_down_while_a_solve_is_at_work(queue: SqliteQueue, start: Callable[..., Pool]) -> None:
    job, _ = queue.submit(request(endless()), 10)
    start()
    for _ in range(15_000):
        found = queue.get(job.id)
        if found is not None and found.bounds is not None:
            break
        time.sleep(0.02)
    assert found is not None and found.state == "running" and found.bounds is not None
    assert found.bounds.phase == "ii" and found.bounds.lower > 1 and "row block" in found.bounds.about


def test_stopping_gives_unfinished_jobs_back(queue: SqliteQueue, start: Callable[..., Pool]) -> None:
    job, _ = queue.submit(request(endless()), 10)
    pool = start()
    until(queue, job, ("running",))
    pool.stop()
    found = queue.get(job.id)
    assert found is not None and (found.state, found.attempts) == ("queued", 0) and not pool.alive()


def test_a_solve_whose_process_is_killed_is_tried_again_until_that_is_no_accident(
    queue: SqliteQueue, start: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = solver_process.start
    left = [2]

    def killing(document: str, machine: str, megabytes: int) -> object:
        process, pipe = begin(document, machine, megabytes)
        if left[0]:
            left[0] -= 1
            os.kill(process.pid or 0, signal.SIGKILL)
        return process, pipe

    monkeypatch.setattr(solver_process, "start", killing)
    job, _ = queue.submit(request(graph()), 10)
    start()
    found = until(queue, job, ENDED)
    assert (found.state, found.attempts) == ("done", 3)
    left[0] = 99
    hopeless, _ = queue.submit(request(graph(2048)), 10)
    problem = until(queue, hopeless, ENDED).problem
    assert problem is not None and problem.kind == "WorkerLost"


def test_a_killed_server_of_processes_is_started_again(queue: SqliteQueue, start: Callable[..., Pool]) -> None:
    job, _ = queue.submit(request(endless()), 10)
    start()
    until(queue, job, ("running",))
    other, _ = queue.submit(request(graph()), 10)
    (server,) = [child for child in children_of(os.getpid()) if b"forkserver" in command_of(child)]
    os.kill(server, signal.SIGKILL)
    for _ in range(1000):
        found = queue.get(job.id)
        if found is not None and found.attempts == 2:
            break
        time.sleep(0.02)
    queue.cancel(job.id)
    assert until(queue, other, ENDED).state == "done"


def command_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def test_what_is_stored_already_is_not_solved_again(
    queue: SqliteQueue, store: MemoryStore, start: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker was killed after it had stored the schedule, before it could say so."""
    job, _ = queue.submit(request(graph()), 10)
    start()
    until(queue, job, ENDED)
    monkeypatch.setattr(solver_process, "start", lambda *_: pytest.fail("solved again"))
    again, new = queue.submit(request(graph()), 10)
    assert new and until(queue, again, ENDED).state == "done"


def test_a_schedule_that_the_store_refuses_is_a_failed_job(
    queue: SqliteQueue, store: MemoryStore, start: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Entry:
        raise InvalidSchedule("it breaks a rule")

    monkeypatch.setattr(store, "keep", refuse)
    job, _ = queue.submit(request(graph()), 10)
    start()
    problem = until(queue, job, ENDED).problem
    assert problem is not None and problem.kind == "Internal" and "breaks a rule" in problem.message


def test_a_store_that_cannot_be_reached_delays_a_job_and_does_not_lose_it(
    queue: SqliteQueue, store: MemoryStore, start: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "RETRY", 0.01)
    good = store.keep
    failures = iter([StoreUnavailable("here", "disk full")] * 2)

    def keep(*given: Any, **named: Any) -> Entry:
        for failure in failures:
            raise failure
        return good(*given, **named)

    monkeypatch.setattr(store, "keep", keep)
    job, _ = queue.submit(request(graph()), 10)
    start()
    found = until(queue, job, ENDED)
    assert (found.state, found.attempts) == ("done", 1) and store.get(job.key) is not None


def test_a_worker_survives_a_queue_that_fails_now_and_then(
    queue: SqliteQueue, start: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "RETRY", 0.01)
    good = queue.claim
    failures = iter([OSError("disk full")] * 3)

    def claim(worker: str, seconds: float) -> object:
        for failure in failures:
            raise failure
        return good(worker, seconds)

    monkeypatch.setattr(queue, "claim", claim)
    job, _ = queue.submit(request(graph()), 10)
    pool = start()
    assert until(queue, job, ENDED).state == "done" and pool.alive()


def test_a_worker_is_gone_when_its_process_is_and_not_before() -> None:
    mine = worker_name(0)
    assert not is_gone(mine)
    host, _, _, number = mine.rsplit("/", 3)
    assert is_gone(f"{host}/{os.getpid()}/1/{number}")  # its number is in use again
    assert not is_gone(f"elsewhere/{os.getpid()}/1/{number}")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        while began(ended.pid):
            time.sleep(0.01)  # until it has ended; it is not reaped yet


def test_jobs_of_a_killed_service_wait_again_when_the_next_one_starts(
    queue: SqliteQueue, start: Callable[..., Pool]
) -> None:
    job, _ = queue.submit(request(graph()), 10)
    host = worker_name(0).rsplit("/", 3)[0]
    assert queue.claim(f"{host}/{os.getpid()}/1/0", 10_000.0) is not None
    start()
    found = until(queue, job, ENDED)
    assert (found.state, found.attempts) == ("done", 1)


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [(signal.SIGSEGV, "Internal", "crashed: its process was ended by SIGSEGV"), (signal.SIGABRT, "MemoryLimit", "MB")],
)
def test_a_solver_that_crashes_is_not_out_of_memory(
    number: signal.Signals, kind: str, said: str, queue: SqliteQueue, start: Callable[..., Pool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    begin = solver_process.start

    def crashing(*given: Any) -> object:
        process, pipe = begin(*given)
        os.kill(process.pid or 0, number)
        return process, pipe

    monkeypatch.setattr(solver_process, "start", crashing)
    job, _ = queue.submit(request(graph()), 10)
    start()
    problem = until(queue, job, ENDED).problem
    assert problem is not None and problem.kind == kind and said in problem.message


def test_a_schedule_that_no_client_would_read_is_not_stored(
    queue: SqliteQueue, store: MemoryStore, start: Callable[..., Pool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "BODY", 1000)
    job, _ = queue.submit(request(graph()), 10)
    start()
    problem = until(queue, job, ENDED).problem
    assert problem is not None and problem.kind == "TooLarge" and store.get(job.key) is None
