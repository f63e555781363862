"""Promises of the third level: whatever a service sends, nothing comes through that is not what was asked for."""

from __future__ import annotations

import logging

import pytest

from tests.kernels import H100
from tests.services import Reply, answer, dead_address, entry_answer, playing, raw, refusal, silence
from tests.stores import entry_of, poisons, with_schedule
from twill.exc import JobFailed, ServiceUnavailable
from twill.machine.description import Machine
from twill.schedule.key import schedule_key
from twill.store import http as http_module
from twill.store.api import Job, JobProblem, SolveRequest
from twill.store.client import Client
from twill.store.examine import examine
from twill.store.http import HttpStore
from twill.store.interface import Entry
from twill.store.remote import solve_at

KEY = entry_of().key
BAD: dict[str, Reply] = {
    **{name: entry_answer(entry) for name, entry in poisons().items()},
    "no proof": entry_answer(entry_of().model_copy(update={"graph": None, "asked": None})),
    "garbage": answer(b"\x00\xff"),
    "truncated": answer(entry_of().canonical()[:-100]),
    "cut off": raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{"),
    "another schema": answer(entry_of().canonical().replace("twill.entry/1", "twill.entry/2")),
    "wrong hash": answer(entry_of().canonical(), ETag='"' + "1" * 64 + '"'),
    "refused": refusal(403),
    "broken": answer("", 500),
    "slow": silence,
}


def mine() -> tuple[Entry, Machine]:
    """An entry for a machine that is not described."""
    machine = H100.model_copy(update={"name": "mine"})
    digest = machine.digest()
    good = entry_of()
    assert good.graph is not None
    loop = good.schedule.loops[0]
    graph = loop.graph.model_copy(update={"machine": "mine", "machine_digest": digest})
    update = {
        "machine": "mine",
        "machine_digest": digest,
        "key": schedule_key(good.graph, digest, good.asked),
        "loops": (loop.model_copy(update={"graph": graph}),),
    }
    return with_schedule(good, good.schedule.model_copy(update=update)), machine


def test_a_good_entry_comes_with_its_machine() -> None:
    for machine in (answer(H100.canonical()), refusal(404), answer("garbage"), refusal(403)):  # it is described, too
        with playing(entry_answer(entry_of()), machine) as service:
            store = HttpStore(Client(service.address))
            assert store.get(KEY) == (entry_of(), H100)
            assert [request.path for request in service.seen][1:] == [f"/v1/machines/{H100.digest()}"]
            store.close()


def test_a_machine_that_is_known_is_not_asked_for() -> None:
    entry, machine = mine()
    with playing(entry_answer(entry)) as service:
        store = HttpStore(Client(service.address))
        store.know(machine)
        assert store.get(entry.key) == (entry, machine)
        assert len(service.seen) == 1
        store.close()


def test_a_machine_that_is_not_described_is_asked_for_once() -> None:
    entry, machine = mine()
    with playing(entry_answer(entry), answer(machine.canonical()), answer("", 304)) as service:
        store = HttpStore(Client(service.address))
        for _ in range(2):
            assert store.get(entry.key) == (entry, machine)
        paths = [request.path for request in service.seen]
        assert paths == [f"/v1/schedules/{entry.key}", f"/v1/machines/{machine.digest()}", f"/v1/schedules/{entry.key}"]
        store.close()


def test_a_machine_that_is_not_the_one_named_does_not_count() -> None:
    entry, machine = mine()
    other = machine.model_copy(update={"sms": machine.sms.model_copy(update={"value": 1.0})})
    for reply in (answer(other.canonical()), refusal(404)):
        with playing(entry_answer(entry), reply) as service:
            store = HttpStore(Client(service.address))
            assert store.get(entry.key) is None
            store.close()


@pytest.mark.parametrize("which", BAD)
def test_nothing_bad_comes_through_and_the_reason_is_logged_once(
    which: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[Entry] = []

    def watched(entry: Entry, machine: Machine, *, proof: bool) -> str:
        examined.append(entry)
        return examine(entry, machine, proof=proof)

    monkeypatch.setattr(http_module, "examine", watched)
    with playing(BAD[which]) as service:
        seconds = 0.3 if which == "slow" else 60.0
        store = HttpStore(Client(service.address, seconds=seconds, tries=1))
        store.know(H100)
        assert [store.get(KEY) for _ in range(2)] == [None, None]
        store.close()
    messages = {record.message for record in caplog.records if record.levelno >= logging.WARNING}
    assert len(messages) == len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1
    assert len(examined) <= 1


def test_no_service_is_a_miss_and_a_miss_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert HttpStore(Client(dead_address(), tries=1)).get(KEY) is None
    assert "refused" in caplog.text
    caplog.clear()
    with playing(refusal(404)) as service:
        store = HttpStore(Client(service.address))
        assert store.get(KEY) is None
        store.close()
    assert caplog.text == ""


# -- a solve there ------------------------------------------------------------------------------


def job(state: str, **more: object) -> Job:
    """The job of `entry_of()`."""
    fields = {"id": "j1", "key": KEY, "kernel": "gemm", "spec": "bf16", "machine": "h100", "created": "2026"}
    return Job.model_validate(fields | {"state": state} | more)


def solved_at(*replies: Reply) -> tuple[Entry, list[str]]:
    """The entry of a solve at a service that answers so, and the states that were told."""
    states: list[str] = []
    graph = entry_of().graph
    assert graph is not None
    with playing(*replies) as service:
        http = HttpStore(Client(service.address))
        try:
            return solve_at(http, graph, H100, SolveRequest(), lambda now: states.append(now.state)), states
        finally:
            http.close()


def test_a_solve_is_followed_and_its_entry_checked() -> None:
    events = "".join(f"event: job\ndata: {one.canonical()}\n\n" for one in (job("running"), job("done")))
    entry, states = solved_at(answer(job("queued").canonical(), 202), answer(events), entry_answer(entry_of()))
    assert (entry, states) == (entry_of(), ["queued", "running", "done"])


def test_what_is_solved_already_is_fetched_at_once() -> None:
    assert solved_at(answer(job("done").canonical()), entry_answer(entry_of()))[1] == ["done"]


def test_a_job_without_a_schedule_ends_with_the_reason_of_the_service() -> None:
    problem = JobProblem(kind="Infeasible", message="no schedule fits", hint="smaller tiles", exit_code=3)
    with pytest.raises(JobFailed, match="no schedule fits\n  instead: smaller tiles") as failed:
        solved_at(answer(job("failed", problem=problem).canonical()))
    assert (failed.value.exit_code, failed.value.kind) == (3, "Infeasible")
    with pytest.raises(JobFailed, match="the job was cancelled"):
        solved_at(answer(job("cancelled").canonical()))


def test_a_service_that_computes_other_keys_is_not_used() -> None:
    with pytest.raises(ServiceUnavailable, match="another version"):
        solved_at(answer(job("done", key="0" * 64).canonical()))


def test_a_solve_whose_schedule_is_poisoned_is_no_solve() -> None:
    with pytest.raises(ServiceUnavailable, match="cannot be used"):
        solved_at(answer(job("done").canonical()), entry_answer(poisons()["illegal"]))
