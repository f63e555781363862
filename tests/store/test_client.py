"""Promises of the typed client: documents, or one clear reason; retries; no call to a service that is not well."""

from __future__ import annotations

import json

import pytest

from tests.kernels import H100
from tests.services import Reply, answer, dead_address, entry_answer, playing, raw, refusal, silence
from tests.stores import entry_of, graph_of
from twill.exc import ServiceRefused, ServiceUnavailable
from twill.schedule.key import KeyOptions
from twill.store import client as client_module
from twill.store.api import Job, JobBounds, MachineList, MachineSummary, ScheduleList, SolveRequest, Submission
from twill.store.circuit_breaker import Breaker
from twill.store.client import Client, messages
from twill.store.interface import summary_of

KEY = entry_of().key
JOB = Job(id="j1", key=KEY, state="running", kernel="gemm", spec="bf16", machine="h100", created="2026-01-01T00:00:00Z")
DONE = JOB.model_copy(update={"state": "done"})


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "BACKOFF", 0.001)


def event(job: Job) -> str:
    """A job as a server-sent event."""
    return f": note\r\nid: 7\r\nevent: job\r\ndata: {job.canonical()}\r\n\r\n"


def test_every_call_sends_and_reads_its_document() -> None:
    machines = MachineList(
        machines=(MachineSummary(name="h100", title="H100", architecture="sm_90a", machine_digest="d"),)
    )
    page = ScheduleList(schedules=(summary_of(entry_of(), 3),), next=3)
    replies = [page, machines, H100, JOB, JOB, DONE]
    with playing(*[answer(document.canonical()) for document in replies]) as service:
        client = Client(service.address)
        assert client.schedules("a b", "h100", 7, 9) == page
        assert client.machines() == machines
        assert client.machine("h100") == H100
        assert client.submit(graph_of(), "h100", SolveRequest(budget=5)) == JOB
        assert client.job("j/1") == JOB
        assert client.cancel("j1") == DONE
        client.close()
    asked = [(request.method, request.path) for request in service.seen]
    assert asked == [
        ("GET", "/v1/schedules?kernel=a+b&machine=h100&limit=7&before=9"),
        ("GET", "/v1/machines"),
        ("GET", "/v1/machines/h100"),
        ("POST", "/v1/jobs"),
        ("GET", "/v1/jobs/j%2F1"),
        ("DELETE", "/v1/jobs/j1"),
    ]
    sent = Submission.parse(service.seen[3].body)
    assert (sent.graph, sent.machine, sent.options.budget) == (graph_of().homeless(), "h100", 5)
    assert sent.options.asked == KeyOptions()


def test_an_entry_is_asked_for_with_the_etag_it_had() -> None:
    with playing(entry_answer(entry_of()), answer("", 304), refusal(404)) as service:
        client = Client(service.address)
        assert client.schedule(KEY) == entry_of()
        assert client.schedule(KEY) == entry_of()
        assert client.schedule(KEY) is None
        assert [request.headers.get("if-none-match", "")[:1] for request in service.seen] == ["", '"', '"']
        client.close()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (answer("garbage"), "its answer is no Entry of this version"),
        (answer(entry_of().canonical()[:-10]), "its answer is no Entry of this version"),
        (answer(json.dumps({"schema": "twill.entry/9"})), "its answer is no Entry of this version .schema"),
        (answer("[" * 100_000), "its answer is no Entry"),
        (answer(entry_of().canonical(), ETag='"' + "0" * 64 + '"'), "does not have the hash that the ETag says"),
        (raw(entry_of().canonical().encode()), "not an HTTP answer"),
        (answer("", 302, Location="/elsewhere"), "it answered 302"),
        (answer("", 500), "it answered 500"),
        (answer("", 304), "it answered 304"),
    ],
)
def test_nonsense_is_a_service_that_is_not_there(reply: Reply, why: str) -> None:
    with playing(reply) as service, pytest.raises(ServiceUnavailable, match=why):
        Client(service.address).schedule(KEY)


def test_a_service_that_says_no_is_quoted() -> None:
    with playing(refusal(403, "the token may not solve")) as service:
        with pytest.raises(ServiceRefused, match=r"the token may not solve \(request r1\)") as refused:
            Client(service.address).submit(graph_of(), "h100")
        assert (refused.value.status, refused.value.kind) == (403, "Played")
    with playing(answer("<html>", 401)) as service, pytest.raises(ServiceRefused, match="it answered 401"):
        Client(service.address).machines()


def test_a_service_that_is_busy_is_asked_again() -> None:
    replies = (answer("", 503), raw(b""), answer("", 429, Retry_After="0"), answer(JOB.canonical(), 202))
    with playing(*replies) as service:
        client = Client(service.address, breaker=Breaker(failures=9))
        assert client.submit(graph_of(), "h100") == JOB
        assert len(service.seen) == 4
        client.close()


def test_a_wait_that_is_longer_than_the_time_left_is_not_begun() -> None:
    with playing(answer("", 429, Retry_After="3600")) as service:
        with pytest.raises(ServiceUnavailable, match="it answered 429"):
            Client(service.address, seconds=5).machines()
        assert len(service.seen) == 1


def test_a_call_ends_in_its_time_with_its_retries() -> None:
    with playing(silence) as service, pytest.raises(ServiceUnavailable, match="no answer in time"):
        Client(service.address, seconds=0.2).machines()


def test_a_service_that_failed_in_a_row_is_left_alone() -> None:
    client = Client(dead_address(), tries=1)
    for _ in range(3):
        with pytest.raises(ServiceUnavailable, match="refused"):
            client.machines()
    with pytest.raises(ServiceUnavailable, match="asked again in 5 s"):
        client.machines()


def test_nonsense_counts_as_failure_and_a_miss_does_not() -> None:
    with playing(answer("garbage"), answer("garbage"), answer("garbage")) as service:
        client = Client(service.address)
        for _ in range(3):
            with pytest.raises(ServiceUnavailable):
                client.schedule(KEY)
        assert not client.breaker.allows()
        client.close()
    with playing(refusal(404)) as service:
        client = Client(service.address)
        assert [client.schedule(KEY) for _ in range(5)] == [None] * 5
        client.close()


def test_events_are_followed_until_the_job_has_ended() -> None:
    running = JOB.model_copy(update={"bounds": JobBounds(phase="ii", lower=5, upper=None, seconds=1.0)})
    stream = answer(event(JOB) + event(running) + event(DONE), Content_Type="text/event-stream")
    with playing(stream) as service:
        client = Client(service.address)
        assert list(client.events("j1")) == [JOB, running, DONE]
        assert service.seen[0].path == "/v1/jobs/j1/events"
        client.close()


def test_a_stream_that_breaks_off_is_taken_up_again() -> None:
    replies = (
        raw(b"HTTP/1.1 200 OK\r\n\r\n" + event(JOB).encode() + b"event: job\r\ndata: {"),
        answer(JOB.canonical()),
    )
    with playing(*replies, answer(event(DONE))) as service:
        client = Client(service.address)
        assert list(client.events("j1")) == [JOB, DONE]
        client.close()
    with playing(refusal(503), answer(DONE.canonical())) as service:
        client = Client(service.address)
        assert list(client.events("j1")) == [DONE]
        client.close()


def test_events_that_never_come_end_with_a_reason() -> None:
    replies = [reply for _ in range(3) for reply in (answer(""), answer(JOB.canonical()))]
    with playing(*replies, answer(""), answer(JOB.canonical())) as service:
        client = Client(service.address, tries=3)
        with pytest.raises(ServiceUnavailable, match="the events of a job broke off"):
            list(client.events("j1"))
        client.close()


def test_messages_are_read_as_the_standard_says() -> None:
    lines = (
        b": comment\nevent: job\ndata: a\ndata:b\n\ndata:  c\r\n\r\nevent: x\n\nid: 3\ndata\n\ndata: cut".splitlines(
            True
        )
    )
    assert list(messages(iter(lines))) == [("job", b"a\nb"), ("message", b" c"), ("message", b"")]
