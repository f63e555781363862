"""The HTTP API, version 1 (`twill.store.api` has its documents), and what operators ask."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse
from prometheus_client import CONTENT_TYPE_LATEST

from twill.document import Document
from twill.machine.description import Machine
from twill.store.api import PREFIX, Job, JobList, MachineList, ScheduleList, State
from twill.store.interface import Entry

from .access import Admin, Reader, Solver, service_of
from .admission import read_body
from .answers import LONGEST_CONDITION, ScheduleAnswer, headers_of, matches
from .events import last_seen, refuse_more_streams, stream
from .queue import Note
from .refusals import RefusedRequest, responses
from .sample import vector_scale

JSON = "application/json"
MOST_LISTED = 200

JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="The id that POST /v1/jobs returned.")]
Key = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="A schedule's key.")]
Name = Annotated[str | None, Query(max_length=200)]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED, description="How many to list.")]
Before = Annotated[int | None, Query(ge=1, le=2**62, description="`next` of the page before.")]

EXAMPLE = {"graph": json.loads(vector_scale().canonical()), "machine": "h100", "options": {}}
SUBMISSION = {
    "requestBody": {
        "required": True,
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Submission-Input"}, "example": EXAMPLE}},
    }
}
LOCATION = {"Location": {"description": "Where the job is.", "schema": {"type": "string"}}}
ETAG = {"ETag": {"description": "SHA-256 of the body, in quotes.", "schema": {"type": "string"}}}
# A stream is described by one of its events: `data` is a Job.
EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"const": "job"},
        "data": {"type": "string", "contentMediaType": JSON},
        "retry": {"type": "integer"},
    },
}
EVENTS = {"content": {"text/event-stream": {"schema": EVENT}}, "description": "Events named `job`."}

api = APIRouter(prefix=PREFIX, responses=responses(401, 403, 429, 503))
operators = APIRouter()


def json_of(document: Document, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A document as an answer."""
    return Response(document.canonical(), status, headers, JSON)


@api.post(
    "/jobs",
    status_code=202,
    response_model=Job,
    responses={
        200: {"model": Job, "description": "Solved already.", "headers": LOCATION},
        202: {"description": "Accepted, or in flight already.", "headers": LOCATION},
        **responses(400, 408, 413, 415, 422, 503),
    },
    openapi_extra=SUBMISSION,
    tags=["jobs"],
)
async def submit(request: Request, client: Solver) -> Response:
    """Submit a dependence graph, a machine and options. Nothing of it is ever executed.

    Equal submissions (of one key) that are in flight at the same time are one job.
    """
    service = service_of(request)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise RefusedRequest(415, "NotJson", f"the body is not of type {JSON}", f"the header Content-Type: {JSON}")
    body = await read_body(request.stream(), request.headers.get("content-length"), service.settings.input)
    submitted = await service.submitted(body, client)
    where = {"Location": f"{PREFIX}/jobs/{submitted.job.id}"}
    return json_of(submitted.job, 200 if submitted.solved else 202, where)


@api.get("/jobs", response_model=JobList, responses=responses(422, 503), tags=["jobs"])
async def list_jobs(request: Request, client: Reader, state: State | None = None, limit: Limit = 50) -> Response:
    """The last jobs, newest first."""
    found = await service_of(request).waiting.run(service_of(request).queue.recent, limit, state)
    return json_of(JobList(jobs=found))


@api.post(
    "/jobs/{job}/retry",
    status_code=202,
    response_model=Job,
    responses={
        200: {"model": Job, "description": "Solved meanwhile.", "headers": LOCATION},
        202: {"description": "Accepted, or in flight already.", "headers": LOCATION},
        **responses(404, 409, 422, 503),
    },
    tags=["jobs"],
)
async def retry_job(request: Request, job: JobId, client: Solver) -> Response:
    """Ask once more for the solve of a job that failed or was cancelled, one's own or (scope admin) anybody's."""
    service = service_of(request)
    submitted = await service.waiting.run(service.retry, job, client)
    where = {"Location": f"{PREFIX}/jobs/{submitted.job.id}"}
    return json_of(submitted.job, 200 if submitted.solved else 202, where)


@api.get("/jobs/{job}", response_model=Job, responses=responses(404, 422), tags=["jobs"])
async def get_job(request: Request, job: JobId, client: Reader) -> Response:
    """A job as far as it has come."""
    return json_of(await service_of(request).waiting.run(service_of(request).job, job))


@api.delete("/jobs/{job}", response_model=Job, responses=responses(404, 422), tags=["jobs"])
async def cancel_job(request: Request, job: JobId, client: Solver) -> Response:
    """Ask for a job's end. Whoever else submitted the same loses it too, and can submit it again."""
    return json_of(await service_of(request).waiting.run(service_of(request).cancel, job, client))


@api.get(
    "/jobs/{job}/events",
    response_class=StreamingResponse,
    responses={200: EVENTS, **responses(404, 422, 503)},
    tags=["jobs"],
)
async def job_events(
    request: Request, job: JobId, client: Reader, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> Response:
    """Server-sent events: the job whenever something changed, until it has ended.

    With the header Last-Event-ID only what came after that event.
    """
    service = service_of(request)
    await service.waiting.run(service.job, job)
    refuse_more_streams(service)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream(service, job, last_seen(last_event_id)), 200, headers, "text/event-stream")


@api.get(
    "/schedules/{key}",
    response_model=Entry,
    responses={200: {"headers": ETAG}, 304: {"description": "As it was.", "headers": ETAG}, **responses(404, 422, 503)},
    tags=["schedules"],
)
async def get_schedule(
    request: Request,
    key: Key,
    client: Reader,
    if_none_match: Annotated[str | None, Header(max_length=LONGEST_CONDITION)] = None,
) -> Response:
    """The checked schedule of a key, with what it was solved for. It never changes."""
    service = service_of(request)
    found: ScheduleAnswer | None = service.answers.remembered(key) or await service.waiting.run(
        service.answers.read, key
    )
    service.metrics.lookups.labels("found" if found else "missing").inc()
    if found is None:
        raise RefusedRequest(404, "NotFound", f"there is no schedule with the key {key}", "POST /v1/jobs")
    headers = headers_of(found, service.tokens is not None)
    if if_none_match is not None and matches(if_none_match, found.etag):
        return Response(status_code=304, headers=headers)
    return Response(found.body, 200, headers, JSON)


@api.delete(
    "/schedules/{key}",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "It is gone."}, **responses(404, 422, 503)},
    tags=["schedules"],
)
async def delete_schedule(request: Request, key: Key, client: Admin) -> Response:
    """Remove a schedule and what is kept beside it. The next submission of its graph is solved again."""
    if not await service_of(request).waiting.run(service_of(request).delete, key, client.name):
        raise RefusedRequest(404, "NotFound", f"there is no schedule with the key {key}")
    return Response(status_code=204)


@api.put(
    "/schedules/{key}/pin",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "It stays."}, **responses(404, 422, 503)},
    tags=["schedules"],
)
async def pin_schedule(request: Request, key: Key, client: Admin) -> Response:
    """Keep a schedule, and what is beside it, when others give way to new ones."""
    return await pin(request, key, client.name, True)


@api.delete(
    "/schedules/{key}/pin",
    status_code=204,
    response_class=Response,
    responses={204: {"description": "It may give way."}, **responses(404, 422, 503)},
    tags=["schedules"],
)
async def unpin_schedule(request: Request, key: Key, client: Admin) -> Response:
    """Let a schedule give way again."""
    return await pin(request, key, client.name, False)


async def pin(request: Request, key: str, client: str, pinned: bool) -> Response:
    """Pin or unpin; raises Refused."""
    if not await service_of(request).waiting.run(service_of(request).pin, key, client, pinned):
        raise RefusedRequest(404, "NotFound", f"there is no schedule with the key {key}")
    return Response(status_code=204)


class Audit(Document):
    """A page of the audit log. next: the `before` of the next page; None if there is none."""

    notes: tuple[Note, ...]
    next: int | None = None


@api.get("/audit", response_model=Audit, responses=responses(422, 503), tags=["operators"])
async def read_audit(request: Request, client: Admin, limit: Limit = 50, before: Before = None) -> Response:
    """Who asked for what, newest first, for as long as jobs are remembered."""
    found = await service_of(request).waiting.run(service_of(request).queue.notes, limit, before)
    return json_of(Audit(notes=found, next=found[-1].number if len(found) == limit else None))


@api.get("/schedules", response_model=ScheduleList, responses=responses(422, 503), tags=["schedules"])
async def find_schedules(
    request: Request,
    client: Reader,
    kernel: Name = None,
    machine: Name = None,
    limit: Limit = 50,
    before: Before = None,
) -> Response:
    """Schedules of a kernel and a machine (exact names), newest first."""
    service = service_of(request)
    found = await service.waiting.run(service.store.find, kernel, machine, limit, before)
    return json_of(ScheduleList(schedules=found, next=found[-1].number if len(found) == limit else None))


@api.get("/machines", response_model=MachineList, tags=["machines"])
async def list_machines(request: Request, client: Reader) -> Response:
    """Every machine that the service describes."""
    return json_of(service_of(request).listed)


@api.get("/machines/{name}", response_model=Machine, responses=responses(404, 422), tags=["machines"])
async def get_machine(request: Request, name: Annotated[str, Path(max_length=200)], client: Reader) -> Response:
    """A machine that the service describes, by its name or its digest."""
    machines = service_of(request).machines
    by_digest = {listed.machine_digest: listed.name for listed in service_of(request).listed.machines}
    found = machines.get(by_digest.get(name, name))
    if found is None:
        raise RefusedRequest(404, "NotFound", f"there is no machine called {name!r}", f"one of {', '.join(machines)}")
    return json_of(found)


class Health(Document):
    """Whether the service can do its work."""

    status: str


@operators.get("/healthz", response_model=Health, tags=["operators"])
async def health() -> Response:
    """The process answers."""
    return json_of(Health(status="ok"))


@operators.get("/readyz", response_model=Health, responses=responses(503), tags=["operators"])
async def readiness(request: Request) -> Response:
    """Queue, store and workers do, too."""
    trouble = await service_of(request).watching.run(service_of(request).ready)
    if trouble:
        raise RefusedRequest(503, "NotReady", trouble, headers={"Retry-After": "5"})
    return json_of(Health(status="ready"))


@operators.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **responses(401, 403, 429)},
    tags=["operators"],
)
async def metrics(request: Request, client: Reader) -> Response:
    """Counters for Prometheus."""
    text = await service_of(request).watching.run(service_of(request).metrics.text)
    return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})
