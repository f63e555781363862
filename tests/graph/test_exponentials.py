"""Promises of exponentials that are polynomials in part: what is split, and what the parts cost."""

from __future__ import annotations

import pytest

from tests.graph.test_price import node
from tests.kernels import B200, H100
from twill.graph.costed import Use
from twill.graph.exponentials import GROUP, has_polynomial, splittable
from twill.graph.price import price_node

TILE = 128 * 128
EXPONENTIALS = node("elementwise", counts=(("exp2.f32", TILE),))


def busy(share: int) -> dict[str, int]:
    """Cycles of each unit."""
    uses: tuple[Use, ...] = price_node(EXPONENTIALS, B200, 1, polynomial=share).uses
    return {use.unit: use.cycles for use in uses}


def test_the_unit_of_special_functions_has_what_the_polynomial_leaves() -> None:
    assert busy(0)["mufu"] == TILE // 16 == 1024
    for share in range(2, GROUP, 2):
        assert busy(share)["mufu"] == 1024 * (GROUP - share) // GROUP
        assert busy(share)["fma"] == pytest.approx(TILE * share / GROUP * 9 / 128, rel=0.01)


def test_a_warp_group_is_held_for_the_shortest_time_where_both_take_as_long() -> None:
    held = {share: price_node(EXPONENTIALS, B200, 1, polynomial=share).hold for share in range(0, GROUP, 2)}
    assert min(held, key=lambda share: held[share]) == 8 and held[8] < 0.6 * held[0]


@pytest.mark.parametrize(
    ("elements", "operations", "split"),
    [
        (TILE, ("mul", "exp2"), True),
        (128, ("exp2",), False),  # one a thread
        (128 * 24, ("exp2",), False),  # one group and a half
        (TILE, ("inline_asm",), False),  # which has an ex2 of its own
        (TILE, ("tanh",), False),
    ],
)
def test_what_has_groups_of_16_a_thread_can_be_split(elements: int, operations: tuple[str, ...], split: bool) -> None:
    made = node("elementwise", counts=(("exp2.f32", elements),)).model_copy(update={"operations": operations})
    assert splittable(made) is split
    same = price_node(made, B200, 1, polynomial=8) == price_node(made, B200, 1)
    assert same is not split


def test_machines_whose_file_has_no_price_of_it_split_nothing() -> None:
    assert has_polynomial(B200) and not has_polynomial(H100)
