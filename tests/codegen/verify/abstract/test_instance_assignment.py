"""Promises of `twill.codegen.verify.abstract.instance_assignment`: every instance is dealt once, whoever claims, and
messages end."""

from __future__ import annotations

import pytest

from twill.codegen.verify.abstract.instance_assignment import WAYS, InstanceAssignment, Way, assignments


@pytest.mark.parametrize("way", ["in turn", *WAYS])
@pytest.mark.parametrize("ctas, count", [(1, 4), (2, 2), (2, 7), (3, 2), (5, 23)])
def test_every_instance_is_dealt_once_and_the_first_is_the_cta_s_own(way: Way, ctas: int, count: int) -> None:
    assigned = assignments(count, ctas, way)
    assert sorted(place for one in assigned for place in one) == list(range(count))
    assert all(one == sorted(one) for one in assigned)
    assert [one[0] for one in assigned if one] == list(range(min(ctas, count)))


def test_one_cta_may_get_all_that_is_left() -> None:
    assert assignments(6, 3, "all to the first") == [[0, 3, 4, 5], [1], [2]]


def test_a_deal_without_luck_is_the_same_each_time() -> None:
    assert assignments(50, 4, "at random") == assignments(50, 4, "at random")
    assert assignments(50, 4, "at random") != assignments(50, 4, "in turn")


def test_the_message_behind_the_last_instance_says_that_there_is_none() -> None:
    assignment = InstanceAssignment([2, 5], published=[(3, 1, 0, 1), (2, 0, 5, 1)])
    assert [assignment.message(number) for number in range(3)] == [(3, 1, 0, 1), (2, 0, 5, 1), (0, 0, 0, 0)]


def test_behind_the_last_place_there_is_none() -> None:
    assignment = InstanceAssignment([2, 5])
    assert assignment.place == 2
    assignment.fetches = 1
    assert assignment.place == 5
    assignment.fetches = 2
    assert assignment.place > 1 << 31
