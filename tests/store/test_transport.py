"""Promises of one HTTP exchange: an answer within the deadline, or the reason why there is none."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import time

import pytest

from tests.services import Request, answer, dead_address, drip, playing, raw, silence
from twill.exc import BadServerAddress
from twill.store import transport as transport_module
from twill.store.transport import NoAnswer, Transport


def test_a_request_says_what_it_is_and_the_answer_comes_whole() -> None:
    with playing(answer("body", 201, X_Name="value")) as service:
        transport = Transport(service.address + "/prefix/", "secret")
        got = transport.exchange("POST", "/v1/jobs", 5, b"{}", {"If-None-Match": '"x"'})
        assert (got.status, got.body, got.headers["x-name"]) == (201, b"body", "value")
        (request,) = service.seen
        assert (request.method, request.path, request.body) == ("POST", "/prefix/v1/jobs", b"{}")
        assert request.headers["authorization"] == "Bearer secret"
        assert request.headers["if-none-match"] == '"x"'
        assert request.headers["content-type"] == "application/json"
        transport.close()


def test_a_connection_is_used_again() -> None:
    with playing(answer("1")) as service:
        transport = Transport(service.address)
        assert [transport.exchange("GET", "/", 5).body for _ in range(3)] == [b"1"] * 3
        assert service.connections == 1
        transport.close()


def test_a_connection_that_was_closed_meanwhile_is_replaced() -> None:
    def last(connection: socket.socket, request: Request) -> None:
        answer("1")(connection, request)
        request.close = True

    with playing(last) as service:
        transport = Transport(service.address)
        assert [transport.exchange("GET", "/", 5).body for _ in range(3)] == [b"1"] * 3
        assert service.connections == 3
        transport.close()


def hang_up(connection: socket.socket, request: Request) -> None:
    """Reads the request and closes the connection: an orderly end in the place of an answer."""
    request.close = True


def test_a_connection_that_is_closed_just_when_it_is_used_is_replaced() -> None:
    with playing(answer("1"), hang_up, answer("2")) as service:
        transport = Transport(service.address)
        assert [transport.exchange("GET", "/", 5).body for _ in range(2)] == [b"1", b"2"]
        assert service.connections == 2
        transport.close()


def test_a_chunked_answer_is_read() -> None:
    body = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    with playing(raw(body)) as service:
        assert Transport(service.address).exchange("GET", "/", 5).body == b"abcde"


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (raw(b""), "disconnected without sending a response"),
        (raw(b"\x00\xff garbage\r\n\r\n"), "not an HTTP answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), r"received 3 bytes, expected 10"),
        (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc"), "not an HTTP answer"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), "more than"),
        (raw(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3000), "more than 2000 bytes"),
        (raw(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 200), "not an HTTP answer"),
    ],
)
def test_what_is_no_whole_answer_has_a_reason(reply: object, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "BODY", 2000)
    with playing(reply) as service, pytest.raises(NoAnswer, match=why):  # type: ignore[arg-type]
        Transport(service.address).exchange("GET", "/", 5)


def drip_head(connection: socket.socket, request: Request) -> None:
    """A head of one byte at a time, that never ends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


@pytest.mark.parametrize("reply", [silence, drip, drip_head])
def test_the_deadline_holds_also_for_one_byte_at_a_time(reply: object) -> None:
    with playing(reply) as service:  # type: ignore[arg-type]
        begun = time.monotonic()
        with pytest.raises(NoAnswer, match="no answer in time"):
            Transport(service.address).exchange("GET", "/", 0.2)
        assert time.monotonic() - begun < 2


def test_nobody_there_is_said_at_once() -> None:
    with pytest.raises(NoAnswer, match="refused"):
        Transport(dead_address()).exchange("GET", "/", 5)
    with pytest.raises(NoAnswer, match="in time"):
        Transport(dead_address()).exchange("GET", "/", 0)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:80",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://u:p@host",
        "http://h/?q=1",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(BadServerAddress):
        Transport(address)


def test_a_token_that_would_break_the_header_is_refused() -> None:
    with pytest.raises(BadServerAddress, match="not the address"):
        Transport("http://host", "a\r\nb")


def test_a_fork_does_not_use_the_connections_of_its_parent() -> None:
    with playing(answer("1")) as service:
        transport = Transport(service.address)
        transport.exchange("GET", "/", 5)
        transport.process = os.getpid() + 1  # as it is in a child
        assert transport.exchange("GET", "/", 5).body == b"1"
        assert service.connections == 2
        transport.close()


def test_a_redirect_is_an_answer_and_nobody_else_is_asked() -> None:
    with playing(answer("no")) as elsewhere, playing(answer("", 302, Location=elsewhere.address)) as service:
        transport = Transport(service.address, "secret")
        assert transport.exchange("GET", "/", 5).status == 302
        assert elsewhere.connections == 0
        transport.close()


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(answer("no")) as proxy, playing(answer("1")) as service:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.address)
        transport = Transport(service.address, "secret")
        assert transport.exchange("GET", "/", 5).body == b"1"
        assert proxy.connections == 0
        transport.close()


def test_a_packed_answer_is_not_asked_for_and_not_unpacked() -> None:
    with playing(answer(gzip.compress(b"x" * 10**6), Content_Encoding="gzip")) as service:
        transport = Transport(service.address)
        assert len(transport.exchange("GET", "/", 5).body) < 10**4
        assert service.seen[0].headers["accept-encoding"] == "identity"
        transport.close()


def test_nothing_is_imported_for_http_before_something_is_asked() -> None:
    code = (
        "import sys, twill, twill.runtime.jit\n"
        "from twill.store.location import open_store\n"
        "store = open_store(server='http://localhost:1', environment={'TWILL_STORE': 'off'})\n"
        "assert store.http is not None and not {'httpx', 'httpcore', 'networkx'} & set(sys.modules)\n"
        "store.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
