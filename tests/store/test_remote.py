"""Promises of problems that a service reports: their exit code is this side's."""

from __future__ import annotations

import pytest

from twill.exc import JobFailed, ServiceRefused, ServiceUnavailable
from twill.store.remote import exit_code_of


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("Infeasible", 3), ("BudgetExhausted", 4), ("TimeLimit", 4), ("MemoryLimit", 4), ("BadSubmission", 2),
        ("Internal", 5), ("WorkerLost", 5), ("__all__", 5), ("annotations", 5), ("", 5), ("print", 5),
    ],
)  # fmt: skip
def test_a_kind_has_the_exit_code_that_it_has_here(kind: str, code: int) -> None:
    assert exit_code_of(kind) == code


def test_errors_show_what_a_service_says_in_one_line() -> None:
    nasty = "a\n::error::b\x1b[2J"
    for error in (
        JobFailed("http://s", nasty, nasty, nasty),
        ServiceRefused("http://s", 400, nasty, nasty, nasty, nasty),
        ServiceUnavailable("http://s", nasty),
    ):
        assert "\x1b" not in error.describe() and error.message.count("\n") == 0 == error.hint.count("\n")
