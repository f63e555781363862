"""Promises of the helper's process: one answer for each request, whatever becomes of it; it ends with its parent."""

from __future__ import annotations

import queue
import sys
from dataclasses import replace

from twill.runtime.helper import Helper
from twill.runtime.request import Prepared, PrepareRequest

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
    process = helper.process
    assert process is not None and process.stdin is not None and process.stdout is not None
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()
    helper.process = None


def test_a_command_that_is_not_there_is_an_answer() -> None:
    helper = Helper(("/no/such/program",))
    listed: queue.Queue[Prepared] = queue.Queue()
    helper.ask(REQUEST, listed.put)
    assert listed.get(timeout=60).state == "failed"
