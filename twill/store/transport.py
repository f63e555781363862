"""One HTTP exchange within a deadline, over connections that are kept open. Standard library only.

The deadline covers all of an exchange, also with a service that sends one byte at a time; only looking up
a host's name is left to the system. Redirects are not followed, proxies of the environment not used.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from twill.exc import BadServerAddress

BODY = 32 * 2**20  # bytes of an answer that are read
CHUNK = 2**16
HINT = "an address such as http://localhost:8787 or https://twill.example.org/prefix"


@dataclass(frozen=True)
class Answer:
    """status, headers (names in small letters), body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswer(Exception):
    """There was no whole answer; the message is the reason. sent: the service may have seen the request."""


class Deadline:
    """A moment after which nothing waits any more."""

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left; raises NoAnswer if there are none."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise NoAnswer("no answer in time")
        return left


class Timed(io.RawIOBase):
    """What is read from a socket, every time with the time that is left."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self.sock, self.deadline = sock, deadline

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what is there, or wait."""
        self.sock.settimeout(self.deadline.left())
        return self.sock.recv_into(buffer)


class Reader:
    """What `http.client.HTTPResponse` takes for a socket."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self.raw = Timed(sock, deadline)

    def makefile(self, mode: str) -> io.BufferedReader:
        """The stream of the answer."""
        return io.BufferedReader(self.raw, CHUNK)


class Transport:
    """Exchanges with the service at `address`; may be used by several threads at once. token: a bearer token."""

    def __init__(self, address: str, token: str = "") -> None:
        parts = urlsplit(address)
        try:
            port = parts.port
        except ValueError:
            raise BadServerAddress(address, HINT) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise BadServerAddress(address, HINT)
        if parts.username is not None or parts.password is not None:
            raise BadServerAddress(address, "no name or password in the address; tokens are given by TWILL_TOKEN")
        if not token.isascii() or not token.isprintable():
            raise BadServerAddress(address, "a token of printable ASCII characters in TWILL_TOKEN")
        self.secure = parts.scheme == "https"
        self.host, self.port = parts.hostname, port or (443 if self.secure else 80)
        self.prefix = parts.path.rstrip("/")
        self.headers = {"Host": parts.netloc, "Accept": "application/json", "User-Agent": "twill"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.lock = threading.Lock()
        self.idle: list[socket.socket] = []
        self.process = os.getpid()
        weakref.finalize(self, close_all, self.idle)

    def exchange(
        self,
        method: str,
        path: str,
        seconds: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The answer to one request, whatever its status. Raises NoAnswer."""
        deadline = Deadline(seconds)
        request = self.request(method, path, body, headers or {})
        kept = self.take()
        if kept is not None:
            # The service may have closed it meanwhile, which only shows when it is used. Whatever is asked here
            # may be asked twice: the same submission is the same job.
            try:
                return self.talk(kept, method, request, deadline)
            except NoAnswer:
                deadline.left()
        return self.talk(self.connect(deadline), method, request, deadline)

    def request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        """A request's bytes."""
        lines = [f"{method} {self.prefix}{path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in (self.headers | dict(headers)).items()]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + (body or b"")

    def connect(self, deadline: Deadline) -> socket.socket:
        """A new connection."""
        try:
            sock = socket.create_connection((self.host, self.port), deadline.left())
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.secure:
                sock.settimeout(deadline.left())
                sock = ssl.create_default_context().wrap_socket(sock, server_hostname=self.host)
            return sock
        except OSError as error:
            raise NoAnswer(reason(error)) from error

    def talk(self, sock: socket.socket, method: str, request: bytes, deadline: Deadline) -> Answer:
        """Send, read the whole answer, and keep the connection if it may be kept."""
        done = False
        try:
            sock.settimeout(deadline.left())
            sock.sendall(request)
            response = http.client.HTTPResponse(Reader(sock, deadline), method=method)  # type: ignore[arg-type]
            response.begin()
            answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, whole(response))
            done = not response.will_close
            return answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(reason(error)) from error
        finally:
            if done:
                self.give(sock)
            else:
                sock.close()

    def stream(self, path: str, seconds: float) -> tuple[socket.socket, http.client.HTTPResponse]:
        """An answer that goes on (server-sent events); raises NoAnswer. The caller closes the socket."""
        deadline = Deadline(seconds)
        sock = self.connect(deadline)
        try:
            sock.settimeout(deadline.left())
            sock.sendall(self.request("GET", path, None, {"Accept": "text/event-stream"}))
            response = http.client.HTTPResponse(Reader(sock, deadline), method="GET")  # type: ignore[arg-type]
            response.begin()
            return sock, response
        except (OSError, http.client.HTTPException, ValueError, NoAnswer) as error:
            sock.close()
            raise NoAnswer(reason(error)) from error

    def take(self) -> socket.socket | None:
        """A connection that was kept by this process."""
        with self.lock:
            if self.process != os.getpid():
                close_all(self.idle)
                self.process = os.getpid()
            return self.idle.pop() if self.idle else None

    def give(self, sock: socket.socket) -> None:
        """Keep a connection."""
        with self.lock:
            self.idle.append(sock)

    def close(self) -> None:
        """Close what is kept."""
        with self.lock:
            close_all(self.idle)


def close_all(idle: list[socket.socket]) -> None:
    """Close connections; those of a parent process stay open there."""
    while idle:
        idle.pop().close()


def whole(response: http.client.HTTPResponse) -> bytes:
    """The body; raises NoAnswer if it is cut or too large."""
    if response.length is not None and response.length > BODY:
        raise NoAnswer(f"the answer has {response.length} bytes, more than {BODY}")
    parts, size = [], 0
    while part := response.read(CHUNK):
        parts.append(part)
        size += len(part)
        if size > BODY:
            raise NoAnswer(f"the answer has more than {BODY} bytes")
    if response.length:
        raise NoAnswer(f"the answer ends {response.length} bytes early")
    return b"".join(parts)


def reason(error: Exception) -> str:
    """Why there was no answer, in words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    if isinstance(error, NoAnswer):
        return str(error)
    return f"not an HTTP answer: {' '.join(f'{type(error).__name__}: {error}'.split())[:200]}"
