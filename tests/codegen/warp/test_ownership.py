"""Which thread holds what, and which rearrangements need no other thread's elements."""

from __future__ import annotations

import numpy as np
import pytest

from twill.codegen.warp.layout import Accumulator, Along, Blocked, Layout
from twill.codegen.warp.ownership import elements, register_moves
from twill.tile.digits import digits_of


@pytest.mark.parametrize(
    "layout", [Accumulator(64, 32), Accumulator(128, 16), Accumulator(128, 8, 32), Blocked((64, 32), 4)]
)
def test_every_element_is_in_one_register_of_one_thread(layout: Layout) -> None:
    found = elements(layout)
    assert found is not None
    assert sorted(found.reshape(-1).tolist()) == list(range(found.size))


def test_rows_that_a_block_of_64_has_not_are_no_elements() -> None:
    found = elements(Accumulator(16, 8))
    assert found is not None
    assert sorted(number for number in found.reshape(-1).tolist() if number >= 0) == list(range(128))


def test_columns_of_eight_stay_with_their_thread_and_others_do_not() -> None:
    whole, half = Accumulator(64, 32), Accumulator(64, 16)
    places = np.arange(64 * 32).reshape(64, 32)
    right, odd, rows = (digits_of(part) for part in (places[:, 16:], places[:, 1::2], places[32:]))
    assert right is not None
    assert odd is not None
    assert rows is not None
    assert register_moves([whole], half, right) == (8, (8,), (1,))
    assert register_moves([whole], half, odd) is None
    assert register_moves([whole], Accumulator(32, 32), rows) is None
    joined = digits_of(np.concatenate([np.arange(1024).reshape(64, 16) + 1024, np.arange(1024).reshape(64, 16)], 1))
    assert joined is not None
    assert register_moves([half, half], whole, joined) == (8, (2, 8), (-8, 1))


def test_vectors_are_not_looked_at() -> None:
    assert elements(Along(Accumulator(64, 32), 1)) is None
