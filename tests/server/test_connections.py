"""Promises of connections: who sends nothing, or reads nothing, keeps nobody out; only named proxies are believed."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import httpx
import pytest

from server.connections import room
from tests.service import Client, body, running
from twill.store.api import PREFIX

PATIENCE = 30.0


def connected(client: Client, data: bytes = b"") -> socket.socket:
    """A connection on which only that was sent."""
    url = client.base_url
    found = socket.create_connection((url.host, url.port), PATIENCE)
    found.sendall(data)
    return found


def ended(one: socket.socket) -> bool:
    """Whether the service closes the connection, of which nothing more is sent."""
    try:
        while one.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize(
    "begun",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 1000\r\n\r\ntoken=",  # a form that needs no token, and never comes
    ],
)
def test_more_half_open_connections_than_there_is_room_for_keep_nobody_out(begun: bytes, tmp_path: Path) -> None:
    with running(tmp_path, workers=0, connections=8) as client:
        held = [connected(client, begun) for _ in range(40)]
        for _ in range(3):
            assert httpx.get(f"{client.base_url}/healthz", timeout=PATIENCE).json() == {"status": "ok"}
        assert all(ended(one) for one in held[:30])
        assert len(client.server.server_state.connections) <= 9
        for one in held:
            one.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: local",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /he",
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",  # refused, its body unread
    ],
)
def test_the_head_of_a_request_has_to_come_in_time(sent: bytes, tmp_path: Path) -> None:
    with running(tmp_path, workers=0, head_seconds=0.2) as client, connected(client, sent) as one:
        assert ended(one)
        assert client.get("/healthz").status_code == 200


def test_a_head_that_comes_a_byte_at_a_time_is_not_waited_for(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, head_seconds=0.2) as client, connected(client) as one, pytest.raises(OSError):
        for byte in b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 5000:
            one.sendall(bytes([byte]))
            time.sleep(0.02)


def test_a_connection_that_is_at_work_is_not_closed_for_another(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, connections=2, head_seconds=60.0) as client:
        job = client.post(f"{PREFIX}/jobs", json=body()).json()["id"]
        head = f"GET {PREFIX}/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.close()
        streams = [connected(client, head.encode()) for _ in range(2)]
        for one in streams:
            assert one.recv(100).startswith(b"HTTP/1.1 200 ")
        with connected(client) as another:
            assert another.recv(100).startswith(b"HTTP/1.1 503 ")
        client.service.queue.cancel(job)
        for one in streams:
            said = b""
            while b"cancelled" not in said:
                said += one.recv(65536)
                assert said
            one.close()


def test_an_answer_that_nobody_reads_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.connections.STALLED", 0.2)
    with running(tmp_path, workers=0) as client:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(PATIENCE)
        one.connect((client.base_url.host, client.base_url.port))
        with pytest.raises(OSError):
            while True:  # more and more answers, none of which is read
                one.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
                time.sleep(0.01)
        one.close()


@pytest.mark.parametrize(("proxies", "believed"), [((), False), (("127.0.0.1",), True), (("10.0.0.1",), False)])
def test_a_forwarded_address_counts_only_from_a_named_proxy(
    proxies: tuple[str, ...], believed: bool, tmp_path: Path
) -> None:
    with running(tmp_path, workers=0, proxies=proxies, rate=1.0) as client:
        answers = [client.get("/v1/machines", headers={"X-Forwarded-For": f"192.0.2.{n}"}) for n in range(10)]
    assert (429 not in {answer.status_code for answer in answers}) == believed


def test_there_is_room_for_what_is_open_beside_connections() -> None:
    assert room() >= 1
