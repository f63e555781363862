"""Promises of admission: what cannot be solved is refused early, clearly, and without spending much on it."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from server.admission import InputLimits, admit, read_body, read_submission
from server.queue import QueuedRequest
from server.refusals import RefusedRequest
from tests.kernels import H100
from tests.service import body, graph
from twill.machine.description import Machine
from twill.solve.pipeline import SolveOptions, solve
from twill.store.api import Submission

LIMITS = InputLimits()
MACHINES = {"h100": H100}
MEMORY = 64 * 1024 * 1024  # bytes that a refusal may need


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def refused(text: bytes, limits: InputLimits = LIMITS) -> RefusedRequest:
    """The refusal of a body, which must not take much memory."""
    tracemalloc.start()
    with pytest.raises(RefusedRequest) as found:
        admit(read_submission(text, limits), MACHINES, "me", 60.0)
    assert tracemalloc.get_traced_memory()[1] < MEMORY
    tracemalloc.stop()
    return found.value


def admitted(value: dict[str, Any]) -> QueuedRequest:
    return admit(read_submission(json.dumps(value).encode(), LIMITS), MACHINES, "me", 60.0)


def changed(path: str, value: object) -> bytes:
    """A good submission with one place changed: `graph.regions.0.nodes.1.bytes`."""
    good = body()
    place: Any = good
    *most, last = path.split(".")
    for name in most:
        place = place[int(name) if name.isdigit() else name]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(good).encode()


# -- the body


def test_a_body_is_read_whole() -> None:
    assert asyncio.run(read_body(chunks(b"ab", b"", b"c"), None, LIMITS)) == b"abc"


def test_a_long_body_is_refused_by_its_announcement_before_any_of_it_is_read() -> None:
    async def never() -> AsyncIterator[bytes]:
        raise AssertionError("read")
        yield b""

    with pytest.raises(RefusedRequest) as found:
        asyncio.run(read_body(never(), "99999999999", LIMITS))
    assert found.value.status == 413


def test_a_long_body_without_an_announcement_is_refused_while_it_comes() -> None:
    seen = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal seen
        while True:
            seen += 1
            yield bytes(1024)

    with pytest.raises(RefusedRequest) as found:
        asyncio.run(read_body(endless(), None, InputLimits(body_bytes=10 * 1024)))
    assert found.value.status == 413 and seen == 11


def test_a_slow_body_is_refused() -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    with pytest.raises(RefusedRequest) as found:
        asyncio.run(read_body(slow(), None, InputLimits(seconds=0.05)))
    assert found.value.status == 408


# -- its JSON


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{", b"nonsense", b"\xff", b'{"graph": NaN}', b'{"graph": Infinity}', b"[" * 100_000, b'{"a":' * 50_000,
        b'{"graph": ' + b"1" * 100_000 + b"}", b'{"graph": "\\ud800"}', b'{"graph": -}',
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused_as_that(text: bytes) -> None:
    found = refused(text)
    assert (found.status, found.kind) == (400, "NotJson")


@pytest.mark.parametrize("part", [b"{},", b"[],", b"1,", b'"",', b"[[{"])
def test_very_many_values_are_refused_before_they_are_parsed(part: bytes) -> None:
    text = b'{"graph":{"regions":[' + part * 1_000_000 + b"1]}}"
    found = refused(text)
    assert found.status in (400, 413)


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"graph": 1}, {"graph": {}}, {"graph": {"regions": [3]}}])
def test_json_of_another_shape_is_refused_with_the_first_field(value: object) -> None:
    found = refused(json.dumps(value).encode())
    assert (found.status, found.kind) == (422, "BadSubmission") and ":" in found.message


@pytest.mark.parametrize(("many", "what"), [("nodes", "nodes"), ("edges", "edges")])
def test_a_graph_with_too_many_parts_is_refused(many: str, what: str) -> None:
    good = body()
    region = good["graph"]["regions"][0]
    region[many] = region[many] * 2000
    found = refused(json.dumps(good).encode())
    assert found.status == 413 and f"{what}; this service takes at most" in found.message


def test_a_graph_of_a_million_nodes_is_refused() -> None:
    node = json.dumps(body()["graph"]["regions"][0]["nodes"][1]).encode()
    limits = InputLimits(body_bytes=1 << 40)
    found = refused(b'{"graph":{"regions":[{"nodes":[' + node + (b"," + node) * 100_000 + b"]}]}}", limits)
    assert found.status == 413


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("graph.regions.0.nodes.0.bytes", 1.5), ("graph.regions.0.nodes.0.bytes", "4096"), ("graph.kernel", None),
        ("graph.regions.0.nodes.0.kind", "frob"), ("graph.surprise", 1), ("options.budget", -1),
        ("options.seed", 2**40),
        ("options.budget", "inf"), ("options.strategy", "magic"), ("options.budget", 1e999),
        ("options.pins", ["x" * 300]), ("machine", 7), ("machine", {"name": "mine"}),
    ],
)  # fmt: skip
def test_a_field_of_another_type_or_range_is_named(path: str, value: object) -> None:
    text = changed(path, value).replace(b"Infinity", b"1e999")
    found = refused(text)
    assert (found.status, found.kind) == (422, "BadSubmission")
    assert found.message.startswith(path.split(".", maxsplit=1)[0])


# -- what it means


def test_a_good_submission_has_the_key_of_its_solve() -> None:
    found = admitted(body(graph(), seed=3))
    assert found.key == solve(graph(), H100, SolveOptions(seed=3)).key
    assert (found.kernel, found.machine, found.client) == ("scale", "h100", "me")


def test_the_job_names_its_machine_and_carries_a_budget_that_the_service_grants() -> None:
    for asked, granted in ((None, 60.0), (10.0, 10.0), (1000.0, 60.0)):
        value = {**body(), "options": {} if asked is None else {"budget": asked}}
        request = admitted(value)
        document = Submission.parse(request.document)
        assert document.machine == request.machine_digest == H100.digest() and document.options.budget == granted
        assert Machine.parse(request.machine_document) == H100


def test_a_machine_is_looked_up_by_name_only_among_those_described() -> None:
    for name in ("h200", "../h100", "machines/h100.toml", "/etc/passwd", ""):
        found = refused(changed("machine", name))
        assert (found.status, found.kind) == (422, "UnknownMachine") and "h100" in found.hint


def test_a_whole_machine_is_taken_and_held_to_the_rules_of_machine_files() -> None:
    machine = json.loads(H100.canonical())
    assert Machine.parse(admitted(body(machine=machine)).machine_document) == H100
    machine["operations"][0]["rates"][0]["unit"] = "warp drive"
    found = refused(json.dumps(body(machine=machine)).encode())
    assert (found.status, found.kind) == (422, "BadSubmission") and "'warp drive'" in found.message


def test_an_operation_without_a_price_is_refused_with_the_kernels_line() -> None:
    found = refused(changed("graph.regions.0.nodes.1.counts.0.operation", "frob.f32"))
    assert (found.status, found.kind) == (422, "UnpricedOperation")
    assert "scale.py:11" in found.message and "'frob.f32'" in found.message


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("graph.regions.0.nodes.1.dims", "axes"),
        ("graph.regions.0.nodes.0.result.shape", "axes"),
        ("graph.regions.0.nodes.1.counts", "counts"),
        ("graph.regions.0.nodes.1.operations", "operations"),
        ("graph.regions.0.inputs.0.readers", "readers"),
        ("graph.regions.0.inputs", "inputs"),
        ("graph.regions.0.carried", "carried"),
    ],
)
def test_every_list_of_a_graph_has_a_limit(path: str, what: str) -> None:
    value = body()
    value["graph"]["regions"][0]["inputs"] = [{"readers": []}]
    found = refused(changed_in(value, path, [0] * 5000))
    assert (found.status, found.kind) == (413, "TooLarge") and f" {what}; " in found.message


def changed_in(value: dict[str, Any], path: str, to: object) -> bytes:
    """A submission with another value at a path."""
    *way, last = path.split(".")
    at: Any = value
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    at[last] = to
    return json.dumps(value).encode()


NAMES = [
    "graph.kernel", "graph.spec", "graph.dims.0.name", "graph.regions.0.nodes.0.name", "graph.regions.0.nodes.0.tensor",
    "graph.regions.0.nodes.0.result.dtype", "graph.regions.0.edges.0.operand",
]  # fmt: skip


@pytest.mark.parametrize("path", NAMES)
def test_no_name_is_long_or_hidden(path: str) -> None:
    for name in ("n" * 201, "n" * 3_900_000):
        found = refused(changed_in(body(), path, name))
        assert (found.status, found.kind) == (413, "TooLarge") and len(found.message) < 200
    for name in ("a\nb", "\x1b[2J", "\u202e"):
        assert refused(changed_in(body(), path, name)).status == 422


def test_texts_for_people_and_a_machines_sources_have_their_own_limit() -> None:
    machine = json.loads(H100.canonical())
    for path in ("graph.file", "graph.regions.0.trip.text", "graph.regions.0.nodes.0.transport_reason"):
        assert admitted(json.loads(changed_in(body(), path, "n" * 2000))).kernel == "scale"
        assert refused(changed_in(body(), path, "n" * 2001)).status == 413
    assert refused(changed_in(body(machine=machine), "machine.name", "n" * 201)).status == 413
    assert refused(changed_in(body(machine=machine), "machine.sms.source", "n" * 2001)).status == 413


@pytest.mark.parametrize("path", ["graph.regions.0.line", "graph.regions.0.nodes.0.line", "graph.dims.0.id"])
def test_no_number_is_beyond_reason(path: str) -> None:
    found = refused(changed_in(body(), path, 10**300))
    assert (found.status, found.kind) == (422, "BadSubmission") and len(found.message) < 200


def test_what_is_stored_has_no_name_or_path_of_the_submitter() -> None:
    value = json.loads(changed_in(body(), "graph.regions.0.nodes.1.name", "mine"))
    value["graph"]["file"] = "/home/me/scale.py"
    document = admitted(value).document
    assert "mine" not in document and "/home" not in document and "x_ptr" not in document
    value["options"] = {"pins": ["mine.0=g0"]}  # which name operations
    pinned = admitted(value).document
    assert '"name":"mine"' in pinned and "/home" not in pinned
