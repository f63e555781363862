"""Promises of workers and front ends that share a database: news at once, a solve that outlives a database's restart,
and a killed worker's job solved by another, once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from server import events, pool
from server.pool import Pool
from server.queue import QueueUnavailable
from server.queue_postgres import PostgresQueue
from server.service import Service
from server.settings import Settings
from tests.conftest import ROOT
from tests.kernels import H100
from tests.postgres import PostgresServer
from tests.server.queues import LEASE
from tests.server.test_pool import LIMITS, endless, request
from tests.service import body, graph, serving
from tests.stores import asked_of, entry_of
from twill.machine.description import Machine
from twill.store.api import ENDED, Job
from twill.store.interface import Entry
from twill.store.postgres import PostgresStore

PATIENCE = 120.0


def until(queue: PostgresQueue, job: str, states: object) -> Job:
    """The job when it is in one of the states."""
    assert isinstance(states, frozenset | tuple)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = queue.get(job)
        assert found is not None
        if found.state in states:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{found} is not in {states}")


def working(url: str, log: Path) -> subprocess.Popen[bytes]:
    """A worker of its own, as `twill work` starts it."""
    with log.open("wb") as stream:
        command = [sys.executable, "-m", "twill", "work", "--store", url]
        environment = {**os.environ, "PYTHONWARNINGS": "error"}
        return subprocess.Popen(command, cwd=ROOT, env=environment, stderr=stream)


def test_what_is_deleted_at_one_front_end_is_solved_again_when_another_is_asked(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    one, other = (
        Service(Settings(data=None, workers=0, rate=0), PostgresStore(postgres_url), PostgresQueue(postgres_url))
        for _ in range(2)
    )
    entry = entry_of(0)
    store.keep(entry, H100)
    asked = body(entry.graph, **asked_of(0).model_dump(exclude_defaults=True))
    with serving(one) as first, serving(other) as second:
        assert [second.post("/v1/jobs", json=asked).status_code for _ in range(2)] == [200, 200]
        assert first.delete(f"/v1/schedules/{entry.key}").status_code == 204
        again = second.post("/v1/jobs", json=asked)
    assert (again.status_code, again.json()["state"]) == (202, "queued")
    store.close()


def test_a_stream_at_one_front_end_tells_at_once_what_another_process_does(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LOOK_ANYWAY", PATIENCE)  # nobody looks by himself
    front = Service(Settings(data=None, workers=0, rate=0), PostgresStore(postgres_url), PostgresQueue(postgres_url))
    elsewhere = PostgresQueue(postgres_url)
    with serving(front) as client:
        job = client.post("/v1/jobs", json=body()).json()["id"]
        listed = []
        with client.stream("GET", f"/v1/jobs/{job}/events", timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            for line in lines:
                if line.startswith("data: "):
                    listed.append(Job.parse(line.removeprefix("data: ")).state)
                    if listed == ["queued"]:
                        claim = elsewhere.claim("w", LEASE)
                        assert claim is not None and elsewhere.finish(claim, "done")
        assert listed == ["queued", "running", "done"]
    elsewhere.close()


def test_a_worker_that_is_killed_while_it_solves_loses_its_job_to_another_and_it_is_done_once(
    postgres_url: str, postgres_queue: PostgresQueue, tmp_path: Path
) -> None:
    slow = postgres_queue.submit(request(endless()), 10)[0].id
    first = working(postgres_url, tmp_path / "first")
    until(postgres_queue, slow, ("running",))
    quick = postgres_queue.submit(request(graph()), 10)[0].id
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = working(postgres_url, tmp_path / "second")  # on the same host: it knows that the first is gone
    end = time.monotonic() + PATIENCE
    while [Job.parse(event.job).state for event in postgres_queue.events(slow)].count("queued") < 2:
        assert time.monotonic() < end
        time.sleep(0.05)
    postgres_queue.cancel(slow)
    assert until(postgres_queue, slow, ENDED).state == "cancelled"
    assert until(postgres_queue, quick, ENDED).state == "done"
    states = [Job.parse(event.job).state for event in postgres_queue.events(quick)]
    assert states.count("done") == 1 and states[-1] == "done"
    second.send_signal(signal.SIGTERM)
    assert second.wait(PATIENCE) == 0


def test_a_solve_goes_on_while_its_database_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BEAT", 0.1)
    own = PostgresServer()
    try:
        url = own.fresh()
        queue, store = PostgresQueue(url), PostgresStore(url)
        keep, down = store.keep, threading.Event()

        def keep_while_it_is_away(entry: Entry, machine: Machine) -> Entry:
            if not down.is_set():
                own.stop()
                down.set()
            return keep(entry, machine)

        monkeypatch.setattr(store, "keep", keep_while_it_is_away)
        job = queue.submit(request(graph()), 10)[0].id
        workers = Pool(queue, store, 1, LIMITS)
        workers.start()
        assert down.wait(PATIENCE)
        with pytest.raises(QueueUnavailable):
            queue.get(job)
        own.start()
        found = until(queue, job, ENDED)
        workers.stop()
        states = [Job.parse(event.job).state for event in queue.events(job)]
        assert (found.state, found.attempts, states.count("queued")) == ("done", 1, 1)
        assert store.get(found.key) is not None
        queue.close()
        store.close()
    finally:
        own.remove()
