"""Promises of the helper's process: one answer for each request, whatever becomes of it; it ends with its parent."""

from __future__ import annotations

import queue
import sys
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from twill.cli.jit_helper import alone, emitted
from twill.runtime.artifact import NAME, refusal
from twill.runtime.helper import Helper, workers
from twill.runtime.request import Prepared, PrepareRequest
from twill.store.sqlite import SqliteStore

REQUEST = PrepareRequest("k1", "gemm", "gemm.py", (), (), (), (), "module", "no such machine", False, 1.0, "off", "")
SAY = "import json, sys\nfor line in sys.stdin:\n    request = json.loads(line)\n    "


def answers(code: str, *keys: str) -> list[Prepared]:
    """What a helper of this code makes of requests with these keys."""
    helper = Helper((sys.executable, "-c", code)) if code else Helper()
    listed: queue.Queue[Prepared] = queue.Queue()
    for key in keys:
        helper.ask(replace(REQUEST, key=key), listed.put)
    found = [listed.get(timeout=60) for _ in keys]
    helper.end()
    return found


def answer_of(expression: str) -> str:
    """A helper that prints an answer."""
    fields = "'state': 'missing', 'reason': 'r', 'notes': [], 'artifact': ''"
    return f"{SAY}print(json.dumps({{'key': {expression}, {fields}}}), flush=True)\n"


def test_requests_are_answered_one_by_one() -> None:
    assert answers(answer_of("request['key']"), "a", "b", "c") == [Prepared(key, "missing", "r") for key in "abc"]


def test_a_process_that_dies_or_talks_nonsense_is_an_answer_and_the_next_request_gets_another() -> None:
    for code in (
        "raise SystemExit(3)",
        SAY + "print('what', flush=True)",
        answer_of("'other'"),
        "import nothing_at_all",
    ):
        for answer in answers(code, "a", "b"):
            assert answer.state == "failed"
            assert "the process that prepares kernels is gone" in answer.reason
    assert "exit code 3" in answers("raise SystemExit(3)", "a")[0].reason


def test_the_real_one_answers_and_ends_with_its_input() -> None:
    helper = Helper()
    listed: queue.Queue[Prepared] = queue.Queue()
    helper.ask(REQUEST, listed.put)
    answer = listed.get(timeout=60)
    assert (answer.key, answer.state) == ("k1", "failed")
    assert "no such machine" in answer.reason
    (worker,) = helper.workers
    process = worker.process
    assert process is not None and process.stdin is not None and process.stdout is not None
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()
    worker.process = None


SLOW = "import json, sys, time\nfor line in sys.stdin:\n    request = json.loads(line)\n    time.sleep(0.2)\n    "
FIELDS = "'state': 'missing', 'reason': str(time.time()), 'notes': [], 'artifact': ''"
TIMED = f"{SLOW}print(json.dumps({{'key': request['key'], {FIELDS}}}), flush=True)\n"


def test_what_is_launched_most_is_prepared_first() -> None:
    helper = Helper((sys.executable, "-c", TIMED), 1)
    listed: queue.Queue[Prepared] = queue.Queue()
    with helper.changed:  # nothing begins before all are asked for
        for number, key in enumerate("abcdef"):
            helper.ask(replace(REQUEST, key=key), listed.put, partial(int, number))
    order = "".join(listed.get(timeout=60).key for _ in "abcdef")
    helper.end()
    assert order == "fedcba"


def test_as_many_are_prepared_at_once_as_there_are_workers() -> None:
    helper = Helper((sys.executable, "-c", TIMED), 3)
    listed: queue.Queue[Prepared] = queue.Queue()
    for key in "abcdef":
        helper.ask(replace(REQUEST, key=key), listed.put)
    assert len({listed.get(timeout=60).key for _ in "abcdef"}) == 6
    assert len(helper.workers) == 3
    helper.end()


def test_the_environment_says_how_many_workers_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWILL_JIT_WORKERS", "7")
    assert workers() == 7
    for wrong in ("", "0", "many"):
        monkeypatch.setenv("TWILL_JIT_WORKERS", wrong)
        assert 1 <= workers() <= 4


def test_processes_that_share_a_store_prepare_a_key_once(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    held, over, found = threading.Event(), threading.Event(), []
    request = replace(REQUEST, store=store)

    def other() -> None:
        with alone(request):
            held.set()
            over.wait(60)
            kept = SqliteStore(store)
            kept.put_artifact(request.key, NAME, refusal(request.key, "a scan"))
            kept.close()

    def mine() -> None:
        found.append(emitted(replace(request, machine="h200")))

    threads = [threading.Thread(target=target) for target in (other, mine)]
    threads[0].start()
    assert held.wait(60)
    threads[1].start()
    threads[1].join(0.3)
    assert found == []  # it waits
    over.set()
    for thread in threads:
        thread.join(60)
    assert [(one.state, one.reason) for one in found] == [("unsupported", "a scan")]
    assert list((tmp_path / "store.preparing").iterdir()) == []


def test_a_key_that_cannot_be_prepared_is_free_again(tmp_path: Path) -> None:
    request = replace(REQUEST, store=str(tmp_path / "store"))
    for _ in range(2):
        with pytest.raises(ValueError, match="oh"), alone(request):
            raise ValueError("oh")
    assert list((tmp_path / "store.preparing").iterdir()) == []


def test_a_command_that_is_not_there_is_an_answer() -> None:
    helper = Helper(("/no/such/program",))
    listed: queue.Queue[Prepared] = queue.Queue()
    helper.ask(REQUEST, listed.put)
    assert listed.get(timeout=60).state == "failed"
