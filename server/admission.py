"""From the bytes of a request to something worth solving, with bounded time and memory at every step.

Each step refuses what the next one could not take: a body that is too long while it arrives, too many
values before they are parsed, JSON that nests or counts beyond reason while it is, too many nodes
before the documents are made, and a graph or machine that contradicts itself before it is a job.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from twill.exc import TwillError
from twill.graph.anonymous import anonymous
from twill.machine.description import Machine
from twill.schedule.file import field
from twill.schedule.key import schedule_key
from twill.store.api import Submission

from .graph_rules import check_graph
from .machine_rules import check_machine_document
from .queue import QueuedRequest
from .refusals import RefusedRequest

TEXTS = frozenset({"text", "transport_reason", "file", "source", "note", "title", "description"})
SEPARATORS = (b",", b"[", b"{")  # there are at least as many of these as values, but for one


@dataclass(frozen=True)
class InputLimits:
    """What one request may hold. seconds: until the whole body has to have come.

    The first group counts parts of the whole graph, the second those of one part. name: characters of every name; text:
    of what only people read (a trip count, a file, a reason, a machine's sources). number: the largest magnitude.
    """

    body_bytes: int = 4 * 1024 * 1024
    seconds: float = 30.0
    values: int = 200_000  # numbers, texts, objects and lists of a JSON body
    nodes: int = 256  # of all regions; the examples have at most a few dozen
    edges: int = 2048
    dims: int = 256
    regions: int = 64
    carried: int = 1024
    inputs: int = 1024
    readers: int = 2048
    axes: int = 8  # dimensions of a node, or of a tile
    counts: int = 64
    operations: int = 1024
    name: int = 200
    text: int = 2000
    number: int = 2**53


async def read_body(chunks: AsyncIterator[bytes], announced: str | None, limits: InputLimits) -> bytes:
    """The whole body; raises Refused as soon as it is known to be too long, or too slow."""
    if announced is not None and announced.isascii() and announced.isdigit() and int(announced) > limits.body_bytes:
        raise too_long(limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in chunks:
                body += chunk
                if len(body) > limits.body_bytes:
                    raise too_long(limits)
    except TimeoutError:
        raise RefusedRequest(408, "TooSlow", f"the body did not come within {limits.seconds:g} s") from None
    return bytes(body)


def too_long(limits: InputLimits) -> RefusedRequest:
    """The body is longer than the limit."""
    hint = "a graph of one kernel, as `twill extract FILE --json` prints it"
    return RefusedRequest(413, "TooLarge", f"the body is longer than {limits.body_bytes} bytes", hint)


def read_submission(body: bytes, limits: InputLimits) -> Submission:
    """The submission of a body; raises Refused."""
    if sum(body.count(mark) for mark in SEPARATORS) > limits.values:
        raise RefusedRequest(413, "TooLarge", f"the body has more than {limits.values} values")
    try:
        value = from_json(body, allow_inf_nan=False, cache_strings="none")
    except ValueError as error:
        raise RefusedRequest(400, "NotJson", f"the body is not JSON: {error}") from None
    refuse_many(value, limits)
    try:
        submission = Submission.model_validate_json(body)
    except ValidationError as error:
        raise RefusedRequest(
            422, "BadSubmission", described(error), "a graph as `twill extract FILE --json` prints it"
        ) from None
    refuse_large(value, limits)
    return submission


def refuse_many(value: Any, limits: InputLimits) -> None:
    """Raise Refused if the graph has more parts than are taken. What is of another shape is left to the documents."""
    graph = value.get("graph") if isinstance(value, dict) else None
    if not isinstance(graph, dict):
        return
    regions = [region for region in listed(graph, "regions") if isinstance(region, dict)]
    nodes = list(parts(regions, "nodes"))
    inputs = list(parts(regions, "inputs"))
    found = {
        "dims": len(listed(graph, "dims")),
        "regions": len(listed(graph, "regions")),
        "nodes": sum(len(listed(region, "nodes")) for region in regions),
        "edges": sum(len(listed(region, "edges")) for region in regions),
        "carried": sum(len(listed(region, "carried")) for region in regions),
        "inputs": sum(len(listed(region, "inputs")) for region in regions),
        "readers": sum(len(listed(entry, "readers")) for entry in inputs),
        "axes": max((axes for part in walk(regions) for axes in axes_of(part)), default=0),
        "counts": max((len(listed(node, "counts")) for node in nodes), default=0),
        "operations": max((len(listed(node, "operations")) for node in nodes), default=0),
    }
    for name, number in found.items():
        most = getattr(limits, name)
        if number > most:
            raise RefusedRequest(413, "TooLarge", f"the graph has {number} {name}; this service takes at most {most}")


def refuse_large(value: Any, limits: InputLimits) -> None:
    """Raise Refused for a name that is long or has characters that are not seen, or for a number beyond reason.

    It holds for every field that there is, in graph, machine and options.
    """
    for part in walk(value):
        fields = part.items() if isinstance(part, dict) else ((0, entry) for entry in part)
        for field_name, entry in fields:
            where = str(field_name)[:40]
            if isinstance(entry, str):
                most = limits.text if where in TEXTS else limits.name
                if len(entry) > most:
                    raise RefusedRequest(
                        413, "TooLarge", f"a {where or 'text'} has {len(entry)} characters, more than {most}"
                    )
                if not entry.isprintable():
                    raise RefusedRequest(
                        422, "BadSubmission", f"a {where or 'text'} has characters that cannot be printed"
                    )
            elif isinstance(entry, int | float) and abs(entry) > limits.number:
                raise RefusedRequest(422, "BadSubmission", f"a {where or 'number'} is beyond {limits.number}")


def walk(value: Any) -> Iterator[dict[str, Any] | list[Any]]:
    """Every object and list in a JSON value."""
    left = [value]
    while left:
        part = left.pop()
        if isinstance(part, dict | list):
            yield part
            left += part.values() if isinstance(part, dict) else part


def parts(regions: Iterable[dict[str, Any]], name: str) -> Iterator[dict[str, Any]]:
    """What all regions list under a name."""
    for region in regions:
        yield from (entry for entry in listed(region, name) if isinstance(entry, dict))


def axes_of(part: dict[str, Any] | list[Any]) -> Iterator[int]:
    """How many dimensions a node or a tile has."""
    if isinstance(part, dict):
        yield from (len(listed(part, name)) for name in ("dims", "shape"))


def listed(value: dict[str, Any], name: str) -> list[Any]:
    """The list under a name; an empty one if there is none."""
    found = value.get(name)
    return found if isinstance(found, list) else []


def described(error: ValidationError) -> str:
    """The first problem of a document, and how many there are."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    first = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{field(first['loc'])}: {first['msg']}{more}"


def admit(submission: Submission, machines: Mapping[str, Machine], client: str, seconds: float) -> QueuedRequest:
    """What the queue is told of a submission; raises Refused. seconds: the longest budget that is granted.

    The graph goes on without its author's names, unless some are pinned: what is stored under its key is everybody's.
    """
    try:
        machine = machine_of(submission, machines)
        check_graph(submission.graph, machine)
        digest = machine.digest()
        key = schedule_key(submission.graph, digest, submission.options.asked)
    except TwillError as error:
        raise RefusedRequest.of(error) from None
    budget = seconds if submission.options.budget is None else min(seconds, submission.options.budget)
    options = submission.options.model_copy(update={"budget": budget})
    graph = submission.graph
    nameless = graph.model_copy(update={"file": ""}) if options.pins else anonymous(graph)
    retained = submission.model_copy(update={"graph": nameless, "machine": digest, "options": options})
    names = (graph.kernel, graph.spec, machine.name)
    return QueuedRequest(key, retained.canonical(), *names, client, digest, machine.canonical())


def machine_of(submission: Submission, machines: Mapping[str, Machine]) -> Machine:
    """The machine that a submission names or brings; names are looked up here and nowhere else."""
    if isinstance(submission.machine, str):
        found = machines.get(submission.machine)
        if found is None:
            hint = f"one of {', '.join(sorted(machines))}, or a whole machine document"
            raise RefusedRequest(422, "UnknownMachine", f"there is no machine called {submission.machine!r}", hint)
        return found
    check_machine_document(submission.machine)
    return submission.machine
