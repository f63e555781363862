"""One HTTP exchange within a deadline, over connections that are kept open (httpx).

The deadline covers all of an exchange, also with a service that sends one byte at a time; only looking up
a host's name is left to the system. Redirects are not followed, proxies of the environment not used, answers not
unpacked. httpx is imported when something is asked, so that nobody waits for it who asks no service.
"""

from __future__ import annotations

import os
import re
import ssl
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from twill.exc import BadServerAddress

if TYPE_CHECKING:
    import httpx

BODY = 32 * 2**20  # bytes of an answer that are read
HINT = "an address such as http://localhost:8787 or https://twill.example.org/prefix"


@dataclass(frozen=True)
class HttpResponse:
    """status, headers (names in small letters), body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoAnswer(Exception):
    """There was no whole answer; the message is the reason."""


class Transport:
    """Exchanges with the service at `address`; may be used by several threads at once. token: a bearer token."""

    def __init__(self, address: str, token: str = "") -> None:
        parts = urlsplit(address)
        try:
            right = parts.port != 0  # raises for what is no number
        except ValueError:
            right = False
        if not right or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise BadServerAddress(address, HINT)
        if parts.username is not None or parts.password is not None:
            raise BadServerAddress(address, "no name or password in the address; tokens are given by TWILL_TOKEN")
        if not token.isascii() or not token.isprintable():
            raise BadServerAddress(address, "a token of printable ASCII characters in TWILL_TOKEN")
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self.headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "twill"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self.lock = threading.Lock()
        self.process = os.getpid()
        self.client: httpx.Client | None = None

    def exchange(
        self,
        method: str,
        path: str,
        seconds: float,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """The answer to one request, whatever its status. Raises NoAnswer."""
        more = {"Content-Type": "application/json"} if body is not None else {}
        with self.answered(method, path, seconds, body, {**more, **(headers or {})}) as response:
            announced = response.headers.get("content-length", "")
            if announced.isdigit() and int(announced) > BODY:
                raise NoAnswer(f"the answer has {announced} bytes, more than {BODY}")
            found = bytearray()
            for part in response.iter_raw():
                found += part
                if len(found) > BODY:
                    raise NoAnswer(f"the answer has more than {BODY} bytes")
            return HttpResponse(response.status_code, dict(response.headers), bytes(found))

    @contextmanager
    def stream(self, path: str, seconds: float) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Status and lines of an answer that goes on (server-sent events). Raises NoAnswer, also between lines."""
        with self.answered("GET", path, seconds, None, {"Accept": "text/event-stream"}) as response:
            yield response.status_code, lines(response.iter_raw())

    @contextmanager
    def answered(
        self, method: str, path: str, seconds: float, body: bytes | None, headers: Mapping[str, str]
    ) -> Iterator[httpx.Response]:
        """An answer whose body is still to be read."""
        import httpx

        from twill.store.deadline import within

        try:
            with ExitStack() as open_ones:
                open_ones.enter_context(within(seconds))
                try:
                    response = open_ones.enter_context(self.asked(method, path, body, headers))
                except (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError) as error:
                    if isinstance(error, httpx.RemoteProtocolError) and "without sending" not in str(error):
                        raise  # there was an answer, and it is none of HTTP
                    # The kept connection was closed just when it was used.
                    response = open_ones.enter_context(self.asked(method, path, body, headers))
                yield response
        except httpx.TimeoutException:
            raise NoAnswer("no answer in time") from None
        except httpx.RemoteProtocolError as error:
            raise NoAnswer(f"not an HTTP answer: {' '.join(str(error).split())[:200]}") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise NoAnswer(re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__) from error

    def asked(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> AbstractContextManager[httpx.Response]:
        """One request over a connection of this process."""
        import httpx

        from twill.store.deadline import DeadlineTransport as Deadlines

        with self.lock:
            if self.client is None or self.process != os.getpid():  # a parent's connections are its own
                deadlines = Deadlines(verify=ssl.create_default_context(), trust_env=False)
                self.client = httpx.Client(transport=deadlines, trust_env=False, headers=self.headers)
                weakref.finalize(self, self.client.close)
                self.process = os.getpid()
            client = self.client
        return client.stream(method, self.address + path, content=body, headers=dict(headers))

    def close(self) -> None:
        """Close what is kept."""
        with self.lock:
            if self.client is not None and self.process == os.getpid():
                self.client.close()
            self.client = None


def lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of a text that comes in parts; none may be longer than BODY."""
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
        if len(rest) > BODY:
            raise NoAnswer(f"a line of the answer has more than {BODY} bytes")
