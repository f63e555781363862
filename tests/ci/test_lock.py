"""Promises of the lock file and of what is said to have become better or worse since."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.schedules import attention_schedule
from twill.ci.lock_diff import Found, MissingSchedule, Results, changes, differences, judged
from twill.ci.lock_file import Lock, Locked, load_lock, locked
from twill.exc import FileMissing, MalformedLock

ONE = locked("k/attention.py", attention_schedule())


def changed(**update: Any) -> Locked:
    """The same with other figures."""
    return ONE.model_copy(update=update)


def found(figures: Locked) -> Found:
    """A schedule of today."""
    return Found(figures, 20, 1.0, "solved")


def test_the_file_comes_back_and_has_one_figure_a_line(tmp_path: Path) -> None:
    lock = Lock(schedules=(ONE, changed(spec="other")))
    path = tmp_path / "schedules.lock"
    path.write_text(lock.text(), encoding="utf-8")
    assert load_lock(path) == lock
    assert '\n      "ii": 2048,\n' in lock.text()
    assert load_lock(tmp_path / "none") is None


def test_it_has_the_schedules_figures() -> None:
    schedule = attention_schedule()
    assert (ONE.ii, ONE.copies, ONE.length) == (schedule.ii, schedule.copies, schedule.length)
    assert (ONE.registers, ONE.crossing, ONE.key) == (
        schedule.objective.registers,
        schedule.objective.crossing,
        schedule.key,
    )
    assert ONE.title == f"{schedule.kernel}[{schedule.spec}] on h100"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "twill.lock/9", "schedules": []}', '{"schedules": [{}]}'])
def test_a_file_that_is_no_lock_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "schedules.lock"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(MalformedLock, match="twill ci --update"):
        load_lock(path)


def test_a_schedule_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "schedules.lock"
    twice = {"schema": "twill.lock/1", "schedules": [json.loads(ONE.canonical())] * 2}
    path.write_text(json.dumps(twice), encoding="utf-8")
    with pytest.raises(MalformedLock, match="twice"):
        load_lock(path)
    with pytest.raises(FileMissing):
        load_lock(tmp_path)


@pytest.mark.parametrize(
    ("update", "verdict"),
    [
        ({}, "same"),
        ({"ii": 2049}, "worse"),
        ({"ii": 2047, "copies": 9, "registers": 999}, "better"),
        ({"copies": 4, "registers": 1}, "worse"),
        ({"copies": 2}, "better"),
        ({"registers": ONE.registers + 8}, "worse"),
        ({"registers": ONE.registers - 8}, "better"),
        ({"key": "0" * 64}, "changed"),
        ({"length": 1}, "changed"),
        ({"ii": 4096, "fuse": 2}, "changed"),  # as much for each program instance
        ({"ii": 4097, "fuse": 2}, "worse"),
        ({"ii": 4095, "fuse": 2}, "better"),
    ],
)
def test_i_then_copies_then_registers_decide(update: dict[str, Any], verdict: str) -> None:
    assert judged(ONE.model_copy(update={"copies": 3}), changed(**{"copies": 3, **update})) == verdict


def test_every_schedule_of_then_and_now_is_accounted_for() -> None:
    gone, new, failing, same = (changed(spec=spec) for spec in ("gone", "new", "failing", "same"))
    results: Results = {new.name: found(new), failing.name: MissingSchedule("no", 7), same.name: found(same)}
    verdicts = {change.name[2]: change.verdict for change in changes((gone, failing, same), results)}
    assert verdicts == {"gone": "missing", "new": "new", "failing": "failed", "same": "same"}
    by_name = {change.name[2]: change for change in changes((gone, failing, same), results)}
    assert [name for name, change in by_name.items() if change.bad] == ["failing", "gone"]
    assert [by_name[name].line for name in ("gone", "new", "failing")] == [1, 20, 7]
    assert by_name["gone"].title == f"{ONE.kernel}[gone] on h100"


def test_differences_show_what_matters_and_what_differs() -> None:
    now = changed(ii=2560, registers=ONE.registers, length=1, key="f" * 64)
    assert list(differences(ONE, now)) == [
        f"key        {ONE.key[:12]} -> ffffffffffff (the kernel, the machine or Twill changed)",
        "I          2,048 -> 2,560 (+25.0%)",
        f"copies     {ONE.copies}",
        f"registers  {ONE.registers}",
        f"L          {ONE.length:,} -> 1 ({(1 - ONE.length) / ONE.length:+.1%})",
    ]
