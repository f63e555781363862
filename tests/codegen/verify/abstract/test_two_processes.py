"""Promises of questions that two processes answer: each is asked, and the answer is that of one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from twill.codegen.verify.abstract import two_processes
from twill.codegen.verify.abstract.two_processes import all_hold

COUNT = 6


def noted(folder: Path, holds: Callable[[int], bool] = lambda number: True) -> Callable[[int], bool]:
    """Leaves a file for each number and process that is asked about it."""

    def asked(number: int) -> bool:
        (folder / f"{number} {os.getpid()}").touch()
        time.sleep(0.02)
        return holds(number)

    return asked


def in_a_copy() -> Callable[[], bool]:
    here = os.getpid()
    return lambda: os.getpid() != here


def test_each_number_is_asked_about_once_by_two_processes(tmp_path: Path) -> None:
    assert all_hold(COUNT, noted(tmp_path))
    asked = [path.name.split() for path in tmp_path.iterdir()]
    assert sorted(int(number) for number, _ in asked) == [*range(COUNT)]
    assert len({process for _, process in asked}) == 2


@pytest.mark.parametrize("wrong", range(COUNT))
def test_what_does_not_hold_is_found_whoever_is_asked(tmp_path: Path, wrong: int) -> None:
    assert not all_hold(COUNT, noted(tmp_path, lambda number: number != wrong))


@pytest.mark.parametrize("end", [lambda: os._exit(3), lambda: time.sleep(60), lambda: 1 / 0])
def test_a_copy_that_does_not_answer_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: Callable[[], object]
) -> None:
    monkeypatch.setattr(two_processes, "LEAST_WAIT", 0.1)
    monkeypatch.setattr(two_processes, "WAIT", 0.0)
    copied = in_a_copy()
    assert all_hold(COUNT, noted(tmp_path, lambda number: not (copied() and end())))
    here = {path.name for path in tmp_path.iterdir() if path.name.endswith(f" {os.getpid()}")}
    assert here == {f"{number} {os.getpid()}" for number in range(COUNT)}


def test_an_error_here_ends_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, copies, fork = in_a_copy(), list[int](), os.fork
    begun = time.monotonic()

    def noted_fork() -> int:
        copies.append(fork())
        return copies[-1]

    monkeypatch.setattr(os, "fork", noted_fork)

    def asked(number: int) -> bool:
        if copied():
            time.sleep(60)
        return bool(1 // 0)

    with pytest.raises(ZeroDivisionError):
        all_hold(COUNT, noted(tmp_path, asked))
    assert time.monotonic() - begun < 30
    (copy,) = copies  # this process may have others, of other tests
    with pytest.raises(ChildProcessError):
        os.waitpid(copy, os.WNOHANG)
