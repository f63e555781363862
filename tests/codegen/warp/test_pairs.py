"""Promises of `twill.codegen.warp.pairs`: every instance is worked on by one CTA, a missing one by its neighbour's
twice."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from twill.codegen.warp.pairs import ClusterMember, paired
from twill.codegen.warp.program import NEIGHBOUR, PRESENT, Cluster
from twill.tile.interpret.sequential import instances

SIZES = st.integers(0, 5)


@given(SIZES, SIZES, SIZES, st.integers(0, 2))
def test_every_instance_is_present_once(first: int, second: int, third: int, axis: int) -> None:
    grid, cluster = (first, second, third), Cluster(axis)
    seats = [ClusterMember(cluster, rank, grid) for rank in range(2)]
    met: Counter[tuple[int, int, int]] = Counter()
    for pair in instances(paired(grid, cluster)):
        own = [member.index(pair) for member in seats]
        names = [member.names(pair) for member in seats]
        assert names[0][PRESENT] == 1  # only the second can be missing
        assert own[0] == own[1] or names[1][PRESENT]
        assert [one[NEIGHBOUR] for one in names] == [own[1][axis], own[0][axis]]
        assert all(mine == theirs for a, (mine, theirs) in enumerate(zip(*own, strict=True)) if a != axis)
        met.update(index for index, name in zip(own, names, strict=True) if name[PRESENT])
    assert met == Counter(instances(grid))


def test_without_a_cluster_every_cta_has_its_own() -> None:
    assert paired((3, 4, 5), None) == (3, 4, 5)
    member = ClusterMember(None, 0, (3, 4, 5))
    assert member.index((2, 1, 0)) == (2, 1, 0) and member.names((2, 1, 0)) == {}
