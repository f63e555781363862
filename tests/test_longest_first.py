"""The order of files in a run of several processes."""

from __future__ import annotations

import pytest

from tests.longest_first import LONGEST, TESTS, longest_first


def test_the_files_that_are_named_exist() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []


def test_the_longest_file_is_first_and_the_tests_of_a_file_stay_as_they_were(request: pytest.FixtureRequest) -> None:
    items = list(request.session.items)
    longest_first(items)
    assert sorted(item.nodeid for item in items) == sorted(item.nodeid for item in request.session.items)
    for path in {item.path for item in items}:
        before = [item.nodeid for item in request.session.items if item.path == path]
        assert [item.nodeid for item in items if item.path == path] == before
    named = [LONGEST.index(name) for name in dict.fromkeys(_name(item) for item in items) if name in LONGEST]
    assert named == sorted(named)


def _name(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).as_posix()
