"""What a graph's nodes lead to: each once, through circles, the starts with them."""

from __future__ import annotations

from twill.reach import reach

AFTER = {1: [2, 3], 2: [4], 3: [4], 4: [1], 5: [1]}


def test_what_is_reached_is_there_once_with_what_it_begins_with() -> None:
    assert reach([1], lambda node: AFTER[node]) == {1, 2, 3, 4}
    assert reach([5], lambda node: AFTER[node]) == {1, 2, 3, 4, 5}


def test_from_nowhere_nothing_is_reached() -> None:
    assert reach([], lambda node: AFTER[node]) == set()
