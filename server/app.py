"""The application: routes and pages around one service."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from twill.exc import StoreUnavailable
from twill.schedule.file import field
from twill.store.api import PREFIX, Submission

from .at_hand import AtHand
from .logs import request_id
from .middleware import Around
from .pages import pages
from .pages.routes import refused_page
from .queue import QueueUnavailable
from .refusals import MEANINGS, RefusedRequest
from .routes import api, operators
from .service import Service
from .settings import LOOPBACK_NAMES, is_loopback

DESCRIPTION = """Optimal software pipelines and warp specialization for Triton kernels, solved once and kept.

Submit what `twill extract FILE --json` prints; fetch the schedule by its key. Whatever is not 2xx or 304 has a
`Refusal` as its body."""

KINDS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "NoSuchMethod", 415: "NotJson"}
LOCAL_HOSTS = frozenset({*LOOPBACK_NAMES, "127.0.0.1", "[::1]"})


def create_app(service: Service) -> FastAPI:
    """An application that starts the service's workers when it starts, and stops them when it ends."""

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        try:
            yield
        finally:
            service.stop()

    app = FastAPI(
        title="Twill", version="1", description=DESCRIPTION, lifespan=life, docs_url=None, redoc_url=None,
        openapi_url="/openapi.json",
    )  # fmt: skip
    app.state.service = service
    app.include_router(api)
    app.include_router(operators)
    app.include_router(pages)
    app.add_middleware(AtHand, service=service)
    app.add_middleware(Around, metrics=service.metrics, hosts=own_names(service))
    app.add_exception_handler(RefusedRequest, on_refused)
    app.add_exception_handler(StoreUnavailable, on_unavailable)
    app.add_exception_handler(QueueUnavailable, on_no_queue)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(HTTPException, on_http)
    app.openapi = described(app.openapi, guarded=service.tokens is not None)  # type: ignore[method-assign]
    return app


def own_names(service: Service) -> frozenset[str] | None:
    """The names that the service may be called by; None: any, as tokens tell friends from others."""
    if service.tokens is not None:
        return None
    host = service.settings.host.lower()
    return LOCAL_HOSTS | {host} if is_loopback(host) else None


def refusal(refused: RefusedRequest) -> Response:
    """An error as an answer."""
    body = refused.document(request_id.get()).canonical()
    return Response(body, refused.status, refused.headers, "application/json")


async def on_refused(request: Request, error: Exception) -> Response:
    """What our own routes refuse."""
    assert isinstance(error, RefusedRequest)
    return refusal(error)


async def on_unavailable(request: Request, error: Exception) -> Response:
    """The store cannot be reached now."""
    assert isinstance(error, StoreUnavailable)
    return refusal(RefusedRequest(503, "StoreUnavailable", error.message, error.hint, {"Retry-After": "5"}))


async def on_no_queue(request: Request, error: Exception) -> Response:
    """The jobs cannot be read or written now: the disk is full, or the file damaged."""
    return refusal(RefusedRequest(503, "QueueUnavailable", str(error), headers={"Retry-After": "5"}))


async def on_invalid(request: Request, error: Exception) -> Response:
    """A path, query or header parameter of the wrong form."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return refusal(RefusedRequest(422, "BadParameter", f"{field(tuple(first['loc']))}: {first['msg']}"))


async def on_http(request: Request, error: Exception) -> Response:
    """What the framework refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)
    kind = KINDS.get(error.status_code, "Refused")
    message = MEANINGS.get(error.status_code, str(error.detail))
    if error.status_code == 404 and wants_page(request):
        return refused_page(
            RefusedRequest(404, kind, f"there is no page {request.url.path}", "the queue, or the schedules")
        )
    headers = {"Allow": ", ".join(methods_of(request))} if error.status_code == 405 else {}
    return refusal(RefusedRequest(error.status_code, kind, message, headers=headers))


def wants_page(request: Request) -> bool:
    """Whether a browser asks for a page, not a program for the API."""
    asked = request.headers.get("accept", "")
    return "text/html" in asked and not request.url.path.startswith(f"{PREFIX}/")


def methods_of(request: Request) -> list[str]:
    """What the path can be asked; the framework tells of one route only, of several that share a path."""
    routes = (route for router in (api, operators, pages) for route in router.routes if isinstance(route, APIRoute))
    path = request.url.path
    return sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})


def described(generate: Callable[[], dict[str, Any]], guarded: bool) -> Callable[[], dict[str, Any]]:
    """OpenAPI with the one body that the framework does not read itself, and without tokens if none are asked for."""

    def openapi() -> dict[str, Any]:
        document = generate()
        schemas = document["components"]["schemas"]
        if "Submission-Input" not in schemas:
            found = Submission.model_json_schema(ref_template="#/components/schemas/{model}-Input", mode="validation")
            parts = found.pop("$defs", {})
            schemas.update({f"{name}-Input": schema for name, schema in {**parts, "Submission": found}.items()})
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
        if not guarded:
            document["components"].pop("securitySchemes", None)
            for operation in (one for path in document["paths"].values() for one in path.values()):
                operation.pop("security", None)
        return document

    return openapi
