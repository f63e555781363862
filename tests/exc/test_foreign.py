"""Promises of foreign text: one line, nothing hidden, no command of a log."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twill.exc.foreign import HIDDEN, one_line, printable


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain \u00e9 \u4e2d", "plain \u00e9 \u4e2d"),
        ("a\r\n::error::b", "a ::error::b"),
        ("::error::b", "\\::error::b"),
        ("\n  ::set-env name=A::b", "\\::set-env name=A::b"),
        ("x ##[error]b", "x ##\\[error]b"),
        ("\x1b[2J\x1b]0;t\x07", "\\x1b[2J\\x1b]0;t\\x07"),
        ("a\u202eb\u2028c\ud800", "a\\u202eb c\\ud800"),
    ],
)
def test_text_is_one_line_that_shows_what_is_in_it(text: str, line: str) -> None:
    assert one_line(text) == line


@given(st.text(st.characters()))
def test_no_text_is_hidden_or_a_command(text: str) -> None:
    for line in (one_line(text), *printable(text).split("\n")):
        assert not line.lstrip().startswith("::") and "##[" not in line
        assert all(unicodedata.category(c) not in HIDDEN or c == "\t" for c in line)
    assert "\n" not in one_line(text)


def test_a_long_text_is_cut_and_says_so() -> None:
    assert one_line("a" * 5000) == "a" * 2000 + " ... (5000 characters)"


def test_our_own_line_ends_stay() -> None:
    assert printable("one\n  instead: ::two\t3\r") == "one\n  instead: ::two\t3\\r"
