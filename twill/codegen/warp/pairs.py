"""Program instances in pairs: those that the two CTAs of a cluster work on at one time.

Along the axis of the cluster instances 2i and 2i + 1 are a pair; along the others both have the same index. Where the
grid has an odd number of instances along the axis, the last pair lacks one, and the CTA that would have it repeats the
other's: it takes part in all loads and barriers, reads what exists, and stores nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.warp.program import NEIGHBOUR, PRESENT, Cluster

Index = tuple[int, int, int]


def paired(grid: Index, cluster: Cluster | None) -> Index:
    """How many pairs there are along each axis; the grid itself without a cluster."""
    if cluster is None:
        return grid
    first, second, third = (
        -(-size // cluster.ctas) if axis == cluster.axis else size for axis, size in enumerate(grid)
    )
    return first, second, third


@dataclass(frozen=True)
class ClusterMember:
    """A CTA's place in its cluster. rank: 0 or 1; 0 without a cluster."""

    cluster: Cluster | None
    rank: int
    grid: Index

    def index(self, pair: Index) -> Index:
        """The grid indices of the CTA's instance of a pair."""
        return pair if self.cluster is None else self._at(pair, self.rank)[0]

    def names(self, pair: Index) -> dict[str, int]:
        """What expressions call that instance's presence, and its neighbour's index along the axis."""
        if self.cluster is None:
            return {}
        other = self._at(pair, self.cluster.ctas - 1 - self.rank)[0]
        return {PRESENT: int(self._at(pair, self.rank)[1]), NEIGHBOUR: other[self.cluster.axis]}

    def _at(self, pair: Index, rank: int) -> tuple[Index, bool]:
        """The indices of the instance that the CTA of a rank works on, and whether it is its own."""
        assert self.cluster is not None
        axis, size = self.cluster.axis, self.grid[self.cluster.axis]
        wanted = pair[axis] * self.cluster.ctas + rank
        found = list(pair)
        found[axis] = min(wanted, size - 1)
        return (found[0], found[1], found[2]), wanted < size
