"""The service's HTTP API, version 1: every document that passes between client and server.

    GET    /v1/schedules/{key}       Entry, ETag: "<SHA-256 of the body>"; 404
    DELETE /v1/schedules/{key}       204; 404
    GET    /v1/schedules             ScheduleList; ?kernel= &machine= &limit= &before=
    POST   /v1/jobs                  Submission -> 202 Job (Location); 200 if the answer is there already
    GET    /v1/jobs                  JobList, newest first; ?state= &limit=
    GET    /v1/jobs/{id}             Job
    POST   /v1/jobs/{id}/retry       what failed or was cancelled, once more -> 202 Job (Location); 409
    GET    /v1/jobs/{id}/events      server-sent events: `event: job`, `data: Job`, `id: N`; the last has an ended state
    DELETE /v1/jobs/{id}             Job (cancellation asked for)
    GET    /v1/machines              MachineList
    GET    /v1/machines/{name}       Machine, by name or digest; 404

Whatever is not 2xx has a `Refusal` as its body. Tokens are sent as `Authorization: Bearer TOKEN`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from twill.document import Document
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.options import SentOptions
from twill.store.interface import Summary

PREFIX = "/v1"
REQUEST_ID = "X-Request-Id"

State = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: frozenset[State] = frozenset({"done", "failed", "cancelled"})


class SolveRequest(SentOptions):
    """The options of a solve; the service may have a smaller limit on `budget`."""

    pins: Annotated[tuple[Annotated[str, Field(max_length=200)], ...], Field(max_length=200)] = ()


class Submission(Document):
    """What is to be solved. machine: the name of a described one, or a whole machine document."""

    graph: DependenceGraph
    machine: Annotated[str, Field(max_length=100)] | Machine
    options: SolveRequest = SolveRequest()


class JobBounds(Document):
    """How far a solve has come: lower <= I <= upper (None: no schedule yet), after `seconds` of work.

    phase: the objective being minimized; about: the loop and cooperation at work, in words.
    """

    phase: str
    lower: int
    upper: int | None
    seconds: float
    about: str = ""


class JobProblem(Document):
    """Why a job failed. kind: a class of `twill.exc`, or "TimeLimit", "MemoryLimit", "WorkerLost", "Internal"."""

    kind: str
    message: str
    hint: str = ""
    exit_code: int = 5


class Job(Document):
    """A job as far as it has come. Times are UTC, ISO 8601. done: the schedule is at /v1/schedules/{key}."""

    id: str
    key: str
    state: State
    kernel: str
    spec: str
    machine: str
    created: str
    started: str | None = None
    ended: str | None = None
    attempts: int = 0
    bounds: JobBounds | None = None
    problem: JobProblem | None = None


class JobList(Document):
    """The last jobs, newest first."""

    jobs: tuple[Job, ...]


class ScheduleList(Document):
    """One page of schedules, newest first. next: the `before` of the next page, None on the last one."""

    schedules: tuple[Summary, ...]
    next: int | None = None


class MachineSummary(Document):
    """A machine that the service can solve for by name."""

    name: str
    title: str
    architecture: str
    machine_digest: str


class MachineList(Document):
    """Every machine that the service describes."""

    machines: tuple[MachineSummary, ...]


class Refusal(Document):
    """Why a request was refused. kind: a class of `twill.exc`, or "NotFound", "TooLarge", "RateLimit", ..."""

    kind: str
    message: str
    hint: str = ""
    request_id: str = ""
