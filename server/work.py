"""Workers without a service: they take jobs from a queue in PostgreSQL, from anywhere that reaches it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading

from twill.exc import StoreUnavailable

from . import traces
from .logs import log_as_json
from .places import is_url, open_places
from .pool import Pool, SolveLimits
from .queue import JobQueue, QueueUnavailable

REQUEUE = 10.0  # seconds between two looks for jobs whose leases ran out

log = logging.getLogger("twill.server.work")


def run(*, store: str, queue: str, objects: str, workers: int, seconds: float, megabytes: int, level: str) -> None:
    """Solve until SIGINT or SIGTERM, which give running jobs back. Raises StoreUnavailable."""
    if not is_url(queue or store):
        hint = "--queue postgresql://... --store postgresql://...; `twill serve` solves what is in a directory"
        raise StoreUnavailable(store, "workers take jobs from a database", hint)
    os.umask(0o077)
    schedules, jobs = open_places(store, queue, objects)
    log_as_json(level)
    traces.begin("twill work")
    pool = Pool(jobs, schedules, workers, SolveLimits(seconds, megabytes))
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    jobs.listen(pool.heard)
    pool.start()
    print(f"twill works on {getattr(schedules, 'place', store)} ({workers} at a time)", file=sys.stderr, flush=True)
    while not stopping.wait(REQUEUE):
        requeue(jobs)
    pool.stop()
    jobs.close()
    schedules.close()


def requeue(queue: JobQueue) -> None:
    """Let jobs of workers that are silent wait again."""
    try:
        stalled = queue.stalled()
    except QueueUnavailable as error:
        log.warning("the queue does not answer: %s", error)
        return
    if stalled:
        log.warning("jobs of workers that fell silent wait again", extra={"jobs": stalled})
