"""Promises of the processes that admit submissions: a hard graph holds nobody else, and ends with its time."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from server.admission import InputLimits
from server.admitters import Admitters, size_of
from server.processes import PRELOADED
from server.refusals import RefusedRequest
from tests.conftest import ROOT
from tests.kernels import H100
from tests.service import Client, body, graph, running
from twill.graph.dependence import Count, DependenceGraph, Node, Tile


def alike(number: int = 256, axes: int = 8) -> DependenceGraph:
    """A legal graph of nodes that nothing tells apart: the search for its canonical form takes seconds."""
    like = graph()
    tile = Tile(shape=(1024,), dims=(0,), dtype="f32")
    count = (Count(operation="mul.f32", elements=1024),)
    nodes = tuple(
        Node(id=n, kind="elementwise", name="y", line=1, operations=(), dims=(0,) * axes, result=tile, counts=count)
        for n in range(number)
    )
    return like.model_copy(update={"regions": (like.regions[0].model_copy(update={"nodes": nodes, "edges": ()}),)})


def sent(of: DependenceGraph) -> bytes:
    return json.dumps(body(of)).encode()


def named(size: int) -> bytes:
    """What the body of a graph is remembered by."""
    return hashlib.sha256(sent(graph(size))).digest()


def admitters(seconds: float, size: int = 1) -> Iterator[Admitters]:
    one = Admitters(size, {"h100": H100}, InputLimits(), 60.0, seconds)
    yield one
    one.stop()


@pytest.fixture
def hurried() -> Iterator[Admitters]:
    yield from admitters(0.2)


def test_a_graph_whose_key_takes_too_long_is_refused_and_the_next_one_is_admitted(hurried: Admitters) -> None:
    assert hurried.admit(sent(graph()), "me").kernel == "scale"
    for _ in range(2):
        with pytest.raises(RefusedRequest, match="was not found within 0.2 s") as found:
            hurried.admit(sent(alike()), "me")
        assert (found.value.status, found.value.kind) == (413, "TooHard")
    assert hurried.admit(sent(graph()), "me").client == "me"


def test_a_refusal_is_that_of_the_rules(hurried: Admitters) -> None:
    with pytest.raises(RefusedRequest, match="not JSON"):
        hurried.admit(b"{", "me")
    assert hurried.admit(sent(graph()), "me").machine == "h100"


def test_a_process_that_is_killed_is_replaced(hurried: Admitters) -> None:
    hurried.admit(sent(graph()), "me")
    (one,) = hurried.running
    os.kill(one.process.pid or 0, 9)
    with pytest.raises(RefusedRequest):
        hurried.admit(sent(graph(512)), "me")
    assert hurried.admit(sent(graph(512)), "me").kernel == "scale"


def test_a_body_that_was_admitted_is_not_read_again_whoever_sends_it(
    hurried: Admitters, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hurried.admit(sent(graph()), "me")
    monkeypatch.setattr(hurried, "read", None)
    assert hurried.admit(sent(graph()), "you") == dataclasses.replace(first, client="you")


def test_what_was_admitted_and_not_sent_again_makes_room(hurried: Admitters, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = (128, 256, 128, 512)
    one = hurried.admit(sent(graph(128)), "me")
    monkeypatch.setattr("server.admitters.REMEMBERED", int(2.5 * size_of(one)))
    for size in sizes:
        hurried.admit(sent(graph(size)), "me")
    assert [name in hurried.known for name in map(named, (128, 256, 512))] == [True, False, True]
    assert hurried.taken == sum(map(size_of, hurried.known.values()))


def test_hard_graphs_hold_no_other_request_and_end_with_the_service(tmp_path: Path) -> None:
    answers: list[httpx.Response] = []

    def post(client: Client) -> None:
        answers.append(client.post("/v1/jobs", json=body(alike())))

    with running(tmp_path, workers=0, admission_seconds=600.0) as client:
        threads = [threading.Thread(target=post, args=(client,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        while client.service.submitting < len(threads):
            time.sleep(0.01)
        for _ in range(20):
            assert client.get("/v1/machines").status_code == 200
            assert client.get(f"/v1/jobs/{'0' * 32}").status_code == 404
        assert answers == []
        client.service.admitters.stop()
        for thread in threads:
            thread.join()
    assert {(answer.status_code, answer.json()["kind"]) for answer in answers} == {(503, "Stopping")}


def test_no_more_submissions_wait_than_there_is_room_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.service.MOST_SUBMITTING", 0)
    with running(tmp_path, workers=0) as client:
        answer = client.post("/v1/jobs", json=body())
        assert (answer.status_code, answer.json()["kind"]) == (503, "Busy") and answer.headers["retry-after"]


def test_whoever_needs_a_process_first_the_solvers_are_loaded_once_for_all() -> None:
    code = (
        "from multiprocessing import forkserver\n"
        "from server import processes\n"
        "process, pipe = processes.spawn(print)\n"
        "process.join()\n"
        "print(*forkserver._forkserver._preload_modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {*PRELOADED, "server.admission_process", "server.solver_process"} <= set(done.stdout.split())
