"""The typed client of the service: every call of `twill.store.api`, with time-outs, retries and a circuit breaker.

::

    client = Client("http://localhost:8787", token)
    job = client.submit(graph, "h100", SolveRequest(budget=60))
    for job in client.events(job.id):
        print(job.state, job.bounds)
    entry = client.schedule(job.key)

Raises `ServiceUnavailable` if the service does not answer, or answers with nonsense, and `ServiceRefused` with
its reason if it says no. What it sends is of the right form; that it is right, only `twill.store.examine` says.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from twill.document import Document
from twill.exc import ServiceRefused, ServiceUnavailable
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.store import api
from twill.store.circuit_breaker import Breaker
from twill.store.interface import Entry
from twill.store.transport import HttpResponse, NoAnswer, Transport

SECONDS = 10.0  # for a call with its retries
TRIES = 4
BACKOFF = 0.1  # seconds before the first retry at most, doubled for each
TOO_MANY = 429
AGAIN = frozenset({TOO_MANY, 502, 503, 504})
REMEMBERED = 256  # documents whose ETag is known

D = TypeVar("D", bound=Document)


@dataclass(frozen=True)
class CachedDocument:
    """A document that was fetched, with its ETag."""

    etag: str
    document: Document


class Client:
    """Calls to the service at `address`, from any thread. seconds: for one call, its retries included."""

    def __init__(
        self,
        address: str,
        token: str = "",
        *,
        seconds: float = SECONDS,
        tries: int = TRIES,
        breaker: Breaker | None = None,
    ) -> None:
        self.address = address
        self.seconds = seconds
        self.tries = tries
        self.breaker = breaker or Breaker()
        self.transport = Transport(address, token)
        self.known: OrderedDict[str, CachedDocument] = OrderedDict()
        self.lock = threading.Lock()

    # -- the calls

    def schedule(self, key: str, *, seconds: float | None = None) -> Entry | None:
        """The entry of a key; None if the service has none."""
        return self.fetch(f"/schedules/{quote(key, safe='')}", Entry, seconds)

    def schedules(
        self, kernel: str | None = None, machine: str | None = None, limit: int = 50, before: int | None = None
    ) -> api.ScheduleList:
        """A page of the service's schedules, newest first."""
        asked = {"kernel": kernel, "machine": machine, "limit": limit, "before": before}
        words = urlencode({name: value for name, value in asked.items() if value is not None})
        return self.document(self.call("GET", f"/schedules?{words}"), api.ScheduleList)

    def delete(self, key: str) -> bool:
        """Remove the entry of a key from the service; whether there was one."""
        answer = self.call("DELETE", f"/schedules/{quote(key, safe='')}")
        with self.lock:
            self.known.pop(f"/schedules/{quote(key, safe='')}", None)
        if answer.status not in (204, 404):
            raise self.refused(answer)
        self.breaker.succeeded()
        return answer.status == 204

    def machines(self) -> api.MachineList:
        """The machines that the service describes."""
        return self.document(self.call("GET", "/machines"), api.MachineList)

    def machine(self, name: str, *, seconds: float | None = None) -> Machine | None:
        """A machine by name or digest; None if the service has none."""
        return self.fetch(f"/machines/{quote(name, safe='')}", Machine, seconds)

    def submit(
        self, graph: DependenceGraph, machine: str | Machine, options: api.SolveRequest | None = None
    ) -> api.Job:
        """Ask for a solve. The same question asked again is the same job."""
        body = api.Submission(graph=graph.homeless(), machine=machine, options=options or api.SolveRequest())
        return self.document(self.call("POST", "/jobs", body.canonical().encode()), api.Job)

    def job(self, job: str) -> api.Job:
        """A job as far as it has come."""
        return self.document(self.call("GET", f"/jobs/{quote(job, safe='')}"), api.Job)

    def jobs(self, state: api.State | None = None, limit: int = 50) -> tuple[api.Job, ...]:
        """The last jobs, newest first; state: only those."""
        asked = {"limit": str(limit)} | ({"state": state} if state else {})
        return self.document(self.call("GET", f"/jobs?{urlencode(asked)}"), api.JobList).jobs

    def retry(self, job: str) -> api.Job:
        """Ask for a solve that failed or was cancelled once more; the job that it is now."""
        return self.document(self.call("POST", f"/jobs/{quote(job, safe='')}/retry", b"{}"), api.Job)

    def cancel(self, job: str) -> api.Job:
        """Ask for a job's end."""
        return self.document(self.call("DELETE", f"/jobs/{quote(job, safe='')}"), api.Job)

    def events(self, job: str, seconds: float = 86_400.0) -> Iterator[api.Job]:
        """The job every time that something is new of it, until it has ended.

        A stream that breaks off is taken up again; raises ServiceUnavailable if that fails several times in a
        row, or when `seconds` are over.
        """
        end = time.monotonic() + seconds
        fruitless = 0
        while True:
            for seen in self.stream(job, end):
                fruitless = 0
                yield seen
                if seen.state in api.ENDED:
                    return
            fruitless += 1
            now = self.job(job)
            if now.state in api.ENDED:
                yield now
                return
            if fruitless >= self.tries or not self.rest(fruitless, "", end - time.monotonic()):
                raise ServiceUnavailable(self.address, "the events of a job broke off")

    def close(self) -> None:
        """Close the connections."""
        self.transport.close()

    # -- how they are made

    def fetch(self, path: str, kind: type[D], seconds: float | None) -> D | None:
        """A document that never changes: asked for with the ETag it had, None if there is none."""
        with self.lock:
            known = self.known.get(path)
        headers = {"If-None-Match": known.etag} if known else {}
        answer = self.call("GET", path, headers=headers, seconds=seconds)
        if answer.status == 404:
            self.breaker.succeeded()
            return None
        if answer.status == 304 and known is not None and isinstance(known.document, kind):
            self.breaker.succeeded()
            return known.document
        etag = answer.headers.get("etag", "")
        if answer.status == 200 and len(etag) == 66 and etag[1:-1] != hashlib.sha256(answer.body).hexdigest():
            raise self.nonsense("its answer does not have the hash that the ETag says")
        document = self.document(answer, kind)
        if etag:
            with self.lock:
                self.known[path] = CachedDocument(etag, document)
                while len(self.known) > REMEMBERED:
                    self.known.popitem(last=False)
        return document

    def document(self, answer: HttpResponse, kind: type[D]) -> D:
        """The document in an answer; raises ServiceRefused or ServiceUnavailable."""
        if not 200 <= answer.status < 300:
            raise self.refused(answer)
        try:
            document = kind.parse(answer.body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "document"
            why = f"its answer is no {kind.__name__} of this version ({where}: {first['msg']})"
            raise self.nonsense(why) from None
        self.breaker.succeeded()
        return document

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: dict[str, str] | None = None,
        seconds: float | None = None,
    ) -> HttpResponse:
        """One call, tried again while the service is not there or busy and time is left."""
        end = time.monotonic() + (self.seconds if seconds is None else seconds)
        problem = ""
        for attempt in range(1, self.tries + 1):
            if not self.breaker.allows():
                why = f"it failed several times in a row; it is asked again in {self.breaker.left():.0f} s"
                raise ServiceUnavailable(self.address, problem or why)
            try:
                answer = self.transport.exchange(method, api.PREFIX + path, end - time.monotonic(), body, headers)
            except NoAnswer as none:
                self.breaker.failed()
                problem, wait = str(none), ""
            except BaseException:
                self.breaker.failed()
                raise
            else:
                if answer.status not in AGAIN:
                    return answer  # whoever reads it tells the breaker whether it was sense
                problem, wait = f"it answered {answer.status}", answer.headers.get("retry-after", "")
                if answer.status == TOO_MANY:
                    self.breaker.succeeded()
                else:
                    self.breaker.failed()
            if attempt == self.tries or not self.rest(attempt, wait, end - time.monotonic()):
                break
        raise ServiceUnavailable(self.address, problem)

    def rest(self, attempt: int, wait: str, left: float) -> bool:
        """Wait before a retry, as long as the service says or longer each time; False if there is no time for it."""
        pause = random.uniform(0.5, 1.0) * BACKOFF * 2 ** (attempt - 1)
        if wait.isascii() and wait.isdigit():
            pause = max(pause, float(wait))
        if pause >= left:
            return False
        time.sleep(pause)
        return True

    def stream(self, job: str, end: float) -> Iterator[api.Job]:
        """The events of one stream, until it ends or breaks off."""
        path, left = f"{api.PREFIX}/jobs/{quote(job, safe='')}/events", max(0.001, end - time.monotonic())
        with suppress(NoAnswer), self.transport.stream(path, left) as (status, lines):
            for kind, data in messages(lines) if status == 200 else ():
                if kind == "job":
                    yield self.document(HttpResponse(200, {}, data), api.Job)

    def refused(self, answer: HttpResponse) -> ServiceRefused | ServiceUnavailable:
        """What an answer that is not 2xx says."""
        try:
            refusal = api.Refusal.parse(answer.body)
        except ValidationError:
            refusal = api.Refusal(kind=str(answer.status), message=f"it answered {answer.status}")
        if not 400 <= answer.status < 500:
            return self.nonsense(refusal.message)
        self.breaker.succeeded()
        request = refusal.request_id or answer.headers.get(api.REQUEST_ID.lower(), "")
        return ServiceRefused(self.address, answer.status, refusal.kind, refusal.message, refusal.hint, request)

    def nonsense(self, why: str) -> ServiceUnavailable:
        """An answer that no service gives that is well and of this version."""
        self.breaker.failed()
        return ServiceUnavailable(self.address, why)


def messages(lines: Iterator[bytes]) -> Iterator[tuple[str, bytes]]:
    """Name and data of each server-sent event (WHATWG HTML, 9.2.6); comments and ids are passed over."""
    kind = "message"
    data: list[bytes] = []
    for raw in lines:
        line = raw.rstrip(b"\r\n")
        if not line:
            if data:
                yield kind, b"\n".join(data)
            kind, data = "message", []
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            kind = value.decode("utf-8", "replace")
        elif name == b"data":
            data.append(value)
