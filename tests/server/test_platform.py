"""Promises to who runs the service for many: quotas, an audit log, pins, users that a proxy names, TLS."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.queue_sqlite import SqliteQueue
from server.run import Server, configuration, settings_of
from server.service import Service
from server.tokens import add_token, scopes_of
from tests.conftest import ROOT
from tests.service import MemoryStore, body, ended, graph, running
from twill.cli.serve import listen
from twill.exc import IncompleteTls

NONE = "0" * 64


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_with_as_many_open_jobs_as_it_may_have_is_told_so_and_others_are_not_hindered(tmp_path: Path) -> None:
    small = add_token(tmp_path / "tokens", "small", scopes_of(["solve"]), None, ["jobs=1"])
    large = add_token(tmp_path / "tokens", "large", scopes_of(["solve"]))
    with running(tmp_path, workers=0, tokens=tmp_path / "tokens") as client:
        first = client.post("/v1/jobs", json=body(graph(64)), headers=bearer(small))
        assert first.status_code == 202
        refused = client.post("/v1/jobs", json=body(graph(128)), headers=bearer(small))
        assert (refused.status_code, refused.json()["kind"]) == (429, "QuotaUsed") and "Retry-After" in refused.headers
        assert client.post("/v1/jobs", json=body(graph(128)), headers=bearer(large)).status_code == 202
        assert client.delete(f"/v1/jobs/{first.json()['id']}", headers=bearer(small)).status_code == 200
        assert client.post("/v1/jobs", json=body(graph(256)), headers=bearer(small)).status_code == 202


def test_who_asked_for_what_is_written_down_for_the_administrator_alone(tmp_path: Path) -> None:
    solver = add_token(tmp_path / "tokens", "solver", scopes_of(["solve"]))
    admin = add_token(tmp_path / "tokens", "boss", scopes_of(["admin"]))
    with running(tmp_path, workers=0, tokens=tmp_path / "tokens") as client:
        job = client.post("/v1/jobs", json=body(), headers=bearer(solver)).json()
        client.delete(f"/v1/jobs/{job['id']}", headers=bearer(admin))
        client.post(f"/v1/jobs/{job['id']}/retry", headers=bearer(solver))
        client.delete(f"/v1/schedules/{NONE}", headers=bearer(admin))
        assert client.get("/v1/audit", headers=bearer(solver)).status_code == 403
        page = client.get("/v1/audit?limit=3", headers=bearer(admin)).json()
        rest = client.get(f"/v1/audit?before={page['next']}", headers=bearer(admin)).json()
    notes = [(note["client"], note["action"]) for note in (*page["notes"], *rest["notes"])]
    assert notes == [("boss", "delete"), ("solver", "retry"), ("boss", "cancel"), ("solver", "submit")]
    assert job["id"] in rest["notes"][0]["subject"] and rest.get("next") is None


def test_a_schedule_is_pinned_and_let_go_by_the_administrator(tmp_path: Path) -> None:
    store = MemoryStore()
    with running(tmp_path, store) as client:
        job = client.post("/v1/jobs", json=body()).json()
        assert ended(client, job["id"])["state"] == "done"
        place = f"/v1/schedules/{job['key']}/pin"
        assert client.put(place).status_code == 204 and store.pinned() == {job["key"]}
        assert client.delete(place).status_code == 204 and store.pinned() == frozenset()
        assert client.put(f"/v1/schedules/{NONE}/pin").status_code == 404


def test_a_user_is_who_a_trusted_proxy_says_and_nobody_elses_header_counts(tmp_path: Path) -> None:
    add_token(tmp_path / "tokens", "x", scopes_of(["read"]))
    chosen: dict[str, Any] = {"workers": 0, "tokens": tmp_path / "tokens", "user_header": "X-Forwarded-User"}
    said = {"X-Forwarded-User": "ada@example.org"}
    with running(tmp_path, proxies=("127.0.0.0/8",), **chosen) as client:
        assert client.get("/submit", headers=said).status_code == 200
        assert client.get("/submit").headers["location"] == "/login"
        assert client.get("/", headers={"X-Forwarded-User": "a <b>"}).status_code == 403
        assert client.get("/v1/jobs", headers=said).status_code == 401, "the header is for pages"
        # What the proxy forwards says where the browser is; the connection is still the proxy's.
        assert client.get("/submit", headers={**said, "X-Forwarded-For": "203.0.113.9"}).status_code == 200
        evil = {**said, "Origin": "http://evil.example"}
        assert client.post("/submit", headers=evil, content=b"").status_code == 403
    with running(tmp_path, proxies=("192.0.2.1",), **chosen) as client:
        answer = client.get("/submit", headers={**said, "X-Forwarded-For": "192.0.2.1"})
        assert answer.status_code == 303 and answer.headers["location"] == "/login"


def test_tls_is_spoken_with_the_certificate_that_is_given(tmp_path: Path) -> None:
    # Of nobody, for tests alone, until 2126.
    key, certificate = ROOT / "tests" / "tls" / "key.pem", ROOT / "tests" / "tls" / "certificate.pem"
    settings = settings_of(
        store=str(tmp_path), host="127.0.0.1", port=0, workers=0, tokens=None, waiting=9, rate=0.0, seconds=9.0,
        megabytes=4096, certificate=certificate, private_key=key,
    )  # fmt: skip
    service = Service(settings, MemoryStore(), SqliteQueue(tmp_path / "jobs.sqlite"))
    server = Server(configuration(service), service)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            trust = ssl.create_default_context(cafile=str(certificate))
            place = f"127.0.0.1:{listening.getsockname()[1]}"
            with httpx.Client(verify=trust, timeout=60) as client:
                assert client.get(f"https://{place}/healthz").status_code == 200
        finally:
            service.stopping.set()
            server.should_exit = True
            thread.join()


def test_a_certificate_without_its_key_is_refused() -> None:
    with pytest.raises(IncompleteTls):
        settings_of(
            store="x", host="127.0.0.1", port=0, workers=0, tokens=None, waiting=9, rate=0.0, seconds=9.0,
            megabytes=4096, certificate=Path("c.pem"),
        )  # fmt: skip
