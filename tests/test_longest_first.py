"""The order of files in a run of several processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.longest_first import LONGEST, TESTS, longest_first


def test_the_files_that_are_named_exist() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []


def test_the_longest_file_is_first_and_the_tests_of_a_file_stay_as_they_were(request: pytest.FixtureRequest) -> None:
    items = list(request.session.items)
    longest_first(items)
    assert sorted(item.nodeid for item in items) == sorted(item.nodeid for item in request.session.items)
    assert by_file(items) == by_file(request.session.items)
    named = [LONGEST.index(name) for name in dict.fromkeys(_name(item) for item in items) if name in LONGEST]
    assert named == sorted(named)


def by_file(items: list[pytest.Item]) -> dict[Path, list[str]]:
    found: dict[Path, list[str]] = {}
    for item in items:
        found.setdefault(item.path, []).append(item.nodeid)
    return found


def _name(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).as_posix()
