"""Promises of what goes to the process that prepares kernels and back: one line each, and nothing lost on the way."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from twill.runtime.request import DefaultedParameter, Prepared, PrepareRequest, Typed, Valued, read_answer, read_request

REQUEST = PrepareRequest(
    key="k1", kernel="gemm", file="a b\n.py",
    parameters=(DefaultedParameter("a", False, None), DefaultedParameter("BLOCK", True, 128),
        DefaultedParameter("s", True, 0.5)),
    signature=(Typed("a", "*bf16"), Typed("M", "i32")),
    constants=(Valued("BLOCK", 128), Valued("mode", "tl.bfloat16"), Valued("none", None), Valued("yes", True)),
    divisible=("a", "M"), module='module {\n  "tt.func"\n}\n', machine="h200", solve=True, seconds=1.5, store="off",
    server="http://127.0.0.1:1",
)  # fmt: skip
ANSWER = Prepared("k1", "emitted", "why\nnot", ("a note", "ein Übel"), "text")


def test_a_request_is_one_line_and_comes_back() -> None:
    assert "\n" not in REQUEST.line()
    assert read_request(REQUEST.line()) == REQUEST
    values = [one.value for one in read_request(REQUEST.line()).constants]
    assert [type(value) for value in values] == [int, str, type(None), bool]


def test_an_answer_is_one_line_and_comes_back() -> None:
    assert "\n" not in ANSWER.line()
    assert read_answer(ANSWER.line()) == ANSWER
    assert read_answer(Prepared("k1", "missing").line()) == Prepared("k1", "missing", "", (), "")


@pytest.mark.parametrize("line", ["", "{", "[]", "null", "{}", '{"key": "k1"}'])
def test_what_is_neither_is_an_error(line: str) -> None:
    with pytest.raises(ValueError):
        read_request(line)
    with pytest.raises(ValueError):
        read_answer(line)


@pytest.mark.parametrize(("name", "value"), [("state", "done"), ("notes", "a note"), ("key", 1), ("more", 1)])
def test_an_answer_with_a_field_of_another_kind_is_an_error(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        read_answer(json.dumps(json.loads(ANSWER.line()) | {name: value}))


@pytest.mark.parametrize("name", [field.name for field in fields(PrepareRequest)])
def test_a_request_that_lacks_a_field_is_an_error(name: str) -> None:
    document = json.loads(REQUEST.line())
    del document[name]
    with pytest.raises(ValueError, match=name):
        read_request(json.dumps(document))
