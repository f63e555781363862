"""Promises of program order: what waits comes later, else by number."""

from __future__ import annotations

import itertools
import random

from twill.graph.program_order import program_order


def test_program_order_is_the_first_by_number_of_all_that_respect_the_pairs() -> None:
    random.seed(4)
    for _ in range(200):
        count = random.randint(1, 5)
        pairs = [(random.randrange(count), random.randrange(count)) for _ in range(random.randint(0, 4))]
        orders = [
            order
            for order in itertools.permutations(range(count))
            if all(order.index(a) < order.index(b) for a, b in pairs if a != b)
        ]
        assert sorted(program_order(count, pairs)) == list(range(count))
        if orders:
            assert program_order(count, pairs) == list(min(orders))
    assert program_order(4, [(1, 2), (2, 1), (2, 0)]) == [3, 0, 1, 2]
