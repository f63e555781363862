"""A job's progress as server-sent events, which a client may resume where it was cut off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from twill.store.api import ENDED, Job

from .queue import JobEvent
from .refusals import RefusedRequest
from .service import Service

LOOK = 0.25  # seconds between two looks for news
LOOK_ANYWAY = 1.0  # the same where the queue tells them; the end of the service is noticed so
SILENCE = 15.0  # seconds after which a comment keeps the connection alive
AGAIN = "retry: 2000\n\n"  # milliseconds after which a browser that was cut off comes again


def refuse_more_streams(service: Service) -> None:
    """Raise Refused if as many streams are open as may be."""
    if service.streams >= service.settings.streams:
        hint = "GET the job itself, now and then"
        headers = {"Retry-After": "5"}
        raise RefusedRequest(503, "TooManyStreams", f"{service.streams} event streams are open", hint, headers)


async def stream(service: Service, job: str, after: int) -> AsyncIterator[str]:
    """The job's events after number `after`, as text, until the job has ended."""
    service.count_stream(1)  # here, as a stream whose client left before it began never comes to its end
    try:
        yield AGAIN
        async for text in news(service, job, after):
            yield text
    finally:
        service.count_stream(-1)


async def news(service: Service, job: str, after: int) -> AsyncIterator[str]:
    """Each event as it happens, and a sign of life when nothing does."""
    spoke = time.monotonic()
    look = LOOK_ANYWAY if service.news.told else LOOK
    with service.news.about(job) as changed:
        while not service.stopping.is_set():
            changed.clear()
            events = await asyncio.to_thread(service.queue.events, job, after)
            for event in events:
                yield written(event)
                after = event.sequence
            if events and Job.parse(events[-1].job).state in ENDED:
                return
            if not events and await asyncio.to_thread(has_ended, service, job):
                return
            spoke = time.monotonic() if events else spoke
            if time.monotonic() - spoke >= SILENCE:
                yield ": still at work\n\n"
                spoke = time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), look)


def has_ended(service: Service, job: str) -> bool:
    """Whether there is nothing more to tell: the job has ended, or was forgotten."""
    found = service.queue.get(job)
    return found is None or found.state in ENDED


def written(event: JobEvent) -> str:
    """An event in the stream's format; a canonical document has no line break."""
    return f"id: {event.sequence}\nevent: job\ndata: {event.job}\n\n"


def last_seen(header: str | None) -> int:
    """The number in a Last-Event-ID header; 0 if there is none."""
    return int(header) if header and header.isascii() and header.isdigit() and len(header) < 10 else 0
