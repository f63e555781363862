"""Look-ups of schedules that are in memory, answered before the framework looks for their route.

They are what a service is asked most, and finding route, parameters and dependencies takes longer than all that is
particular to them. Whoever may not read, asks for what is not in memory, or sends a header beyond its limit, is the
route's (`routes.get_schedule`), whose answers are the same.
"""

from __future__ import annotations

import re
from types import SimpleNamespace

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from twill.store.api import PREFIX

from .access import client_of, not_too_often
from .answers import LONGEST_CONDITION, ScheduleAnswer, headers_of, matches
from .refusals import RefusedRequest
from .service import Service

PATH = re.compile(rf"{PREFIX}/schedules/([0-9a-f]{{64}})")
ROUTE = SimpleNamespace(path=f"{PREFIX}/schedules/{{key}}")  # what metrics call it


class AtHand:
    """Around the router; see the top of this file."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        found = self.found(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        if found is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = ROUTE
        self.service.metrics.lookups.labels("found").inc()
        headers = headers_of(found, self.service.tokens is not None)
        known = Request(scope).headers.get("if-none-match")
        status, body = (304, b"") if known is not None and matches(known, found.etag) else (200, found.body)
        if body:
            headers |= {"content-length": str(len(body)), "content-type": "application/json"}
        raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    def found(self, scope: Scope) -> ScheduleAnswer | None:
        """The answer, if it is in memory and the client may have it now."""
        asked = PATH.fullmatch(scope["path"])
        found = None if asked is None else self.service.answers.remembered(asked[1])
        if found is None:
            return None
        request = Request(scope)
        if len(request.headers.get("if-none-match", "")) > LONGEST_CONDITION:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if self.service.tokens is not None and scheme.lower() != "bearer":
            return None
        client = client_of(request, token)
        if client is None or client.expired() or not client.may("read"):
            return None
        try:
            not_too_often(request, client)
        except RefusedRequest:
            return None
        return found
