"""The service behind its HTTP: what every route and page works with."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import shutil
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from twill.exc import StoreUnavailable
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.machine.names import list_machines
from twill.store.api import Job, MachineList, MachineSummary
from twill.store.interface import ServedStore

from . import traces
from .admitters import Admitters
from .answers import Answers
from .metrics import Metrics
from .news import News
from .pool import Pool
from .queue import JobQueue, QueuedRequest, QueueFull, QuotaUsed
from .rate import RateLimit
from .refusals import RefusedRequest
from .settings import Settings
from .tokens import Caller, Tokens
from .waiting import WaitingRoom

BUSY = 5  # seconds after which a client that found the queue full may come again
TIDY = 3600.0  # seconds between two looks for jobs to forget
REQUEUE = 10.0  # seconds between two looks for jobs whose leases ran out
MOST_SUBMITTING = 64  # submissions that are being read, or wait for that
MOST_WAITING = 32  # other requests that wait for the database or the disk at a time
MOST_WATCHING = 8  # the same of readiness and metrics, which are answered when all others wait
LOOK_AGAIN = 1.0  # seconds for which readiness is believed: anybody may ask, and it writes to the disk
GRACE = 10.0  # seconds that a solve may take beyond its own budget before its process is killed

log = logging.getLogger("twill.server")


@dataclass(frozen=True)
class Submitted:
    """A job, and whether its schedule is there already."""

    job: Job
    solved: bool


class Service:
    """One running service. Its methods may be called from any thread; those that wait are not for the event loop."""

    def __init__(self, settings: Settings, store: ServedStore, queue: JobQueue) -> None:
        self.settings = settings
        self.store = store
        self.queue = queue
        self.machines = described_machines()
        self.listed = MachineList(machines=tuple(summary_of(machine) for machine in self.machines.values()))
        self.tokens = None if settings.tokens is None else Tokens(settings.tokens)
        self.rate = RateLimit(settings.rate, 2 * settings.rate)
        self.answers = Answers(store, settings.remembered)
        self.metrics = Metrics(queue, self.ready)
        self.pool = Pool(queue, store, settings.workers, settings.solve)
        self.admitters = Admitters(
            settings.admitters, self.machines, settings.input, self.longest_budget(), settings.admission_seconds
        )
        self.submitters = ThreadPoolExecutor(settings.admitters + 2, "submit")
        self.waiting = WaitingRoom(MOST_WAITING, "request")
        self.watching = WaitingRoom(MOST_WATCHING, "watch")
        self.submitting = 0  # submissions that are being read or wait for that; only the event loop counts them
        self.streams = 0  # event streams that are open; only the event loop counts them
        self.news = News()
        self.stopping = threading.Event()
        self.damage = ""  # of the queue, as it was last looked for
        self.looking = threading.Lock()  # whoever asks for readiness meanwhile gets the same answer
        self.looked = -LOOK_AGAIN
        self.trouble = ""
        self.tidier = threading.Thread(target=self.tidy, name="tidier", daemon=True)

    def start(self) -> None:
        """Begin to solve."""
        self.news.told = self.queue.listen(self.heard)
        self.pool.start()
        self.tidier.start()

    def stop(self) -> None:
        """End every solve, give the jobs back, and let go of queue and store."""
        self.stopping.set()
        self.admitters.stop()
        self.submitters.shutdown(cancel_futures=True)
        self.waiting.stop()
        self.watching.stop()
        self.pool.stop()
        self.tidier.join()
        self.queue.close()
        self.store.close()

    def heard(self, said: str) -> None:
        """What a queue tells of its jobs."""
        self.pool.heard(said)
        self.news.heard(said)

    def tidy(self) -> None:
        """Look for damage and forget old jobs, now and then; let jobs of silent workers wait again."""
        tidied = -TIDY
        while True:
            try:
                if time.monotonic() - tidied >= TIDY:
                    tidied = time.monotonic()
                    self.damage = self.queue.damage()
                    if self.damage:
                        log.error(self.damage)
                    self.queue.forget(self.settings.keep_jobs)
                self.queue.stalled()
            except Exception:
                log.exception("old jobs were not forgotten, or silent workers' not put back")
            if self.stopping.wait(REQUEUE):
                return

    async def submitted(self, body: bytes, client: Caller) -> Submitted:
        """The job of a JSON body; raises Refused. Waits in threads of its own: those of other requests stay free."""
        if self.submitting >= MOST_SUBMITTING:
            self.metrics.submissions.labels("refused").inc()
            hint = f"the same again in {BUSY} s"
            raise RefusedRequest(503, "Busy", "too many submissions at once", hint, {"Retry-After": str(BUSY)})
        self.submitting += 1
        try:
            work = copy_context().run  # the thread's log lines and spans belong to the request
            return await asyncio.get_running_loop().run_in_executor(self.submitters, work, self.submit, body, client)
        finally:
            self.submitting -= 1

    def submit(self, body: bytes, client: Caller) -> Submitted:
        """The job of a JSON body; raises Refused."""
        return self.asked(self.admitters.admit(body, client.name), client, "submit")

    def retry(self, job: str, client: Caller) -> Submitted:
        """The job that solves once more what an ended one did not; raises Refused."""
        found = self.job(job)
        request = self.queue.request(job)
        refuse_others(request, client)
        if found.state not in ("failed", "cancelled"):
            raise RefusedRequest(409, "NotEnded", f"the job is {found.state}", "a job that failed or was cancelled")
        if request is None or not request.document:
            raise RefusedRequest(409, "NotRemembered", "what the job was to solve is not remembered", "POST /v1/jobs")
        return self.asked(request, client, "retry")

    def asked(self, admitted: QueuedRequest, client: Caller, action: str) -> Submitted:
        """The job of what was admitted, for a client and with its priority; raises Refused."""
        request = dataclasses.replace(
            admitted,
            client=client.name,
            priority=client.priority,
            share=client.share,
            quota=client.jobs,
            trace=traces.current(),
        )

        def look() -> bool:
            return self.store.has(request.key)

        solved = look()
        try:
            job, new = self.queue.submit(request, self.settings.waiting, solved, look)
        except QueueFull as full:
            self.metrics.submissions.labels("refused").inc()
            hint = f"the same again in {BUSY} s"
            raise RefusedRequest(429, "QueueFull", str(full), hint, {"Retry-After": str(BUSY)}) from None
        except QuotaUsed as used:
            self.metrics.submissions.labels("refused").inc()
            hint = "the same again when one of them has ended, or was cancelled"
            raise RefusedRequest(429, "QuotaUsed", str(used), hint, {"Retry-After": str(BUSY)}) from None
        if new or not solved:  # what is answered from the store costs nobody anything
            self.queue.note(client.name, action, f"job {job.id} key {job.key}")
        self.metrics.submissions.labels("solved" if solved else "new" if new else "joined").inc()
        if new and not solved:
            self.pool.wake()
        return Submitted(job, solved or job.state == "done")

    def count_stream(self, more: int) -> None:
        """An event stream was opened (1) or has ended (-1)."""
        self.streams += more
        self.metrics.streams.set(self.streams)

    def longest_budget(self) -> float:
        """Seconds that a solve is told it has: it ends with what it found before its process is killed."""
        limit = self.settings.solve.seconds
        return max(limit - GRACE, limit / 2)

    def job(self, job: str) -> Job:
        """The job of that id; raises Refused."""
        found = self.queue.get(job)
        if found is None:
            raise RefusedRequest(404, "NotFound", f"there is no job {job}", "an id that POST /v1/jobs returned")
        return found

    def cancel(self, job: str, client: Caller) -> Job:
        """Ask for the end of a job, one's own or (scope admin) anybody's; raises Refused."""
        refuse_others(self.queue.request(self.job(job).id), client)
        self.queue.note(client.name, "cancel", f"job {job}")
        found = self.queue.cancel(job)
        return self.job(job) if found is None else found

    def delete(self, key: str, client: str) -> bool:
        """Remove a schedule; whether there was one."""
        self.queue.note(client, "delete", f"key {key}")
        gone = self.store.delete(key)
        self.answers.forget(key)
        log.info("schedule deleted", extra={"key": key, "client": client, "there": gone})
        return gone

    def pin(self, key: str, client: str, pinned: bool) -> bool:
        """Keep a schedule when others give way, or no longer; whether there is one."""
        self.queue.note(client, "pin" if pinned else "unpin", f"key {key}")
        return self.store.pin(key, pinned)

    def ready(self) -> str:
        """What keeps the service from working; "" if nothing does."""
        with self.looking:
            if time.monotonic() - self.looked > LOOK_AGAIN:
                self.trouble = self.found_trouble()
                self.looked = time.monotonic()
            return self.trouble

    def found_trouble(self) -> str:
        """The same, found out now."""
        if not self.pool.alive():
            return "not every worker is running"
        try:
            if self.settings.data is not None:
                free = shutil.disk_usage(self.settings.data).free
                if free < self.settings.free:
                    return f"the disk is full: {free // 2**20} MiB are left of the {self.settings.free // 2**20} needed"
            self.store.find(limit=1)
        except OSError as error:
            return f"{self.settings.data}: {error.strerror or error}"
        except StoreUnavailable as error:
            return error.message
        return self.damage or self.queue.trouble()


def refuse_others(request: QueuedRequest | None, client: Caller) -> None:
    """Raise Refused if a job is neither the client's own, nor may it act on those of others."""
    if request is not None and request.client != client.name and not client.may("admin"):
        raise RefusedRequest(
            403, "Forbidden", "the job was submitted with another token", "a token with the scope admin"
        )


@cache
def described_machines() -> Mapping[str, Machine]:
    """Every described machine by its name."""
    return MappingProxyType({name: load_machine(name) for name in list_machines()})


def summary_of(machine: Machine) -> MachineSummary:
    """A machine in one line."""
    return MachineSummary(
        name=machine.name, title=machine.title, architecture=machine.architecture, machine_digest=machine.digest()
    )
