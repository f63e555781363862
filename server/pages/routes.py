"""Where the pages are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from twill.exc import InvalidSchedule, StoreUnavailable
from twill.show.html import resource
from twill.store.api import ENDED
from twill.store.interface import Entry

from ..access import COOKIE, allow, client_of, not_too_often, service_of
from ..proxies import user_of
from ..queue import QueueUnavailable
from ..refusals import RefusedRequest
from ..tokens import Caller, Scope
from . import views
from .compare import compare_form, compare_page
from .forms import read_form, refuse_other_sites, submission_of, words
from .layout import file, page

RECENT = 50
LISTED = 50
SIGNED_IN = 30 * 24 * 3600  # seconds for which a browser keeps the token
AGAIN = '<noscript><meta http-equiv="refresh" content="3"></noscript>'  # progress, where no script runs

Words = Annotated[str, Query(max_length=200)]
Before = Annotated[int | None, Query(ge=1, le=2**62)]


class PageRoute(APIRoute):
    """A route whose errors are pages, too; who is not signed in is asked to."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler, with that around it."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except RefusedRequest as refused:
                if refused.status == 401:
                    return RedirectResponse("/login", 303)
                return refused_page(refused)
            except StoreUnavailable as error:
                return refused_page(RefusedRequest(503, "StoreUnavailable", error.message, error.hint))
            except QueueUnavailable as error:
                return refused_page(RefusedRequest(503, "QueueUnavailable", str(error)))

        return handle


pages = APIRouter(route_class=PageRoute, include_in_schema=False)


def refused_page(refused: RefusedRequest) -> Response:
    """An error as a page."""
    found = page("Sorry", views.refused_page(refused.message, refused.hint), status=refused.status)
    found.headers.update(refused.headers)
    return found


def visitor(request: Request, needed: Scope) -> Caller:
    """Whoever looks at the page or sends its form; raises Refused."""
    settings = service_of(request).settings
    user = user_of(request, settings.user_header, settings.user_scopes, settings.proxies)
    client = user or client_of(request, request.cookies.get(COOKIE))
    not_too_often(request, client)
    if request.method == "POST":
        refuse_other_sites(request)
    return allow(client, needed)


@pages.get("/")
async def queue(request: Request) -> Response:
    """The queue and the recent jobs."""
    visitor(request, "read")
    service = service_of(request)
    counts, jobs = await service.waiting.run(lambda: (service.queue.counts(), service.queue.recent(RECENT)))
    return page("Queue", views.queue_page(counts, jobs, service.machines))


@pages.get("/submit")
async def submit_form(request: Request) -> Response:
    """The form of a submission."""
    visitor(request, "solve")
    return page("Submit", views.submit_page(service_of(request).machines))


@pages.post("/submit")
async def submit(request: Request) -> Response:
    """Submit, and show the job; or the form again, with what is wrong."""
    client = visitor(request, "solve")
    service = service_of(request)
    try:
        form = await read_form(request, service.settings.input)
        try:
            body = await submission_of(form)
        finally:
            await form.close()
        submitted = await service.submitted(body, client)
    except RefusedRequest as refused:
        content = views.submit_page(service.machines, (refused.message, refused.hint))
        found = page("Submit", content, status=refused.status)
        found.headers.update(refused.headers)
        return found
    return RedirectResponse(f"/jobs/{submitted.job.id}", 303)


@pages.get("/jobs/{job}")
async def job_page(request: Request, job: str) -> Response:
    """One job, live while it is at work."""
    client = visitor(request, "read")
    service = service_of(request)
    found = await service.waiting.run(service.job, job)
    asked = await service.waiting.run(service.queue.request, job)
    may_cancel = client.may("admin") or (client.may("solve") and asked is not None and asked.client == client.name)
    live = found.state not in ENDED
    content = views.job_page(found, asked, may_cancel)
    return page(found.kernel, content, scripts=[file("live.js")] if live else [], head=AGAIN if live else "")


@pages.post("/jobs/{job}/cancel")
async def cancel(request: Request, job: str) -> Response:
    """Cancel, and show the job."""
    client = visitor(request, "solve")
    await service_of(request).waiting.run(service_of(request).cancel, job, client)
    return RedirectResponse(f"/jobs/{job}", 303)


@pages.get("/schedules")
async def search(request: Request, kernel: Words = "", machine: Words = "", before: Before = None) -> Response:
    """Schedules by kernel and machine."""
    visitor(request, "read")
    service = service_of(request)
    found = await service.waiting.run(service.store.find, kernel.strip() or None, machine or None, LISTED, before)
    following = found[-1].number if len(found) == LISTED else None
    return page("Schedules", views.search_page(found, kernel, machine, service.machines, following))


async def _entry(request: Request, key: str) -> Entry:
    """A stored schedule; raises Refused."""
    entry = await service_of(request).waiting.run(service_of(request).store.get, key, graph=False)
    if entry is None:
        raise RefusedRequest(404, "NotFound", f"there is no schedule with the key {key}", "search for its kernel")
    return entry


@pages.get("/schedules/{key}")
async def schedule(request: Request, key: str) -> Response:
    """One schedule, drawn."""
    visitor(request, "read")
    entry = await _entry(request, key)
    others = await service_of(request).waiting.run(service_of(request).store.find, entry.kernel, None, LISTED)
    try:
        content, tail = await asyncio.to_thread(views.schedule_page, entry.schedule)
    except InvalidSchedule as error:
        raise RefusedRequest(404, "InvalidSchedule", error.message, error.hint) from None
    content += compare_form(entry.key, others)
    return page(f"{entry.kernel} on {entry.machine}", content, scripts=[resource("page.js")], tail=tail)


@pages.get("/compare")
async def compare(request: Request, first: Words = "", second: Words = "") -> Response:
    """Two schedules side by side."""
    visitor(request, "read")
    found = [(await _entry(request, key)).schedule for key in (first, second)]
    try:
        content = await asyncio.to_thread(compare_page, *found)
    except InvalidSchedule as error:
        raise RefusedRequest(404, "InvalidSchedule", error.message, error.hint) from None
    return page("Two schedules", content)


@pages.get("/login")
async def login_form(request: Request) -> Response:
    """Where a token is asked for."""
    return page("Sign in", views.login_page(wrong=False))


@pages.post("/login")
async def login(request: Request) -> Response:
    """Let the browser keep a token that is one."""
    refuse_other_sites(request)
    not_too_often(request, None)
    form = await read_form(request, service_of(request).settings.input)
    token = words(form, "token")
    client = client_of(request, token)
    if client is None or client.expired():
        return page("Sign in", views.login_page(wrong=True), status=403)
    answer = RedirectResponse("/", 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, token, max_age=SIGNED_IN, httponly=True, samesite="strict", secure=secure)
    return answer
