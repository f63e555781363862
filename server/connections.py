"""Connections that nobody can hold by sending nothing: a time for a request's head, a number that are open at once.

A connection *waits* while none of its requests is being answered: before its first one, between two of them, and while
a head or a body that nobody reads any more still comes. One that waits may be closed for another one when all are
taken, the one that waits longest first, and if none does, one whose body is still on its way, the oldest first; so
half-open connections keep nobody out, whatever they have sent.
"""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

RESERVED = 256  # descriptors that are not for connections: databases, pipes, logs
STALLED = 60.0  # seconds after which an answer that its client does not read is given up
FULL = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\nRetry-After: 5\r\n\r\n"


def guarded(most: int, seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol with these limits. most: connections at once. seconds: for the head of a request to come."""
    waiting: OrderedDict[GuardedConnection, None] = OrderedDict()
    sending: OrderedDict[GuardedConnection, None] = OrderedDict()
    shared = {"most": most, "seconds": seconds, "waiting": waiting, "sending": sending}
    return type("Guarded", (GuardedConnection,), shared)


def room() -> int:
    """As many connections as there are descriptors for, once the process may have as many as it is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 2**31 if hard == resource.RLIM_INFINITY else max(1, hard - RESERVED)


class GuardedConnection(H11Protocol):
    """One connection; see the top of this file. Everything happens on the event loop."""

    most: int
    seconds: float
    waiting: OrderedDict[GuardedConnection, None]
    sending: OrderedDict[GuardedConnection, None]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.head: asyncio.TimerHandle | None = None  # until the head that is coming has to be there
        self.stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room if there is none, and begin to wait."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            gives_way = self.waiting or self.sending
            if not gives_way:
                transport.write(FULL)
                transport.close()
                return
            oldest, _ = gives_way.popitem(last=False)
            oldest.give_up()
        self.look(begun=True)

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        super().data_received(data)
        self.look(begun=True)

    def on_response_complete(self) -> None:
        """The next request may come, as late as it likes."""
        super().on_response_complete()
        self.look(begun=self.conn.their_state is h11.SEND_BODY or bool(self.conn.trailing_data[0]))

    def look(self, begun: bool) -> None:
        """Whether this connection waits now. begun: for a head of which something came, or the first one."""
        if self.transport.is_closing() or self.cycle is not None and not self.cycle.response_complete:
            self.forget(sending=self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing())
        else:
            self.sending.pop(self, None)
            self.waiting.setdefault(self)
            if begun and self.head is None:
                self.head = self.loop.call_later(self.seconds, self.give_up)

    def forget(self, sending: bool = False) -> None:
        """It does not wait. sending: the body of its request is still on its way."""
        self.waiting.pop(self, None)
        if sending:
            self.sending.setdefault(self)
        else:
            self.sending.pop(self, None)
        if self.head is not None:
            self.head.cancel()
            self.head = None

    def give_up(self) -> None:
        """Close it without another word."""
        self.forget()
        self.transport.abort()

    def pause_writing(self) -> None:
        """The client does not read what it asked for."""
        super().pause_writing()
        if self.stall is None:
            self.stall = self.loop.call_later(STALLED, self.give_up)

    def resume_writing(self) -> None:
        """It does."""
        super().resume_writing()
        self.moving()

    def moving(self) -> None:
        """What was written is read."""
        if self.stall is not None:
            self.stall.cancel()
            self.stall = None

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self.forget()
        self.moving()
        super().connection_lost(exc)
