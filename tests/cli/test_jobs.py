"""Promises of `twill jobs`: the jobs of a service are listed, ended and tried again, and nothing of it is believed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from server.tokens import add_token, scopes_of
from tests.service import Client, body, graph, running
from tests.services import answer, playing
from twill.cli import main
from twill.store.api import Job, JobList, JobProblem


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A service without workers."""
    with running(tmp_path, workers=0) as found:
        monkeypatch.setenv("TWILL_SERVER", str(found.base_url))
        yield found


def test_jobs_are_listed_newest_first_and_by_state(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [client.post("/v1/jobs", json=body(graph(size))).json()["id"] for size in (64, 128)]
    assert main(["jobs", "cancel", ids[0]]) == 0
    assert capsys.readouterr().out == f"{ids[0]}: cancelled\n"
    assert main(["jobs", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [[ids[1], "queued", "scale"], [ids[0], "cancelled", "scale"]]
    assert main(["jobs", "list", "--state", "queued", "--limit", "1", "--json"]) == 0
    assert [job.id for job in JobList.parse(capsys.readouterr().out).jobs] == [ids[1]]


def test_what_was_cancelled_is_tried_again_as_another_job(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    old = client.post("/v1/jobs", json=body()).json()
    assert main(["jobs", "retry", old["id"]]) == 2
    assert "the job is queued" in capsys.readouterr().err
    assert main(["jobs", "cancel", old["id"]]) == 0
    assert main(["jobs", "retry", old["id"]]) == 0
    new = client.get("/v1/jobs?state=queued").json()["jobs"][0]
    assert new["key"] == old["key"] and new["id"] != old["id"]
    assert capsys.readouterr().out.endswith(f"{old['id']}: queued, as job {new['id']}\n")
    assert main(["jobs", "retry", old["id"]]) == 0  # in flight already
    assert client.get("/v1/jobs?state=queued").json()["jobs"] == [new]


def test_a_job_whose_document_is_gone_is_not_tried_again(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.queue_sql.MOST_KEPT", 0)
    old = client.post("/v1/jobs", json=body()).json()["id"]
    client.delete(f"/v1/jobs/{old}")
    refused = client.post(f"/v1/jobs/{old}/retry")
    assert (refused.status_code, refused.json()["kind"]) == (409, "NotRemembered")


def test_one_s_own_jobs_are_retried_and_others_by_an_admin(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    tokens = [
        add_token(file, name, scopes_of([scope])) for name, scope in (("a", "solve"), ("b", "solve"), ("c", "admin"))
    ]
    mine, other, admin = ({"Authorization": f"Bearer {token}"} for token in tokens)
    with running(tmp_path, workers=0, tokens=file) as client:
        job = client.post("/v1/jobs", json=body(), headers=mine).json()["id"]
        client.delete(f"/v1/jobs/{job}", headers=mine)
        assert client.post(f"/v1/jobs/{job}/retry", headers=other).status_code == 403
        assert client.post(f"/v1/jobs/{job}/retry", headers=admin).status_code == 202
        assert client.post(f"/v1/jobs/{job}/retry").status_code == 401


def test_what_a_service_says_of_jobs_is_no_command_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    nasty = "::error::x\n::error::y\x1b[2J"
    problem = JobProblem(kind=nasty, message=nasty)
    job = Job(
        id=nasty, key=nasty, state="failed", kernel=nasty, spec=nasty, machine=nasty, created=nasty, problem=problem
    )
    with playing(answer(JobList(jobs=(job,)).canonical()), answer(job.canonical())) as service:
        assert main(["jobs", "list", "--server", service.address]) == 0
        assert main(["jobs", "cancel", "j", "--server", service.address]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out and not any(line.lstrip().startswith("::") for line in out.splitlines())


def test_without_a_service_there_are_no_jobs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TWILL_SERVER", raising=False)
    assert main(["jobs", "list"]) == 2
    assert "TWILL_SERVER" in capsys.readouterr().err
