"""Who is asking, may they, and not too often: what stands before every route."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from .refusals import RefusedRequest
from .service import Service
from .tokens import Caller, Scope

COOKIE = "twill_token"
EVERYTHING: frozenset[Scope] = frozenset({"admin"})
SAFE = ("GET", "HEAD")

bearer = HTTPBearer(auto_error=False, description="A token of the service's token file; none is needed without one.")

Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]


def service_of(request: Request) -> Service:
    """The service that answers."""
    found: Service = request.app.state.service
    return found


def address_of(request: Request) -> str:
    """The address that the request comes from."""
    return request.client.host if request.client else "unknown"


def client_of(request: Request, token: str | None) -> Caller | None:
    """Whoever asks; None if a token is needed and this is none."""
    tokens = service_of(request).tokens
    if tokens is None:
        return Caller(address_of(request), EVERYTHING)
    return None if token is None else tokens.client(token)


def token_of(request: Request, credentials: HTTPAuthorizationCredentials | None) -> str | None:
    """The token of the header; or the page's cookie, which another site could use, for what changes nothing."""
    if credentials is not None:
        return credentials.credentials
    return request.cookies.get(COOKIE) if request.method in SAFE else None


def not_too_often(request: Request, client: Caller | None) -> None:
    """Raise Refused if the client, or the address of nobody we know, asks more often than it may."""
    name = f"token {client.name}" if client and service_of(request).tokens else f"address {address_of(request)}"
    wait = service_of(request).rate.wait(name)
    if wait > 0:
        seconds = max(1, math.ceil(wait))
        hint = f"the same again in {seconds} s"
        raise RefusedRequest(429, "RateLimit", "too many requests", hint, {"Retry-After": str(seconds)})


def allow(client: Caller | None, scope: Scope) -> Caller:
    """The client, if it may; raises Refused."""
    if client is None:
        hint = "Authorization: Bearer TOKEN, with a token of this service"
        raise RefusedRequest(401, "Unauthorized", "a token is needed", hint, {"WWW-Authenticate": "Bearer"})
    if client.expired():
        hint = "a new token, of the service's operator"
        message = f"the token {client.name} has expired, on {client.last_day}"
        raise RefusedRequest(401, "TokenExpired", message, hint, {"WWW-Authenticate": "Bearer"})
    if not client.may(scope):
        raise RefusedRequest(
            403, "Forbidden", f"the token {client.name} lacks the scope {scope}", f"a token with {scope}"
        )
    return client


def scope(needed: Scope) -> Callable[[Request, Credentials], Awaitable[Caller]]:
    """A dependency: the client, who has the scope."""

    async def check(request: Request, credentials: Credentials) -> Caller:
        client = client_of(request, token_of(request, credentials))
        not_too_often(request, client)
        return allow(client, needed)

    return check


Reader = Annotated[Caller, Depends(scope("read"))]
Solver = Annotated[Caller, Depends(scope("solve"))]
Admin = Annotated[Caller, Depends(scope("admin"))]
