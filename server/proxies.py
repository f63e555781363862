"""Proxies in front of the service: what a trusted one says of its clients counts, what anybody else says does not."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from fastapi import Request
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from .refusals import RefusedRequest
from .tokens import Caller
from .tokens import Scope as Right

PEER = "twill.peer"  # in a request's scope: the address that the connection comes from
USER = re.compile(r"[A-Za-z0-9._@+-]{1,100}")


class Proxies:
    """Around the application: remembers who is connected, and then lets trusted proxies say for whom they ask."""

    def __init__(self, app: ASGIApp, trusted: tuple[str, ...]) -> None:
        self.app: ASGIApp = ProxyHeadersMiddleware(app, list(trusted)) if trusted else app  # type: ignore[arg-type, assignment]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            scope[PEER] = scope["client"][0] if scope.get("client") else ""
        await self.app(scope, receive, send)


def is_trusted(address: str, proxies: Iterable[str]) -> bool:
    """Whether an address is one of the proxies, or in one of their networks."""
    try:
        found = ipaddress.ip_address(address)
        return any(found in ipaddress.ip_network(proxy, strict=False) for proxy in proxies)
    except ValueError:
        return address in proxies


def user_of(request: Request, header: str, rights: frozenset[Right], proxies: Iterable[str]) -> Caller | None:
    """The user that a trusted proxy says is looking; None if it says nothing, or is not trusted. Raises Refused."""
    said = request.headers.get(header) if header else None
    if said is None or not is_trusted(request.scope.get(PEER, ""), proxies):
        return None
    if not USER.fullmatch(said):
        hint = "letters, digits and . _ @ + -, at most 100"
        raise RefusedRequest(403, "Forbidden", "the proxy names no user that could be written down", hint)
    return Caller(f"user:{said}", rights)
