"""Around every request: an id, a log line, metrics, security headers, and an answer when all else fails."""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twill.store.api import REQUEST_ID

from . import traces
from .logs import request_id
from .metrics import Metrics
from .refusals import RefusedRequest

GOOD_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without a referrer, a form's origin would not be told either
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
POLICY = "default-src 'none'; frame-ancestors 'none'"  # of whatever is no page
ALWAYS = tuple((name.lower().encode(), value.encode()) for name, value in HEADERS.items())  # as they are sent
UNLESS_SAID = ((b"content-security-policy", POLICY.encode()), (b"cache-control", b"no-store"))
NAMED = REQUEST_ID.lower().encode()

log = logging.getLogger("twill.server.access")


class Around:
    """See the top of this file. hosts: names that the service may be called by (None: any).

    A service without tokens trusts whoever reaches it, so a page of another site must not reach it under a
    name of its own (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: frozenset[str] | None) -> None:
        self.app = app
        self.metrics = metrics
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        name = given if GOOD_ID.fullmatch(given) else uuid.uuid4().hex
        token = request_id.set(name)
        try:
            with traces.span(scope["method"], traces.parent_of(headers)) as span:
                request = _Request(self, scope, receive, send, name)
                await request.answer()
                span.update_name(f"{scope['method']} {request.route()}")
                span.set_attribute("http.response.status_code", request.status)
                span.set_attribute("twill.request", name)
        finally:
            request_id.reset(token)

    def is_ours(self, scope: Scope) -> bool:
        """Whether the request calls the service by a name that it may be called by."""
        host = Headers(scope=scope).get("host", "")
        return self.hosts is None or host_name(host) in self.hosts


class _Request:
    """One request, and what is known of its answer."""

    def __init__(self, around: Around, scope: Scope, receive: Receive, send: Send, name: str) -> None:
        self.around = around
        self.scope = scope
        self.receive = receive
        self.send = send
        self.name = name
        self.status = 0
        self.begun = time.perf_counter()

    async def answer(self) -> None:
        """Answer, and tell log and metrics."""
        try:
            if self.around.is_ours(self.scope):
                await self.around.app(self.scope, self.receive, self.passing)
            else:
                hint = "http://localhost or http://127.0.0.1; a service with tokens answers to any name"
                await self.refuse(RefusedRequest(403, "ForeignHost", "this service is called by another name", hint))
        except Exception:
            log.exception("a mistake of the service")
            if not self.status:
                hint = "report it, with this request_id and the server's log"
                await self.refuse(RefusedRequest(500, "Internal", "a mistake of the service", hint))
        finally:
            self.tell()

    async def passing(self, message: Message) -> None:
        """Send on, with our headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            said = {name for name, _ in message["headers"]}
            more = [header for header in UNLESS_SAID if header[0] not in said]
            message["headers"] = [*message["headers"], *more, *ALWAYS, (NAMED, self.name.encode())]
        await self.send(message)

    async def refuse(self, refused: RefusedRequest) -> None:
        """Send an error's document."""
        body = refused.document(self.name).canonical().encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self.passing({"type": "http.response.start", "status": refused.status, "headers": headers})
        await self.passing({"type": "http.response.body", "body": body})

    def route(self) -> str:
        """The pattern of its path; "none" where there is no such path."""
        return str(getattr(self.scope.get("route"), "path", "none"))

    def tell(self) -> None:
        """One line in the log; the route's pattern, not the path, in the metrics, of which there are few."""
        seconds = time.perf_counter() - self.begun
        route = self.route()
        method = self.scope["method"] if route != "none" else "any"
        self.around.metrics.requests.labels(method, route, str(self.status)).inc()
        self.around.metrics.seconds.labels(route).observe(seconds)
        if log.isEnabledFor(logging.INFO):
            log.info("request", extra=about(self.scope, self.status, seconds))


def about(scope: MutableMapping[str, Any], status: int, seconds: float) -> dict[str, object]:
    """What the log says of a request: never its query's or headers' content."""
    client = scope.get("client")
    return {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "milliseconds": round(1000 * seconds, 2),
        "client": client[0] if client else None,
    }


def host_name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()
