"""Promises of a service whose database is slow or away: one clear answer to each, at once or after one wait."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from server import service as serving_service
from server.queue_postgres import PostgresQueue
from server.service import Service
from server.settings import Settings
from tests.kernels import H100
from tests.postgres import PostgresServer
from tests.service import MemoryStore, body, graph, running, serving
from tests.stores import entry_of
from twill.store import pg
from twill.store.interface import Summary
from twill.store.postgres import PostgresStore

MANY = 40


class SlowStore(MemoryStore):
    """Lists the schedules of one kernel only when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.asked = threading.Semaphore(0)

    def find(self, kernel: str | None = None, *words: Any, **named: Any) -> tuple[Summary, ...]:
        if kernel == "slow":
            self.asked.release()
            assert self.may.wait(60)
        return ()


def at_once(client: httpx.Client, paths: list[str]) -> list[httpx.Response]:
    """The answers to requests that are made at the same time."""
    with ThreadPoolExecutor(len(paths)) as threads:
        return list(threads.map(client.get, paths))


def test_requests_that_wait_hold_no_others_and_too_many_are_told_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving_service, "MOST_WAITING", MANY)
    store = SlowStore()
    with running(tmp_path, store, workers=0) as client, ThreadPoolExecutor(MANY) as threads:
        waiting = [threads.submit(client.get, "/v1/schedules?kernel=slow") for _ in range(MANY - 1)]
        for _ in waiting:
            assert store.asked.acquire(timeout=60)
        assert client.get("/v1/jobs").status_code == 200
        waiting.append(threads.submit(client.get, "/v1/schedules?kernel=slow"))
        assert store.asked.acquire(timeout=60)
        answer = client.get("/v1/jobs")
        assert answer.status_code == 503 and answer.json()["kind"] == "Busy" and answer.headers["retry-after"]
        assert client.get("/readyz").status_code == client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 200
        store.may.set()
        assert {one.result().status_code for one in waiting} == {200}
        assert client.get("/v1/jobs").status_code == 200


def test_a_database_that_is_away_is_a_503_to_each_of_many_and_what_is_remembered_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pg, "WAIT", 0.5)
    monkeypatch.setattr("server.service.LOOK_AGAIN", 0.0)
    own = PostgresServer()
    try:
        url = own.fresh()
        store, entry = PostgresStore(url), entry_of()
        store.keep(entry, H100)
        with serving(Service(Settings(data=None, workers=0, rate=0), store, PostgresQueue(url))) as client:
            job = client.post("/v1/jobs", json=body()).json()["id"]
            assert client.get(f"/v1/schedules/{entry.key}").status_code == 200
            own.stop()
            paths = [
                f"/v1/jobs/{job}",
                f"/v1/schedules/{'0' * 64}",
                "/v1/jobs",
                "/v1/schedules",
                "/v1/audit",
                "/readyz",
            ]
            for answer in at_once(client, paths * 6):
                assert answer.status_code == 503 and answer.headers["retry-after"], answer.text
            assert client.post("/v1/jobs", json=body(graph(96))).status_code == 503
            assert client.delete(f"/v1/jobs/{job}").status_code == 503
            assert client.get("/", headers={"Accept": "text/html"}).status_code == 503
            assert client.get(f"/v1/schedules/{entry.key}").status_code == 200
            own.start()
            until = time.monotonic() + 60
            while client.get("/readyz").status_code != 200:
                assert time.monotonic() < until
            assert client.get(f"/v1/jobs/{job}").json()["state"] == "queued"
            assert client.get("/v1/schedules").status_code == 200
    finally:
        own.remove()


def test_a_database_that_is_slow_is_a_503_and_nothing_is_accepted_that_is_lost(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pg, "LIMITS", "SET statement_timeout = '300ms'; SET lock_timeout = '200ms'")
    front = Service(Settings(data=None, workers=0, rate=0), PostgresStore(postgres_url), PostgresQueue(postgres_url))
    with serving(front) as client:
        job = client.post("/v1/jobs", json=body()).json()["id"]
        with psycopg.connect(postgres_url) as other:  # an administrator's long transaction
            other.execute("LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE")
            answer = client.post("/v1/jobs", json=body(graph(96)))
            assert answer.status_code == 503 and answer.headers["retry-after"]
            assert client.get(f"/v1/jobs/{job}").status_code == 503
            assert client.get("/healthz").status_code == 200
        assert [one["id"] for one in client.get("/v1/jobs").json()["jobs"]] == [job]
        assert client.post("/v1/jobs", json=body(graph(96))).status_code == 202
