"""Promises of look-ups that are answered from memory: the route's answers, for those whom the route would answer."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from server.tokens import add_token, scopes_of
from tests.server.test_answers import filled
from tests.service import Client, running

KEY, OTHER = "a" * 64, "b" * 64


def said(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    """All of an answer but when and to which request."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "x-request-id")}
    return answer.status_code, answer.content, headers


def never(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the route would find nothing."""
    monkeypatch.setattr(client.service.answers, "read", None)


@pytest.mark.parametrize("guarded", [False, True])
def test_what_is_in_memory_is_answered_as_the_route_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    tokens = tmp_path / "tokens" if guarded else None
    headers = {} if tokens is None else {"Authorization": f"bearer {add_token(tokens, 'ci', scopes_of(['admin']))}"}
    with running(tmp_path, filled(KEY), workers=0, tokens=tokens) as client:
        route = said(client.get(f"/v1/schedules/{KEY}", headers=headers))
        etag = {"If-None-Match": route[2]["etag"], **headers}
        client.service.answers.forget(KEY)
        unchanged = said(client.get(f"/v1/schedules/{KEY}", headers=etag))
        assert (route[0], unchanged[:2]) == (200, (304, b""))
        never(client, monkeypatch)
        assert said(client.get(f"/v1/schedules/{KEY}", headers=headers)) == route
        assert said(client.get(f"/v1/schedules/{KEY}", headers=etag)) == unchanged
        assert said(client.get(f"/v1/schedules/{KEY}", headers={**headers, "If-None-Match": '"x"'})) == route
        metrics = client.get("/metrics", headers=headers).text
        assert 'twill_lookups_total{outcome="found"} 5.0' in metrics
        assert 'twill_requests_total{method="GET",route="/v1/schedules/{key}",status="200"} 3.0' in metrics


def test_nobody_reads_from_memory_what_the_route_would_refuse(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    reader = {"Authorization": f"Bearer {add_token(tokens, 'ci', scopes_of(['read']))}"}
    with running(tmp_path, filled(KEY), workers=0, tokens=tokens) as client:
        assert client.get(f"/v1/schedules/{KEY}", headers=reader).status_code == 200
        for wrong in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": f"Basic {reader['Authorization']}"}):
            assert client.get(f"/v1/schedules/{KEY}", headers=wrong).status_code == 401
        assert client.get(f"/v1/schedules/{OTHER}", headers=reader).status_code == 404
        assert client.get(f"/v1/schedules/{KEY}x", headers=reader).status_code == 422
        assert client.head(f"/v1/schedules/{KEY}", headers=reader).status_code == 405


def test_a_condition_that_the_route_would_refuse_is_refused_from_memory_too(tmp_path: Path) -> None:
    with running(tmp_path, filled(KEY), workers=0) as client:
        for _ in range(2):
            lengths = {length: {"If-None-Match": "x" * length} for length in (1000, 1001)}
            found = [client.get(f"/v1/schedules/{KEY}", headers=one).status_code for one in lengths.values()]
            assert found == [200, 422]


def test_the_rate_is_counted_once_for_each_request(tmp_path: Path) -> None:
    with running(tmp_path, filled(KEY), workers=0, rate=0.001) as client:
        client.service.rate.burst = 4.0
        statuses = [client.get(f"/v1/schedules/{KEY}").status_code for _ in range(6)]
        assert statuses == [200, 200, 200, 200, 429, 429]
