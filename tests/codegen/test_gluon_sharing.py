"""Promises of modules of Gluon whose products one partition could have: two share the rows of each tile where the
initiation interval stays as it is; else, and where a schedule has two already, nothing is changed."""

from __future__ import annotations

import pytest

from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from twill.codegen.emission import extract
from twill.codegen.gluon_sharing import with_shared_tiles
from twill.exc import BudgetExhausted
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

pytestmark = pytest.mark.usefixtures("at_root")


def kept(name: str) -> Schedule:
    return schedule(next(one for one in examples() if one.name == name))


def computing(found: Schedule) -> int:
    return sum(group.context != "issue" for group in found.warp_groups)


def test_two_partitions_share_the_rows_of_a_gemm() -> None:
    graph = extract("examples/gemm.py", "bf16").graph

    def again(blocks: int, pins: tuple[str, ...]) -> Schedule:
        found = solve(graph, H100, SolveOptions(fuse=False, blocks=blocks, pins=pins))
        assert isinstance(found, Schedule)
        return found

    alone = kept("gemm_bf16")
    shared = with_shared_tiles(alone, H100, again)
    assert (computing(alone), computing(shared)) == (1, 2)
    assert shared.ii == alone.ii and shared.cooperation.blocks == 2


def test_a_schedule_stays_where_sharing_takes_longer_or_more_warps_or_is_not_found() -> None:
    alone = kept("gemm_bf16")
    longer = alone.model_copy(update={"ii": alone.ii + 1})
    assert with_shared_tiles(alone, H100, lambda *_: longer) is alone

    copying = next(group for group in alone.warp_groups if group.context == "issue")
    more = alone.model_copy(update={"warp_groups": (*alone.warp_groups, copying)})
    assert with_shared_tiles(alone, H100, lambda *_: more) is alone

    def without_end(blocks: int, pins: tuple[str, ...]) -> Schedule:
        raise BudgetExhausted("the budget is over")

    assert with_shared_tiles(alone, H100, without_end) is alone


def test_partitions_that_share_rows_already_are_left_alone() -> None:
    def never(blocks: int, pins: tuple[str, ...]) -> Schedule:
        raise AssertionError("something is solved")

    found = kept("attention_full")
    assert computing(found) == 2 and with_shared_tiles(found, H100, never) is found
