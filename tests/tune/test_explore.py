"""Promises of exploration: the default comes first, other tiles ranked by prediction, what fails is told."""

from __future__ import annotations

import pytest

from tests.kernels import H100
from twill import exc
from twill.schedule.options import SolveOptions
from twill.tune.explore import ExploreRequest, explore, score

pytestmark = pytest.mark.usefixtures("at_root")

SIZES = ({"M": 8192, "N": 8192, "K": 4096},)


def asked(blocks: int | None = None, **values: tuple[int, ...]) -> ExploreRequest:
    only = {"BLOCK_M": (128,), "BLOCK_N": (128,), "GROUP_M": (8,), **values}
    return ExploreRequest("examples/gemm.py", values=only, sizes=SIZES, options=SolveOptions(blocks=blocks, fuse=False))


def test_the_default_is_first_and_wider_tiles_follow_with_their_types() -> None:
    found = explore(asked(BLOCK_N=(128, 256)), H100)
    default, *others = found.candidates
    assert default.default and default.tiles.constants == {}
    wide = next(one for one in others if one.tiles.constants)
    assert "b_desc=tensordesc<bf16[64, 256]>" in wide.tiles.sig
    assert wide.schedule.ii == 2 * default.schedule.ii  # twice the work an iteration
    assert wide.predicted[0] < 1.1 * default.predicted[0]  # and half the instances
    scores = [score(one, default) for one in others]
    assert scores == sorted(scores)
    assert {one.schedule.cooperation.blocks for one in found.candidates} >= {1, 2}
    twins = [number for number, one in enumerate(found.candidates) if one.cluster == 2]
    assert twins == [2] and found.candidates[1].schedule == found.candidates[2].schedule


def test_tiles_that_cannot_be_scheduled_or_compiled_are_told_and_left_out() -> None:
    found = explore(asked(2, BLOCK_M=(100, 256), BLOCK_N=(256,)), H100)
    assert [one.tiles.constants for one in found.candidates if not one.default and one.tiles.constants] == []
    names = {one.name.split(",")[0] for one in found.refused}
    assert names == {f"BLOCK_M={m} BLOCK_N=256 GROUP_M=8" for m in (100, 256)}
    assert all(one.why for one in found.refused)


def test_equally_good_schedules_are_candidates_of_their_own() -> None:
    one = asked()
    several = ExploreRequest(
        one.target, values=one.values, sizes=SIZES, top=3, options=SolveOptions(fuse=False, blocks=1)
    )
    found = explore(several, H100)
    assert len(found.candidates) > 1 and len({c.schedule.ii for c in found.candidates}) == 1
    assert len({c.name for c in found.candidates}) == len(found.candidates)


def test_values_of_an_unknown_constexpr_are_refused() -> None:
    with pytest.raises(exc.MalformedFlag, match="no constexpr of gemm"):
        explore(asked(WIDTH=(1,)), H100)
