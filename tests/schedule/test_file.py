"""A schedule document is read whole, or refused with the place and the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import good
from twill.exc import MalformedSchedule
from twill.schedule.file import load_schedule

TEXT = good().canonical()


def refused(given: str | Path) -> str:
    with pytest.raises(MalformedSchedule) as caught:
        load_schedule(given)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return str(caught.value)


def edited(edit: Callable[[Any], object]) -> str:
    document = json.loads(TEXT)
    edit(document)
    return json.dumps(document, indent=1)


def test_text_and_file_give_the_same_schedule(tmp_path: Path) -> None:
    file = tmp_path / "attention.json"
    file.write_text(TEXT, encoding="utf-8")
    assert load_schedule(TEXT) == load_schedule(file) == load_schedule(str(file)) == good()
    assert load_schedule(file).canonical() == TEXT


def test_indented_text_is_the_same_schedule() -> None:
    assert load_schedule(json.dumps(json.loads(TEXT), indent=2)) == good()


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_text_is_refused(part: float) -> None:
    assert refused(TEXT[: int(len(TEXT) * part)]).startswith("<text>:1: ")


def test_text_cut_in_a_word_is_called_cut() -> None:
    assert "the document ends in the middle (column 12)" in refused('{"kernel": "atten')


def test_truncation_says_where(tmp_path: Path) -> None:
    file = tmp_path / "cut.json"
    file.write_text('{\n "schema": "twill.schedule/1",\n "kernel"', encoding="utf-8")
    assert refused(file).startswith(f"{file}:3: the document ends in the middle (column 10)")


def test_syntax_error_says_where(tmp_path: Path) -> None:
    file = tmp_path / "typo.json"
    file.write_text('{\n "kernel" "x"}', encoding="utf-8")
    assert refused(file).startswith(f"{file}:2: not JSON: Expecting ':' delimiter (column 11)")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.pop("schema"), "schema is missing"),
        (lambda d: d.update(schema="twill.schedule/9"), "schema is 'twill.schedule/9'"),
        (lambda d: d["ops"][3].update(start="16"), "ops[3].start: Input should be a valid integer"),
        (lambda d: d["ops"][3].update(start=1.5), "ops[3].start: Input should be a valid integer"),
        (lambda d: d["ops"][3].update(start=True), "ops[3].start: Input should be a valid integer"),
        (lambda d: d["ops"][0].update(colour="red"), "ops[0].colour: Extra inputs are not permitted"),
        (lambda d: d.pop("warp_groups"), "warp_groups: Field required"),
        (lambda d: d.update(ops={}), "ops: Input should be a valid"),
        (lambda d: d["buffers"][0].update(space="register"), "buffers[0].space: Input should be 'shared' or 'tmem'"),
        (lambda d: d["loops"][0]["graph"]["edges"][1].pop("delay"), "loops[0].graph.edges[1].delay: Field required"),
        (lambda d: d.update(kernel=None, ii=None), "(and 1 more fields)"),
    ],
)
def test_wrong_field_is_named(edit: Callable[[Any], object], message: str) -> None:
    assert message in refused(edited(edit))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN,\n "b": 1}', "NaN is not a JSON number"),
        ('{"ii": 1,\n "ii": 2}', "the key 'ii' appears twice"),
        ("[\n]", "a schedule document is a JSON object"),
        ("\n" + "[" * 100_000, "nested too deeply"),
        ('{"ii": ' + "9" * 5000 + "}", "not a schedule document"),
        ("{}", "schema is missing"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, message: str) -> None:
    assert message in refused(text)


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe{}")
    empty = tmp_path / "empty.json"
    empty.write_text("", encoding="utf-8")
    assert "not UTF-8" in refused(binary)
    assert "cannot be read: No such file" in refused(tmp_path / "missing.json")
    assert "cannot be read: Is a directory" in refused(tmp_path)
    assert "the document ends in the middle" in refused(empty)
    assert "cannot be read" in refused("")
