"""What the lanes of a warp know of one another: whose accesses of shared memory an arrival of some of them covers.

A warp's clock counts for all of its lanes, but lanes run each on their own. What one did is ordered before what another
does by a barrier of the warp, the CTA or the cluster (PTX ISA, "bar.warp.sync"); shuffles and votes let lanes meet and
order no memory. So where one lane arrives for all, what the others did since the warp's last barrier is not covered:
those who wait for the arrival learn of the warp up to the epoch before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twill.ptx.arrays import lowest

Array = Any  # np.ndarray
WARP = 32
NEVER = np.iinfo(np.int32).max


class Lanes:
    """since: [warp, lane], the epoch of the lane's first access since its warp last met, `NEVER` if there is none."""

    def __init__(self, warps: int) -> None:
        self.since = np.full((warps, WARP), NEVER, np.int32)

    def access(self, warps: Array, lanes: Array, epochs: Array) -> None:
        """Lanes access shared memory in epochs of their warps; arrays that broadcast together."""
        self.since[warps, lanes] = np.minimum(self.since[warps, lanes], epochs)

    def meet(self, warps: Array | list[int]) -> None:
        """The lanes of each warp wait for one another: each knows then what all of them did."""
        self.since[warps] = NEVER

    def covered(self, warp: int, lanes: Array) -> int:
        """The last epoch of a warp of which some lanes [32] together know all accesses."""
        others = self.since[warp][~lanes]
        return lowest(others) - 1 if len(others) else NEVER
