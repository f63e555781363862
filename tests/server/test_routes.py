"""Promises of the HTTP API: versioned documents, one error document, caching, tokens, limits, resumable events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from server.queue import QueueUnavailable
from server.tokens import add_token, scopes_of
from tests.kernels import H100, example
from tests.service import Client, body, ended, graph, running
from twill.graph.anonymous import anonymous
from twill.machine.description import Machine
from twill.machine.names import list_machines
from twill.store.api import Job, MachineList, Refusal, ScheduleList
from twill.store.interface import Entry

NONE = "0" * 32
NO_KEY = "0" * 64


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service that solves."""
    with running(tmp_path_factory.mktemp("service")) as found:
        yield found


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service without workers: jobs stay where they are."""
    with running(tmp_path_factory.mktemp("idle"), workers=0) as found:
        yield found


@pytest.fixture(scope="module")
def solved(client: Client) -> Job:
    """A job that is done."""
    answer = client.post("/v1/jobs", json=body())
    assert answer.status_code == 202
    return Job.parse(json.dumps(ended(client, answer.json()["id"])))


def refusal(answer: httpx.Response, status: int, kind: str) -> Refusal:
    """The error document of an answer, which must be one."""
    found = Refusal.parse(answer.content)
    assert (answer.status_code, found.kind) == (status, kind)
    assert found.message and found.request_id == answer.headers["x-request-id"]
    return found


# -- jobs


def test_a_submission_is_accepted_and_its_job_is_at_its_location(idle: Client) -> None:
    answer = idle.post("/v1/jobs", json=body(graph(512)))
    job = Job.parse(answer.content)
    assert answer.status_code == 202 and job.state == "queued" and job.kernel == "scale"
    assert answer.headers["location"] == f"/v1/jobs/{job.id}"
    assert Job.parse(idle.get(answer.headers["location"]).content) == job


def test_equal_submissions_in_flight_are_one_job_whatever_their_names_are(idle: Client) -> None:
    answers = [idle.post("/v1/jobs", json=body(graph(256, kernel=name))) for name in ("one", "another")]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    other = idle.post("/v1/jobs", json=body(graph(256), seed=1))
    assert other.json()["id"] != answers[0].json()["id"]


def test_a_solved_submission_is_answered_at_once(client: Client, solved: Job) -> None:
    answer = client.post("/v1/jobs", json=body())
    assert answer.status_code == 200 and Job.parse(answer.content) == solved
    assert answer.headers["location"] == f"/v1/jobs/{solved.id}"


def test_a_whole_machine_may_be_sent(client: Client, solved: Job) -> None:
    answer = client.post("/v1/jobs", json=body(machine=json.loads(H100.canonical())))
    assert answer.json()["key"] == solved.key


def test_a_job_is_cancelled(idle: Client) -> None:
    job = idle.post("/v1/jobs", json=body(graph(64))).json()["id"]
    assert idle.delete(f"/v1/jobs/{job}").json()["state"] == "cancelled"
    assert idle.get(f"/v1/jobs/{job}").json()["state"] == "cancelled"


def test_a_job_that_fails_says_why(client: Client) -> None:
    job = client.post("/v1/jobs", json=body(ii=1)).json()["id"]
    found = Job.parse(json.dumps(ended(client, job)))
    assert found.state == "failed" and found.problem is not None and found.problem.kind == "Infeasible"


# -- events


def events(answer: httpx.Response) -> list[tuple[int, Job]]:
    """Number and job of every event of a stream."""
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        if lines.get("event") == "job":
            found.append((int(lines["id"]), Job.parse(lines["data"])))
    return found


def test_events_tell_a_job_from_its_beginning_to_its_end(client: Client, solved: Job) -> None:
    found = events(client.get(f"/v1/jobs/{solved.id}/events"))
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    assert [job.state for _, job in found][:2] == ["queued", "running"]
    assert found[-1][1] == solved


def test_events_are_resumed_after_the_last_one_that_was_seen(client: Client, solved: Job) -> None:
    path = f"/v1/jobs/{solved.id}/events"
    everything = events(client.get(path))
    assert events(client.get(path, headers={"Last-Event-ID": "2"})) == everything[2:]
    assert events(client.get(path, headers={"Last-Event-ID": str(len(everything))})) == []
    assert events(client.get(path, headers={"Last-Event-ID": "nonsense"})) == everything


def test_events_come_while_the_job_is_at_work(idle: Client) -> None:
    job = idle.post("/v1/jobs", json=body(graph(128))).json()["id"]
    seen: list[str] = []
    with idle.stream("GET", f"/v1/jobs/{job}/events") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: "))["state"])
                if seen == ["queued"]:
                    idle.delete(f"/v1/jobs/{job}")
    assert seen == ["queued", "cancelled"]


def test_event_streams_are_bounded_and_given_back(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, streams=1) as client:
        job = client.post("/v1/jobs", json=body()).json()["id"]
        with client.stream("GET", f"/v1/jobs/{job}/events") as answer:
            lines = answer.iter_lines()
            next(lines)
            refusal(client.get(f"/v1/jobs/{job}/events"), 503, "TooManyStreams")
        client.delete(f"/v1/jobs/{job}")
        for _ in range(200):
            if client.get(f"/v1/jobs/{job}/events").status_code == 200:
                break
            time.sleep(0.02)
        assert client.service.streams == 0


# -- schedules


def test_a_schedule_may_be_kept_a_while_and_has_the_hash_of_its_bytes_as_etag(client: Client, solved: Job) -> None:
    answer = client.get(f"/v1/schedules/{solved.key}")
    entry = Entry.parse(answer.content)
    assert entry.key == solved.key and entry.schedule.kernel == "scale" and entry.graph == anonymous(graph())
    assert answer.headers["cache-control"] == "public, max-age=300"
    etag = answer.headers["etag"]
    for names in (etag, f"W/{etag}", f'"x", {etag}', "*"):
        again = client.get(f"/v1/schedules/{solved.key}", headers={"If-None-Match": names})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    assert client.get(f"/v1/schedules/{solved.key}", headers={"If-None-Match": '"x"'}).status_code == 200


def test_schedules_are_found_by_kernel_and_machine(client: Client, solved: Job) -> None:
    for query, number in (
        ({}, 1), ({"kernel": "scale"}, 1), ({"kernel": "scale", "machine": "h100"}, 1), ({"machine": "b200"}, 0),
        ({"kernel": "scal"}, 0),
    ):  # fmt: skip
        found = ScheduleList.parse(client.get("/v1/schedules", params=query).content)
        assert len(found.schedules) == number, query
    assert found.next is None


def test_a_long_list_comes_in_pages(client: Client, solved: Job) -> None:
    other = client.post("/v1/jobs", json=body(graph(2048))).json()
    ended(client, other["id"])
    first = ScheduleList.parse(client.get("/v1/schedules?limit=1").content)
    second = ScheduleList.parse(client.get(f"/v1/schedules?limit=1&before={first.next}").content)
    assert [one.key for one in (*first.schedules, *second.schedules)] == [other["key"], solved.key]


def test_a_submission_that_was_solved_is_neither_read_nor_written_when_it_comes_again(
    client: Client, solved: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.post("/v1/jobs", json=body())
    monkeypatch.setattr(client.service.admitters, "read", None)
    monkeypatch.setattr(client.service.queue, "writing", None)
    again = client.post("/v1/jobs", json=body())
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.json()["state"] == "done" and again.headers["location"] == first.headers["location"]


def test_an_entry_is_deleted_by_who_may_do_all_and_can_be_solved_again(client: Client) -> None:
    job = client.post("/v1/jobs", json=body(graph(4096))).json()
    ended(client, job["id"])
    assert client.post("/v1/jobs", json=body(graph(4096))).status_code == 200  # and is remembered
    assert client.get(f"/v1/schedules/{job['key']}").status_code == 200
    assert client.delete(f"/v1/schedules/{job['key']}").status_code == 204
    refusal(client.get(f"/v1/schedules/{job['key']}"), 404, "NotFound")
    refusal(client.delete(f"/v1/schedules/{job['key']}"), 404, "NotFound")
    again = client.post("/v1/jobs", json=body(graph(4096)))
    assert again.status_code == 202 and ended(client, again.json()["id"])["state"] == "done"


# -- machines, operators


def test_machines_are_listed_and_given_whole(client: Client) -> None:
    listed = MachineList.parse(client.get("/v1/machines").content).machines
    assert [machine.name for machine in listed] == list(list_machines())
    digest = next(machine.machine_digest for machine in listed if machine.name == "h100")
    for name in ("h100", digest):
        assert Machine.parse(client.get(f"/v1/machines/{name}").content) == H100
    refusal(client.get("/v1/machines/..%2Fh100.toml"), 404, "NotFound")


def test_health_and_readiness(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    monkeypatch.setattr("server.service.LOOK_AGAIN", 0.0)
    monkeypatch.setattr(client.service.pool, "alive", lambda: False)
    answer = client.get("/readyz")
    refusal(answer, 503, "NotReady")
    assert answer.headers["retry-after"] and client.get("/healthz").status_code == 200


def test_metrics_count_requests_jobs_and_submissions(client: Client, solved: Job) -> None:
    client.get(f"/v1/schedules/{solved.key}")
    text = client.get("/metrics").text
    assert 'twill_submissions_total{outcome="new"}' in text
    assert 'twill_lookups_total{outcome="found"}' in text
    assert 'twill_jobs{state="done"}' in text
    assert 'twill_requests_total{method="GET",route="/v1/schedules/{key}",status="200"}' in text
    assert solved.key not in text


# -- refusals


@pytest.mark.parametrize(
    "path", [f"/v1/jobs/{NONE}", f"/v1/jobs/{NONE}/events", f"/v1/schedules/{NO_KEY}", "/v1/machines/h9", "/v2/jobs"]
)
def test_what_is_not_there_is_not_found(client: Client, path: str) -> None:
    refusal(client.get(path), 404, "NotFound")


@pytest.mark.parametrize(
    "path",
    ["/v1/jobs/x", "/v1/jobs/x/events", "/v1/schedules/x", "/v1/schedules?limit=0", "/v1/schedules?before=many",
     f"/v1/schedules?kernel={'k' * 300}"],
)  # fmt: skip
def test_parameters_of_another_form_are_refused(client: Client, path: str) -> None:
    refusal(client.get(path), 422, "BadParameter")


def test_methods_and_types_that_mean_nothing_are_refused(client: Client) -> None:
    answer = client.put("/v1/jobs", json=body())
    refusal(answer, 405, "NoSuchMethod")
    assert answer.headers["allow"] == "GET, POST"
    refusal(client.post("/v1/jobs", content=b"{}", headers={"Content-Type": "text/plain"}), 415, "NotJson")
    refusal(client.post("/v1/jobs", content=b"{", headers={"Content-Type": "application/json"}), 400, "NotJson")
    assert "UnknownMachine" in client.post("/v1/jobs", json=body(machine="h1")).text


def test_a_body_beyond_the_limit_is_refused_also_when_it_does_not_say_how_long_it_is(client: Client) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 100_000

    json_type = {"Content-Type": "application/json"}
    for content in (b" " * 5_000_000, endless()):
        try:
            answer = client.post("/v1/jobs", content=content, headers=json_type)
        except httpx.WriteError:
            continue  # the service closed the connection while we were still sending
        refusal(answer, 413, "TooLarge")
    assert client.get("/healthz").status_code == 200


def test_a_full_queue_says_when_to_come_again(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, waiting=2) as client:
        for size in (64, 128):
            assert client.post("/v1/jobs", json=body(graph(size))).status_code == 202
        answer = client.post("/v1/jobs", json=body(graph(256)))
        refusal(answer, 429, "QueueFull")
        assert int(answer.headers["retry-after"]) >= 1
        assert client.post("/v1/jobs", json=body(graph(64))).status_code == 202  # joins one that waits


def test_who_asks_too_often_is_told_when_to_come_again_and_health_is_not_counted(tmp_path: Path) -> None:
    with running(tmp_path, workers=0, rate=0.5) as client:
        answers = [client.get("/v1/machines") for _ in range(3)]
        refusal(answers[-1], 429, "RateLimit")
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200


def test_an_operation_that_fails_within_is_a_500_without_its_insides(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(client.service.store, "find", fail)
    answer = client.get("/v1/schedules")
    assert "secret" not in refusal(answer, 500, "Internal").canonical()


# -- names and headers


def test_every_answer_has_the_requests_id(client: Client) -> None:
    assert client.get("/healthz", headers={"X-Request-Id": "ci-17.b"}).headers["x-request-id"] == "ci-17.b"
    for bad in ("no spaces", "x" * 65, 'a"b'):
        assert client.get("/healthz", headers={"X-Request-Id": bad}).headers["x-request-id"] != bad


def test_a_service_without_tokens_does_not_answer_to_other_names(client: Client) -> None:
    refusal(client.get("/v1/machines", headers={"Host": "evil.example"}), 403, "ForeignHost")
    for name in ("localhost", "localhost:8377", "127.0.0.1:1", "[::1]:80"):
        assert client.get("/v1/machines", headers={"Host": name}).status_code == 200


def test_answers_cannot_be_framed_sniffed_or_scripted(client: Client) -> None:
    headers = client.get("/v1/machines").headers
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert "default-src 'none'" in headers["content-security-policy"]


# -- tokens


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, dict[str, dict[str, str]]]]:
    """A service with tokens, and the headers of each."""
    directory = tmp_path_factory.mktemp("guarded")
    names = {"reader": ["read"], "ci": ["solve"], "other": ["solve"], "boss": ["admin"]}
    headers = {
        name: {"Authorization": f"Bearer {add_token(directory / 'tokens', name, scopes_of(scopes))}"}
        for name, scopes in names.items()
    }
    with running(directory, workers=0, tokens=directory / "tokens") as client:
        yield client, headers


def test_without_a_token_nothing_is_answered_but_health(guarded: tuple[Client, dict[str, dict[str, str]]]) -> None:
    client, _ = guarded
    paths = ["/v1/machines", "/v1/schedules", f"/v1/schedules/{NO_KEY}", f"/v1/jobs/{NONE}", "/metrics"]
    for answer in [*map(client.get, paths), client.post("/v1/jobs", json=body()), client.delete(f"/v1/jobs/{NONE}")]:
        refusal(answer, 401, "Unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    for wrong in ("Bearer nonsense", "Basic abc", "Bearer ü"):
        found = client.get("/v1/machines", headers=[(b"Authorization", wrong.encode())])
        refusal(found, 401, "Unauthorized")
    assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200


def test_each_scope_may_do_its_own(guarded: tuple[Client, dict[str, dict[str, str]]]) -> None:
    client, headers = guarded
    assert client.get("/v1/machines", headers=headers["reader"]).status_code == 200
    refusal(client.post("/v1/jobs", json=body(), headers=headers["reader"]), 403, "Forbidden")
    job = client.post("/v1/jobs", json=body(), headers=headers["ci"]).json()["id"]
    refusal(client.delete(f"/v1/jobs/{job}", headers=headers["other"]), 403, "Forbidden")
    refusal(client.delete(f"/v1/jobs/{job}", headers=headers["reader"]), 403, "Forbidden")
    assert client.delete(f"/v1/jobs/{job}", headers=headers["boss"]).json()["state"] == "cancelled"


def test_a_cookie_reads_and_changes_nothing_through_the_api(guarded: tuple[Client, dict[str, dict[str, str]]]) -> None:
    client, headers = guarded
    cookie = {"Cookie": f"twill_token={headers['boss']['Authorization'].removeprefix('Bearer ')}"}
    assert client.get("/v1/machines", headers=cookie).status_code == 200
    refusal(client.post("/v1/jobs", json=body(), headers=cookie), 401, "Unauthorized")


def test_tokens_have_limits_of_their_own(tmp_path: Path) -> None:
    headers = [
        {"Authorization": f"Bearer {add_token(tmp_path / 'tokens', name, scopes_of(['read']))}"} for name in ("a", "b")
    ]
    with running(tmp_path, workers=0, rate=0.5, tokens=tmp_path / "tokens") as client:
        statuses = [client.get("/v1/machines", headers=headers[0]).status_code for _ in range(2)]
        assert statuses == [200, 429]
        assert client.get("/v1/machines", headers=headers[1]).status_code == 200


def test_many_clients_at_once_get_one_job_for_one_problem(tmp_path: Path) -> None:
    with running(tmp_path, workers=2) as client:
        found: list[dict[str, Any]] = []
        threads = [
            threading.Thread(target=lambda: found.append(client.post("/v1/jobs", json=body()).json()))
            for _ in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 16 and len({job["id"] for job in found}) == 1
        assert ended(client, found[0]["id"])["state"] == "done"


def test_a_real_kernel_goes_through(client: Client) -> None:
    answer = client.post("/v1/jobs", json=body(example("layer_norm", None)))
    assert ended(client, answer.json()["id"])["state"] == "done"
    assert Entry.parse(client.get(f"/v1/schedules/{answer.json()['key']}").content).schedule.certificate.optimal


def test_an_expired_token_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    token = add_token(file, "ci", scopes_of(["read"]))
    file.write_text(file.read_text(encoding="utf-8").strip() + " 2020-01-01\n", encoding="utf-8")
    with running(tmp_path, workers=0, tokens=file) as client:
        answer = client.get("/v1/machines", headers={"Authorization": f"Bearer {token}"})
        assert "ci has expired, on 2020-01-01" in refusal(answer, 401, "TokenExpired").message
        assert client.post("/login", data={"token": token}).status_code == 403


def test_a_full_disk_is_no_mistake_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.service.LOOK_AGAIN", 0.0)
    with running(tmp_path, workers=0) as client:
        assert client.get("/readyz").status_code == 200

        def full(*_: object) -> None:
            raise QueueUnavailable("the job queue: database or disk is full")

        monkeypatch.setattr(client.service.queue, "add", full)
        answer = client.post("/v1/jobs", json=body())
        assert refusal(answer, 503, "QueueUnavailable").message.endswith("disk is full")
        assert answer.headers["retry-after"]
        monkeypatch.setattr(client.service.queue, "trouble", lambda: "the job queue: database or disk is full")
        refusal(client.get("/readyz"), 503, "NotReady")
        monkeypatch.undo()
    with running(tmp_path, workers=0, free=2**62) as client:
        assert "the disk is full" in refusal(client.get("/readyz"), 503, "NotReady").message


def test_a_damaged_queue_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.queue_sqlite.SqliteQueue.damage", lambda queue: "the job queue: it is damaged: page 7")
    with running(tmp_path, workers=0) as client:
        client.service.looked = -1e9
        while not client.service.damage:
            time.sleep(0.01)
        assert "page 7" in refusal(client.get("/readyz"), 503, "NotReady").message


def test_metrics_tell_readiness_also_when_the_queue_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.service.LOOK_AGAIN", 0.0)
    with running(tmp_path, workers=0) as client:
        assert "\ntwill_ready 1.0\n" in client.get("/metrics").text

        def broken() -> None:
            raise QueueUnavailable("the job queue: database disk image is malformed")

        monkeypatch.setattr(client.service.queue, "counts", broken)
        monkeypatch.setattr(client.service.queue, "trouble", lambda: "it is damaged")
        answer = client.get("/metrics")
        assert answer.status_code == 200 and "\ntwill_ready 0.0\n" in answer.text and "twill_jobs{" not in answer.text
