"""A service played by a test: an HTTP server on loopback that answers as it is told, whatever that is."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from twill.store.interface import Entry

Reply = Callable[[socket.socket, "Request"], None]
"""Writes an answer into the connection; the connection is closed if it returns with `request.close` set."""


@dataclass
class Request:
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    close: bool = False


@dataclass
class Played:
    """The service: `replies` are used one after the other, the last one for good."""

    replies: list[Reply]
    address: str = ""
    seen: list[Request] = field(default_factory=list)
    connections: int = 0

    def next(self) -> Reply:
        """The reply to the next request."""
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@contextlib.contextmanager
def playing(*replies: Reply) -> Iterator[Played]:
    """A service that answers so, while the block runs."""
    played = Played(list(replies))
    listener = socket.create_server(("127.0.0.1", 0))
    played.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    open_now: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            played.connections += 1
            open_now.append(connection)
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    def serve(connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while True:
                try:
                    request = read(stream)
                    if request is None:
                        return
                    played.seen.append(request)
                    played.next()(connection, request)
                except OSError:
                    return
                if request.close:
                    return

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield played
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        for connection in open_now:
            with contextlib.suppress(OSError):  # it may be closed already
                connection.shutdown(socket.SHUT_RDWR)
        for one in threads:
            one.join()


def read(stream: BinaryIO) -> Request | None:
    """A request; None at the end of the connection."""
    line = stream.readline().decode().split()
    if not line:
        return None
    headers: dict[str, str] = {}
    while raw := stream.readline().decode().strip():
        name, _, value = raw.partition(":")
        headers[name.lower()] = value.strip()
    body = stream.read(int(headers.get("content-length", 0)))
    return Request(line[0], line[1], headers, body)


def raw(data: bytes) -> Reply:
    """These bytes, and then nothing more."""

    def reply(connection: socket.socket, request: Request) -> None:
        connection.sendall(data)
        request.close = True

    return reply


def answer(body: str | bytes, status: int = 200, **headers: str) -> Reply:
    """An answer; header names have "_" for "-"."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Played", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    data = "\r\n".join([*lines, "", ""]).encode() + content
    return lambda connection, request: connection.sendall(data)


def entry_answer(entry: Entry) -> Reply:
    """An entry as the service sends it."""
    body = entry.canonical()
    return answer(body, ETag=f'"{hashlib.sha256(body.encode()).hexdigest()}"')


def refusal(status: int, message: str = "no", **headers: str) -> Reply:
    """A refusal with its document."""
    text = json.dumps({"kind": "Played", "message": message, "hint": "", "request_id": "r1"})
    return answer(text, status, **headers)


def silence(connection: socket.socket, request: Request) -> None:
    """No answer, as long as the client waits."""
    request.close = True
    while connection.recv(1024):
        pass


def drip(connection: socket.socket, request: Request) -> None:
    """An answer of one byte at a time, that never ends."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        connection.sendall(b" ")
        threading.Event().wait(0.02)


def dead_address() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
